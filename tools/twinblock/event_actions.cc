// The verb `events`.
#include <unistd.h>

#include <cstdio>

#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/event_text.h"
#include "twinblock/json_fields.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

using nlohmann::json;

// The node answers one that waits after 25 s at the latest.
constexpr uint64_t kWaitTimeout_ns = 40 * kSecond_ns;
constexpr uint64_t kRetry_ns = 500 * kMillisecond_ns;

// Prints events as they come, and remembers which was the last one.
class EventPrinter {
 public:
  EventPrinter(bool print_json, uint64_t since) : print_json_(print_json), since_(since) {}

  [[nodiscard]] uint64_t since() const { return since_; }
  // Whether there are more already.
  [[nodiscard]] bool more() const { return since_ < last_; }

  // False when the output is gone.
  [[nodiscard]] bool take(const json& answer) {
    // Another process of the node counts from 1 again.
    const std::string instance = text_at(answer, "instance");
    const bool restarted = !instance_.empty() && instance != instance_;
    instance_ = instance;
    last_ = count_at(answer, "last");
    if (restarted || since_ > last_) {
      since_ = 0;
      // What the answer holds was asked for by the number of another process.
      if (restarted) return true;
    }
    if (const uint64_t dropped = count_at(answer, "dropped"); dropped > 0)
      print(dropped_event(dropped));
    for (const json& event : array_at(answer, "events")) {
      print(event);
      since_ = std::max(since_, count_at(event, "number"));
    }
    return std::fflush(stdout) == 0;
  }

 private:
  void print(const json& event) const {
    const std::string line = print_json_ ? json_text(event) : event_line(event);
    std::printf("%s\n", line.c_str());
  }

  const bool print_json_;
  uint64_t since_;
  uint64_t last_ = 0;
  std::string instance_;
};

}  // namespace

Result<Output> run_events(const Options& options, const std::string& socket) {
  EventPrinter printer(options.print_json, options.events.since);
  Output output;
  output.printed = true;
  bool heard = false;
  bool complained = false;
  while (true) {
    const bool wait = options.events.follow && heard && !printer.more();
    const Result<json> answer =
        control_request(socket, "events", json{{"since", printer.since()}, {"wait", wait}},
                        wait ? kWaitTimeout_ns : kAskTimeout_ns, STDOUT_FILENO);
    if (answer) {
      heard = true;
      complained = false;
      if (!printer.take(answer.value())) return output;
      if (!options.events.follow && !printer.more()) return output;
      continue;
    }
    // `events --follow | head -1` ends with head, and not with the next event.
    if (has_hung_up(STDOUT_FILENO)) return output;
    // A node that is being restarted is waited for.
    if (!options.events.follow || !heard || answer.error().code != kExitUnreachable)
      return answer.error();
    if (!complained)
      std::fprintf(stderr, "twinblock: %s; waiting for it\n", answer.error().what.c_str());
    complained = true;
    sleep_ns(kRetry_ns);
  }
}

}  // namespace twinblock
