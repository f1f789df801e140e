#include "twinblock/profile.h"

#include <cstdint>

#include "twinblock/exit_status.h"
#include "twinblock/profile_lines.h"

namespace twinblock {
namespace {

// Longer ones come from no tool that is read here.
constexpr size_t kLineBytesMax = size_t{1} << 20;
// What is parsed as a whole takes some ten times its size in memory.
constexpr size_t kJsonBytesMax = size_t{32} << 20;

constexpr const char* kFormats =
    "these are read: iostat -x -t, iostat -o JSON -x -t, sar -d, sadf -j FILE -- -d, Performance "
    "Monitor's CSV, "
    "fio --output-format=json";

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&out](uint32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
  } else {
    put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
  }
}

// What lies beyond 16 bits is in no counter's name that is looked for: its halves become question
// marks.
std::string from_utf16(std::string_view bytes, bool little_endian) {
  std::string out;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const auto second = static_cast<unsigned char>(bytes[i + 1]);
    const uint32_t code = little_endian ? first | second << 8U : second | first << 8U;
    append_utf8(out, code >= 0xd800 && code < 0xe000 ? '?' : code);
  }
  return out;
}

std::string as_utf8(std::string_view bytes) {
  if (bytes.starts_with("\xff\xfe")) return from_utf16(bytes.substr(2), true);
  if (bytes.starts_with("\xfe\xff")) return from_utf16(bytes.substr(2), false);
  if (bytes.starts_with("\xef\xbb\xbf")) bytes.remove_prefix(3);
  return std::string(bytes);
}

// No line is too long, and none has what no text has.
Status check_lines(std::string_view text) {
  return each_line(text, [](std::string_view line, size_t number) -> Status {
    if (line.size() > kLineBytesMax) return profile_error(number, "it is longer than 1 MiB", kFormats);
    for (const char each : line)
      if ((static_cast<unsigned char>(each) < ' ' && each != '\t') || each == 0x7f)
        return profile_error(number, "this is no text", kFormats);
    return ok_status();
  });
}

bool has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

// A line of the text's beginning that starts so.
bool has_line(std::string_view text, std::string_view start) {
  return text.starts_with(start) || has(text, "\n" + std::string(start));
}

Result<Profile> parse_text(std::string_view text, const ProfileDevices& devices) {
  const std::string_view head = text.substr(0, 64 * 1024);
  if (has(head.substr(0, 64), "(PDH-CSV")) return parse_perfmon(text, devices);
  const bool is_json = has_line(head, "{");
  if (is_json && text.size() > kJsonBytesMax)
    return refused("it is longer than 32 MiB, the most that is read of JSON",
                   "record it as text, or in several files");
  if (is_json && has(head, "\"sysstat\"")) {
    const bool sadf = has(head, "\"timestamp\": {") || has(head, "\"disk-device\"");
    return sadf ? parse_sadf_json(text, devices) : parse_iostat_json(text, devices);
  }
  if (is_json && (has(text, "\"jobs\"") || has(head, "\"fio version\"")))
    return parse_fio(text, devices);
  if (is_json) {
    const Result<nlohmann::json> read = profile_json(text);
    return read ? refused("line 1: this JSON is neither iostat's nor sadf's nor fio's", kFormats)
                : read.error();
  }
  if (has_line(head, "Device")) return parse_iostat(text, devices);
  if (has(head, " DEV ") || has(head, "\tDEV ")) return parse_sar(text, devices);
  return refused("line 1: " + shown(text.substr(0, text.find_first_of("\r\n"))) +
                     " begins none of the recordings that are read",
                 kFormats);
}

}  // namespace

Result<Profile> parse_profile(std::string_view bytes, const ProfileDevices& devices) {
  const std::string text = as_utf8(bytes);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return refused("it is empty");
  if (const Status good = check_lines(text); !good) return good.error();
  return parse_text(text, devices);
}

}  // namespace twinblock
