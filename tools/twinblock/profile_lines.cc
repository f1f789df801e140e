#include "twinblock/profile_lines.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <utility>

#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

// A disk that writes so many bytes a second is a slip, and its sums would lose what the others have.
constexpr double kNumberMost = 1e15;

std::optional<unsigned> small_number(std::string_view text) {
  unsigned value = 0;
  if (text.empty() || text.size() > 4) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

size_t line_at(std::string_view text, size_t at) {
  return 1 + static_cast<size_t>(std::count(
                 text.begin(),
                 text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n'));
}

}  // namespace

Error profile_error(size_t line, const std::string& reason, std::string action) {
  return refused("line " + std::to_string(line) + ": " + reason, std::move(action));
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string_view> words;
  size_t at = line.find_first_not_of(kBlanks);
  while (at != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

std::string shown(std::string_view text) {
  std::string out(text.substr(0, 40));
  for (char& each : out)
    if (each < ' ' || each > '~') each = '?';
  return "'" + out + (text.size() > 40 ? "…'" : "'");
}

namespace {

// Any, however large.
std::optional<double> any_number(std::string_view text) {
  if (text.empty() || text.size() > 60) return std::nullopt;
  std::string word(text);
  const size_t comma = word.find(',');
  if (comma != std::string::npos) {
    if (word.find('.') != std::string::npos) return std::nullopt;
    word[comma] = '.';
  }
  if (word[0] < '0' || word[0] > '9') return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<double> profile_number(std::string_view text) {
  const auto value = any_number(text);
  return value && *value <= kNumberMost ? value : std::nullopt;
}

std::string number_fault(std::string_view text) {
  return shown(text) + (any_number(text) ? " is more than any disk writes" : " is not a number of 0 or more");
}

std::optional<int64_t> profile_date(std::string_view text) {
  const size_t first_end = text.find_first_of("/.-");
  if (first_end == std::string_view::npos) return std::nullopt;
  const char separator = text[first_end];
  const size_t second_end = text.find(separator, first_end + 1);
  if (second_end == std::string_view::npos) return std::nullopt;
  const auto a = small_number(text.substr(0, first_end));
  const auto b = small_number(text.substr(first_end + 1, second_end - first_end - 1));
  const auto c = small_number(text.substr(second_end + 1));
  if (!a || !b || !c) return std::nullopt;
  unsigned year = *c;
  unsigned month = *a;
  unsigned day = *b;
  if (first_end == 4 || separator == '-') {
    year = *a, month = *b, day = *c;
  } else if (separator == '.' || month > 12) {
    std::swap(month, day);
  }
  if (year < 100) year += 2000;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(year)),
                                         std::chrono::month(month), std::chrono::day(day)};
  if (!date.ok() || year < 1970) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count();
}

std::optional<double> profile_clock(std::string_view text, std::string_view half) {
  if (text.size() < 7) return std::nullopt;
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const auto hours = small_number(text.substr(0, first));
  const auto minutes = small_number(text.substr(first + 1, second - first - 1));
  const auto seconds = profile_number(text.substr(second + 1));
  if (!hours || !minutes || !seconds || *hours > 23 || *minutes > 59 || *seconds >= 61)
    return std::nullopt;
  unsigned hour = *hours;
  if (half == "AM" || half == "PM") {
    if (hour < 1 || hour > 12) return std::nullopt;
    hour = hour % 12 + (half == "PM" ? 12 : 0);
  } else if (!half.empty()) {
    return std::nullopt;
  }
  return hour * 3600.0 + *minutes * 60.0 + *seconds;
}

std::optional<double> profile_time(std::string_view text) {
  std::string spaced(text);
  // ISO 8601: "2026-11-25T07:58:31+0100". The zone stays out: all times are taken as they are
  // written.
  if (const size_t t = spaced.find('T'); t == 10) {
    spaced[t] = ' ';
    if (const size_t zone = spaced.find_first_of("+-Z", t); zone != std::string::npos)
      spaced.resize(zone);
  }
  const std::vector<std::string_view> words = words_of(spaced);
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  const auto day = profile_date(words[0]);
  const auto clock = profile_clock(words[1], words.size() == 3 ? words[2] : std::string_view());
  if (!day || !clock) return std::nullopt;
  return static_cast<double>(*day) * 86400.0 + *clock;
}

bool ProfileLines::next(std::string_view& line) {
  if (rest_.empty()) return false;
  const size_t end = rest_.find('\n');
  line = rest_.substr(0, end);
  rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  ++number_;
  return true;
}

Result<nlohmann::json> profile_json(std::string_view text) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const bool ended = error.byte >= text.size();
    return profile_error(
        line_at(text, error.byte),
        ended ? "the JSON ends too early" : "this is no JSON from here on",
        ended ? "let the tool end by itself, or by Ctrl-C, so that it closes its file" : "");
  } catch (const nlohmann::json::exception&) {
    return profile_error(1, "a number in the JSON is too large");
  }
}

Status each_sysstat_report(std::string_view text,
                           const std::function<Status(const nlohmann::json& report, bool first)>& take) {
  const Result<nlohmann::json> read = profile_json(text);
  if (!read) return read.error();
  const nlohmann::json& all = read.value();
  if (!all.is_object() || !all.contains("sysstat") || !all["sysstat"].is_object() ||
      !all["sysstat"].contains("hosts") || !all["sysstat"]["hosts"].is_array())
    return profile_error(1, "there is no list \"hosts\" in \"sysstat\"");
  size_t taken = 0;
  for (const nlohmann::json& host : all["sysstat"]["hosts"]) {
    if (!host.is_object() || !host.contains("statistics") || !host["statistics"].is_array())
      return profile_error(1, "a host has no \"statistics\"");
    bool first = true;
    for (const nlohmann::json& report : host["statistics"]) {
      if (const Status right = take(report, std::exchange(first, false)); !right)
        return profile_error(line_of_word(text, "\"timestamp\"", taken),
                             "in the report that begins here: " + right.error().what, right.error().action);
      ++taken;
    }
  }
  return ok_status();
}

Status check_numbers(const std::vector<std::string_view>& words, size_t first, size_t line) {
  for (size_t i = first; i < words.size(); ++i)
    if (!profile_number(words[i]))
      return profile_error(line, "column " + std::to_string(i + 1) + ": " + number_fault(words[i]));
  return ok_status();
}

std::optional<double> profile_member(const nlohmann::json& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return value >= 0 && value <= kNumberMost ? std::optional(value) : std::nullopt;
}

size_t line_of_word(std::string_view text, std::string_view word, size_t count) {
  size_t at = text.find(word);
  for (size_t i = 0; i < count && at != std::string_view::npos; ++i) at = text.find(word, at + 1);
  return line_at(text, at == std::string_view::npos ? text.size() : at);
}

}  // namespace twinblock
