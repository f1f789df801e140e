#include "config/value_readers.h"

#include <algorithm>
#include <filesystem>
#include <optional>

namespace twinblock {

std::string read_path(const ConfigTable& table, const std::string& key, const std::string& example,
                      bool required) {
  const std::optional<std::string> text = table.text(key, key + " = \"" + example + "\"", required);
  if (!text) return {};
  const bool controls = std::any_of(text->begin(), text->end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (!text->starts_with('/') || controls) {
    table.fail(key, key + ": '" + *text + "' is not an absolute path",
               "write " + key + " = \"" + example + "\"");
    return {};
  }
  // Two spellings of one path must compare equal.
  std::string path = std::filesystem::path(*text).lexically_normal().string();
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

uint64_t read_timeout(const ConfigTable& table, const std::string& key, uint64_t otherwise_ns,
                      const TimeoutRange& range) {
  const std::string example =
      key + " = \"" +
      (otherwise_ns % kSecond_ns == 0 ? std::to_string(otherwise_ns / kSecond_ns) + "s"
                                      : std::to_string(otherwise_ns / kMillisecond_ns) + "ms") +
      "\"";
  const std::optional<std::string> text = table.text(key, example, false);
  if (!text) return otherwise_ns;
  const std::optional<uint64_t> duration_ns = parse_duration_ns(*text);
  if (!duration_ns)
    table.fail(key, key + ": '" + *text + "' is not a duration", "write " + example);
  else if (*duration_ns < range.min_ns || *duration_ns > range.max_ns)
    table.fail(key, key + ": '" + *text + "' is out of range", std::string("choose from ") + range.text);
  return duration_ns.value_or(otherwise_ns);
}

std::string list_choices(std::span<const char* const> choices) {
  std::string list;
  for (size_t i = 0; i < choices.size(); ++i)
    list += std::string(i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + "\"" + choices[i] + "\"";
  return list;
}

size_t read_choice(const ConfigTable& table, const std::string& key,
                   std::span<const char* const> choices, size_t otherwise) {
  const std::string example = key + " = \"" + choices[otherwise] + "\"";
  const std::optional<std::string> text = table.text(key, example, false);
  if (!text) return otherwise;
  for (size_t i = 0; i < choices.size(); ++i)
    if (*text == choices[i]) return i;
  table.fail(key, "'" + *text + "' is not a value of '" + key + "'", "choose " + list_choices(choices));
  return otherwise;
}

}  // namespace twinblock
