#include "twinblock/wait.h"

#include <algorithm>
#include <charconv>

#include "base/units.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/sync_text.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

constexpr uint64_t kPollInterval_ns = 200 * kMillisecond_ns;
// A node that is silent for longer while it verifies is taken for gone.
constexpr uint64_t kSilenceMax_ns = 10 * kSecond_ns;

Error timed_out(const std::string& goal, const WaitLimit& limit, const nlohmann::json& last) {
  std::string what = "not " + goal + " after " + format_duration(limit.ns) +
                     (limit.while_still ? " in which the resync got no further" : " (--timeout)") + ": state " +
                     text_at(last, "state") + ", role " + text_at(last, "role");
  if (const std::string status = text_at(last, "status"); !status.empty()) what += ". " + status;
  return Error{what, text_at(last, "action"), kExitTimedOut};
}

// Whether a resync has got on: more is done, or less is left, than ever before. One that was cut off goes on from nothing
// done, with what was left. Where clients have written meanwhile, or the source is a new process, it begins with more than
// that, and is measured anew; one that begins so again and again does not get on.
class Progress {
 public:
  bool gets_on(const nlohmann::json& status) {
    const nlohmann::json resync = object_at(status, "resync");
    if (!flag_at(resync, "active")) {
      active_ = false;
      return false;
    }
    const uint64_t done = count_at(resync, "bytes_done");
    const uint64_t left = count_at(resync, "bytes_total") - std::min(done, count_at(resync, "bytes_total"));
    const bool begins = !active_ || done < last_done_;
    active_ = true;
    last_done_ = done;
    const bool further = done > most_done_ || left < least_left_;
    if (begins && left > least_left_ && begun_anew_ < kBegunAnewMax) {
      ++begun_anew_;
      most_done_ = done;
      least_left_ = left;
    }
    most_done_ = std::max(most_done_, done);
    least_left_ = std::min(least_left_, left);
    return further;
  }

 private:
  static constexpr unsigned kBegunAnewMax = 3;

  bool active_ = false;
  uint64_t last_done_ = 0;
  unsigned begun_anew_ = 0;
  uint64_t most_done_ = 0;
  uint64_t least_left_ = UINT64_MAX;
};

}  // namespace

const std::vector<std::string>& wait_goals() {
  static const std::vector<std::string> goals{"duplex",  "whole",     "connected", "promotable",
                                              "primary", "secondary", "simplex",   "resync"};
  return goals;
}

bool wait_goal_reached(const nlohmann::json& status, const std::string& goal) {
  if (goal == "connected") return flag_at(object_at(status, "peer"), "connected");
  if (goal == "whole") {  // whether a node is primary or not
    const std::string state = text_at(status, "state");
    return state == "duplex" || state == "connected" || state == "degraded";
  }
  if (goal == "promotable")
    return flag_at(status, "promotable") || text_at(status, "role") == "primary";
  if (goal == "primary" || goal == "secondary") return text_at(status, "role") == goal;
  if (goal == "resync") return flag_at(object_at(status, "resync"), "active");
  return text_at(status, "state") == goal;
}

std::optional<uint64_t> parse_wait_timeout(const std::string& text) {
  const bool plain = !text.empty() && (text.back() >= '0' && text.back() <= '9');
  return parse_duration_ns(plain ? text + "s" : text);
}

Result<nlohmann::json> wait_for(const std::string& goal, const WaitLimit& limit,
                                const WaitActions& actions) {
  uint64_t start_ns = actions.now_ns();
  Progress progress;
  std::optional<nlohmann::json> last;
  while (true) {
    const Result<nlohmann::json> status = actions.poll();
    if (status) {
      if (progress.gets_on(status.value()) && limit.while_still) start_ns = actions.now_ns();
      last = status.value();
      actions.report(*last);
      if (wait_goal_reached(*last, goal)) return *last;
    } else if (status.error().code != kExitUnreachable) {
      return status.error();
    }
    const uint64_t passed_ns = actions.now_ns() - start_ns;
    if (passed_ns >= limit.ns) {
      if (!last) return status.error();
      return timed_out(goal, limit, *last);
    }
    actions.sleep(std::min(kPollInterval_ns, limit.ns - passed_ns));
  }
}

Result<nlohmann::json> wait_for_verification(const WaitActions& actions) {
  uint64_t heard_ns = actions.now_ns();
  while (true) {
    const Result<nlohmann::json> status = actions.poll();
    if (status) {
      heard_ns = actions.now_ns();
      const nlohmann::json verify = object_at(status.value(), "verify");
      if (!verify.is_object())
        return refused("the node knows of no verification any more: it was restarted",
                       "begin anew");
      if (!flag_at(verify, "active")) return verify;
      actions.report(status.value());
    } else if (status.error().code != kExitUnreachable ||
               actions.now_ns() - heard_ns > kSilenceMax_ns) {
      return status.error();
    }
    actions.sleep(kPollInterval_ns);
  }
}

Output verification_output(const nlohmann::json& verify) {
  Output output{verify, paragraph(verify_result(verify))};
  if (count_at(verify, "differing_bytes") > 0)
    output.exit_status = kExitDiffer;
  else if (text_at(verify, "ended") != "complete")
    output.exit_status = kExitRefused;
  return output;
}

}  // namespace twinblock
