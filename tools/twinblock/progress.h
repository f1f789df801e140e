// Shows how a resync or a verification proceeds while a command waits for it: one line that is
// drawn over on a terminal, plain lines at every tenth otherwise.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// "[########------------] 40.0%, …" for a bar of `width` characters, `percent` full, before `line`.
std::string progress_bar(double percent, const std::string& line, size_t width);

// A line that is drawn over on a terminal, at most `columns` wide there, or a plain one otherwise.
class ProgressLine {
 public:
  // `out` must outlive this. `columns` 0: not a terminal.
  ProgressLine(std::FILE* out, size_t columns) : out_(out), columns_(columns) {}
  [[nodiscard]] bool terminal() const { return columns_ > 0; }
  void draw(const std::string& line);
  // Takes the drawn line away.
  void clear();
  // A line that stays.
  void print(const std::string& line);

 private:
  std::FILE* out_;
  size_t columns_;
  bool drawn_ = false;
};

// What `wait` shows: the resync, or why there is none.
class ResyncDisplay {
 public:
  ResyncDisplay(std::FILE* out, size_t columns) : line_(out, columns) {}
  void show(const nlohmann::json& status);
  // Ends the drawn line and, when a resync ended since the first show(), says how it went: a short
  // one begins and ends between two polls.
  void finish(const nlohmann::json& status);

 private:
  std::string hold_of(const nlohmann::json& status);

  ProgressLine line_;
  bool started_ = false;
  nlohmann::json last_resync_before_;
  int tenth_shown_ = -1;
  std::string shown_;  // the last plain line that was not a bar, or what held the resync back
  uint64_t done_bytes_ = 0;
  size_t polls_still_ = 0;  // in a row, in which nothing moved
};

// What `verify` shows.
class VerifyDisplay {
 public:
  VerifyDisplay(std::FILE* out, size_t columns) : line_(out, columns) {}
  void show(const nlohmann::json& verify);
  void finish() { line_.clear(); }

 private:
  ProgressLine line_;
  int tenth_shown_ = -1;
};

// The width of the terminal behind `fd`; 0 when it is none.
size_t terminal_columns(int fd);

}  // namespace twinblock
