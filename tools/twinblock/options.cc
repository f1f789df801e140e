#include "twinblock/options.h"

#include <algorithm>

#include "base/snapshot_name.h"
#include "base/units.h"
#include "twinblock/did_you_mean.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

constexpr const char* kPaceUsage =
    "write: twinblock resync VOLUME pause, … resume, … auto, or … rate 100MiB";
// One block a second: less is a slip, such as a unit forgotten.
constexpr uint64_t kRateBytesMin = 4 * kKiB;

bool is_pace(const std::string& word) {
  return word == "pause" || word == "resume" || word == "auto" || word == "rate";
}

// What comes last may be the goal; a volume may be called like one.
Status read_goal(Options& options) {
  std::vector<std::string> words = options.wait.words;
  const std::vector<std::string>& goals = wait_goals();
  std::string names;
  for (const std::string& goal : goals) names += (names.empty() ? "" : ", ") + goal;
  const std::string usage = "write: twinblock wait VOLUME GOAL; the goals are " + names;
  const bool has_goal =
      !words.empty() && std::find(goals.begin(), goals.end(), words.back()) != goals.end();
  if (options.wait.goal.empty() && has_goal) {
    options.wait.goal = words.back();
    words.pop_back();
  } else if (!options.wait.goal.empty() && has_goal && words.size() > 1) {
    return wrong_usage("wait: '" + words.back() + "' and --for " + options.wait.goal +
                           " contradict each other",
                       usage);
  } else if (words.size() > 1) {
    return wrong_usage("wait: '" + words.back() + "' is not a state to wait for",
                       did_you_mean(words.back(), goals) + usage);
  }
  if (words.size() > 1) return wrong_usage("wait: '" + words[1] + "' is too much", usage);
  if (!words.empty()) options.node.volume = words.front();
  if (options.wait.goal.empty()) options.wait.goal = kWaitGoalDefault;
  return ok_status();
}

}  // namespace

Status prepare_pace(Options& options) {
  std::vector<std::string> words = options.resync.words;
  // A volume may be called like a pace: what comes last is the pace.
  const bool has_rate = words.size() >= 2 && words[words.size() - 2] == "rate";
  const size_t pace_words = has_rate ? 2 : 1;
  if (words.empty() || !is_pace(words[words.size() - pace_words]))
    return wrong_usage(
        words.empty() ? "resync: no pace given" : "resync: '" + words.back() + "' is not a pace",
        kPaceUsage);
  if (words.size() > pace_words + 1)
    return wrong_usage("resync: '" + words[1] + "' is too much", kPaceUsage);
  if (words.size() == pace_words + 1) options.node.volume = words.front();
  options.resync.pace = words[words.size() - pace_words];
  options.resync.rate_bytes_per_s = 0;
  if (options.resync.pace != "rate") return ok_status();
  if (!has_rate) return wrong_usage("resync: rate needs a number", kPaceUsage);
  std::string rate = words.back();
  if (rate.ends_with("/s")) rate.resize(rate.size() - 2);
  const std::optional<uint64_t> bytes = parse_size_bytes(rate);
  if (!bytes)
    return wrong_usage("resync: rate: '" + words.back() + "' is not a number of bytes a second",
                       "write it like 100MiB or 50MB");
  if (*bytes < kRateBytesMin)
    return wrong_usage(
        "resync: rate: " + words.back() + " is less than " + format_size(kRateBytesMin) +
            " a second",
        "write it like 100MiB or 50MB; `twinblock resync VOLUME pause` stops it altogether");
  options.resync.rate_bytes_per_s = *bytes;
  return ok_status();
}

Status prepare_wait(Options& options) {
  if (Status read = read_goal(options); !read) return read;
  const std::string& timeout = options.wait.timeout;
  const std::optional<uint64_t> timeout_ns = parse_wait_timeout(timeout.empty() ? kWaitTimeoutDefault : timeout);
  if (!timeout_ns)
    return wrong_usage("--timeout: '" + options.wait.timeout + "' is not a duration",
                       "write it like 60s, 500ms or 2min");
  options.wait.timeout_ns = *timeout_ns;
  return ok_status();
}

Status prepare_grow(Options& options) {
  const std::vector<std::string>& words = options.grow.words;
  const std::string usage = "write it like: twinblock grow r0 20GiB, which is how large r0 is to be";
  if (words.empty()) return wrong_usage("grow: no size given", usage);
  if (words.size() > 2) return wrong_usage("grow: '" + words[2] + "' is too much", usage);
  const std::optional<uint64_t> bytes = parse_size_bytes(words.back());
  if (!bytes) return wrong_usage("grow: '" + words.back() + "' is not a size", usage);
  if (words.size() == 2) options.node.volume = words.front();
  options.grow.size_bytes = *bytes;
  return ok_status();
}

Status prepare_snapshot(Options& options) {
  const std::vector<std::string>& words = options.snapshot.words;
  const std::string usage = "write it like: twinblock snapshot r0 before-upgrade";
  if (words.empty()) return wrong_usage("snapshot: no name given", usage);
  if (words.size() > 2) return wrong_usage("snapshot: '" + words[2] + "' is too much", usage);
  if (!is_snapshot_name(words.back()))
    return wrong_usage("snapshot: '" + words.back() + "' can't be a name",
                       std::string("a name is ") + kSnapshotNameRule);
  if (words.size() == 2) options.node.volume = words.front();
  options.snapshot.name = words.back();
  return ok_status();
}

Status prepare_promote(Options& options) {
  const PromoteOptions& promote = options.promote;
  if (promote.without_witness && !promote.peer_is_dead)
    return wrong_usage("promote: --without-witness goes with --peer-is-dead only",
                       "make sure that the peer is down and stays so, then give both");
  return ok_status();
}

Status prepare_verify(Options& options) {
  const VerifyOptions& verify = options.verify;
  if (verify.stop && (verify.repair || verify.detach || verify.follow))
    return wrong_usage("--stop goes with no other option of verify");
  if (verify.detach && verify.follow)
    return wrong_usage("--detach and --wait contradict each other");
  return ok_status();
}

Status prepare_attach(Options& options) {
  const std::string& method = options.attach.method;
  if (options.attach.stay && method != kMethodAuto && method != kMethodNbd)
    return wrong_usage("--stay looks after a device of the kernel's nbd, and not of " + method,
                       "leave --method out");
  return ok_status();
}

}  // namespace twinblock
