// The verb `events`.
#include <unistd.h>

#include <cstdio>

#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/event_cursor.h"
#include "twinblock/event_text.h"
#include "twinblock/json_fields.h"
#include "twinblock/process.h"
#include "twinblock/standard_output.h"

namespace twinblock {
namespace {

using nlohmann::json;

// The node answers one that waits after 25 s at the latest.
constexpr uint64_t kWaitTimeout_ns = 40 * kSecond_ns;
constexpr uint64_t kRetry_ns = 500 * kMillisecond_ns;

// Prints events as they come, and remembers which was the last one.
class EventPrinter {
 public:
  EventPrinter(bool print_json, uint64_t since) : print_json_(print_json), cursor_(since) {}

  [[nodiscard]] const EventCursor& cursor() const { return cursor_; }

  // As flush_output().
  [[nodiscard]] Result<bool> take(const json& answer) {
    if (!cursor_.take(answer)) return true;
    std::string lines;
    if (const uint64_t dropped = count_at(answer, "dropped"); dropped > 0) lines += line(dropped_event(dropped));
    for (const json& event : array_at(answer, "events")) lines += line(event);
    std::fputs(lines.c_str(), stdout);
    return flush_output();
  }

 private:
  [[nodiscard]] std::string line(const json& event) const {
    return (print_json_ ? json_text(event) : event_line(event)) + "\n";
  }

  const bool print_json_;
  EventCursor cursor_;
};

}  // namespace

Result<Output> run_events(const Options& options, const std::string& socket) {
  EventPrinter printer(options.print_json, options.events.since);
  Output output;
  output.printed = true;
  bool heard = false;
  bool complained = false;
  while (true) {
    const bool wait = options.events.follow && heard && !printer.cursor().more();
    const Result<json> answer =
        control_request(socket, "events", json{{"since", printer.cursor().since()}, {"wait", wait}},
                        wait ? kWaitTimeout_ns : kAskTimeout_ns, STDOUT_FILENO);
    if (answer) {
      heard = true;
      complained = false;
      const Result<bool> told = printer.take(answer.value());
      if (!told) return told.error();
      if (!told.value()) return output;
      if (!options.events.follow && !printer.cursor().more()) return output;
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
