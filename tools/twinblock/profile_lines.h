// Lines, words, numbers and times of recordings. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace twinblock {

// "line 12: REASON", refused.
Error profile_error(size_t line, const std::string& reason, std::string action = {});

// Words between blanks.
std::vector<std::string_view> words_of(std::string_view line);

// What a file holds, for a message: at most 40 characters, none of them unprintable.
std::string shown(std::string_view text);

// Not negative and finite, with a point or a comma before the decimals; nullopt for all else.
std::optional<double> profile_number(std::string_view text);

// Why that is none: "'x20' is not a number of 0 or more".
std::string number_fault(std::string_view text);

// "11/25/2026", "25.11.2026", "2026-11-25" (years of two digits are of this century): days since
// 1970.
std::optional<int64_t> profile_date(std::string_view text);
// "07:58:31", "07:58:31.250", with AM or PM as a second word: seconds since midnight.
std::optional<double> profile_clock(std::string_view text, std::string_view half = {});
// Both, in one of the forms above, with a blank or a T between: seconds since 1970.
std::optional<double> profile_time(std::string_view text);

// The lines of a text, one at a time, without their ends.
class ProfileLines {
 public:
  explicit ProfileLines(std::string_view text) : rest_(text) {}
  // False at the end.
  bool next(std::string_view& line);
  [[nodiscard]] size_t number() const { return number_; }  // of the line last given, from 1

 private:
  std::string_view rest_;
  size_t number_ = 0;
};

// `take(line, number)` with each line of a text, to the first error.
template <typename Take>
Status each_line(std::string_view text, Take&& take) {
  ProfileLines lines(text);
  std::string_view line;
  while (lines.next(line))
    if (const Status taken = take(line, lines.number()); !taken) return taken;
  return ok_status();
}

// That the words of a table's line are numbers from the one with index `first` on.
Status check_numbers(const std::vector<std::string_view>& words, size_t first, size_t line);

// A member that is a number of 0 or more, and not absurdly large; nullopt for all else.
std::optional<double> profile_member(const nlohmann::json& object, std::string_view key);
// JSON, or an error with the line in which it is broken.
Result<nlohmann::json> profile_json(std::string_view text);
// `take(report, first)` with each report in JSON of sysstat's tools; `first`: of its host. Its error gets the line in
// which the report begins.
Status each_sysstat_report(std::string_view text,
                           const std::function<Status(const nlohmann::json& report, bool first)>& take);
// The line (from 1) of the `count`th `word`, from 0; the last line where there are fewer.
size_t line_of_word(std::string_view text, std::string_view word, size_t count);

}  // namespace twinblock
