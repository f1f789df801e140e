// Shows something again and again until the user ends it with Ctrl-C (SIGINT) or SIGTERM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "twinblock/options.h"

namespace twinblock {

// While there is one, SIGINT and SIGTERM do not end this program but pause(). One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  // Waits for `ns`; false at once when a signal comes, or came before.
  [[nodiscard]] bool pause(uint64_t ns);
};

// A picture that is drawn over itself on a terminal, without flicker: each one in one write, every
// line cleared behind its end. Elsewhere: one picture below the other.
class Screen {
 public:
  // `out` must outlive this.
  explicit Screen(std::FILE* out);
  [[nodiscard]] bool terminal() const { return terminal_; }
  // How many lines there is room for; 0: no limit.
  [[nodiscard]] size_t rows() const;
  // Lines with a newline each. True when it is written, else as not_written().
  [[nodiscard]] Result<bool> draw(const std::string& picture);

 private:
  std::FILE* out_;
  bool terminal_;
  bool drawn_ = false;
};

// Asks and draws every options.watch.interval_ns, until the user ends it: JSON with --json, else `text` of it, on
// a terminal as much as fits. A node that does not answer for a while, or is restarted, is asked again; one that
// does not answer the first time is an error.
Result<Output> watch(const Options& options, const std::function<Result<nlohmann::json>()>& ask,
                     const std::function<std::string(const nlohmann::json&)>& text);

// What a terminal is sent to draw `picture` over the one before. Pure.
std::string redraw(const std::string& picture, bool first);

}  // namespace twinblock
