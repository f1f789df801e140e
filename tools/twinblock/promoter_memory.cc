#include "twinblock/promoter_memory.h"

#include <time.h>

#include <algorithm>
#include <cstdio>

#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

std::string stands(const std::optional<PromoterView>& view) {
  if (!view) return "";
  std::string key;
  for (const bool part : {view->primary, view->resumes, view->able, view->peer_connected,
                          view->peer_primary, view->peer_able})
    key += part ? '1' : '0';
  return key;
}

void failed(PromoterFailure& failure, uint64_t now_ns) {
  ++failure.times;
  failure.at_ns = now_ns;
}

// An event's "2026-11-21T17:33:58.123Z" as nanoseconds since 1970.
std::optional<uint64_t> parse_event_time(const std::string& text) {
  std::tm parts{};
  const char* rest = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  unsigned milliseconds = 0;
  if (rest == nullptr || std::sscanf(rest, ".%3uZ", &milliseconds) != 1) return std::nullopt;
  const time_t seconds = timegm(&parts);
  if (seconds < 0) return std::nullopt;
  return static_cast<uint64_t>(seconds) * kSecond_ns + milliseconds * kMillisecond_ns;
}

}  // namespace

void PromoterMemory::see(std::optional<PromoterView> view, uint64_t now_ns) {
  const std::string now_stands = stands(view);
  if (now_stands != stands_ || facts_.since_ns == 0) facts_.since_ns = now_ns;
  stands_ = now_stands;
  const bool same_standing = view && facts_.view && view->standing == facts_.view->standing;
  if (view && (view->primary || !same_standing)) {
    facts_.refusal.reset();
    facts_.refused = {};
  }
  if (view && view->primary) facts_.promotion_unanswered = false;
  if (view && !view->primary && !facts_.promotion_unanswered) facts_.demotion_refused = {};
  // Its event says so, too, where events are told.
  if (view && !view->primary && facts_.view && facts_.view->primary) facts_.demoted_ns = now_ns;
  if (!view && facts_.view) facts_.gone_as_primary = facts_.view->primary || facts_.view->resumes;
  facts_.view = std::move(view);
}

void PromoterMemory::hear(const json& event, uint64_t wall_now_ns, uint64_t now_ns) {
  if (text_at(event, "event") != "role" || !facts_.view) return;
  const std::optional<uint64_t> wall_ns = parse_event_time(text_at(event, "time"));
  if (!wall_ns) return;
  // A clock that was set back since makes it one of now.
  const uint64_t ago_ns = wall_now_ns - std::min(wall_now_ns, *wall_ns);
  role_changed(text_at(event, "node"), text_at(event, "role") == "primary",
               now_ns - std::min(now_ns, ago_ns));
}

void PromoterMemory::role_changed(const std::string& node, bool primary, uint64_t at_ns) {
  std::optional<uint64_t>& when_ns =
      node == facts_.view->node ? facts_.demoted_ns : facts_.peer_demoted_ns;
  if (primary)
    when_ns.reset();
  else
    when_ns = at_ns;
}

void PromoterMemory::forget_events() {
  facts_.demoted_ns.reset();
  facts_.peer_demoted_ns.reset();
}

void PromoterMemory::promotion_refused(PromotionRefusal refusal, uint64_t now_ns) {
  facts_.refusal = refusal;
  failed(facts_.refused, now_ns);
}

void PromoterMemory::demotion_refused(uint64_t now_ns) { failed(facts_.demotion_refused, now_ns); }

void PromoterMemory::target_starts() {
  facts_.target = TargetState::kStarting;
  facts_.target_term = facts_.view ? facts_.view->term : 0;
}

void PromoterMemory::target_started(bool good, bool aborted, uint64_t now_ns) {
  // What was begun of it may run.
  facts_.target = good ? TargetState::kStarted : TargetState::kUnknown;
  if (good)
    facts_.start_failed = {};
  else if (!aborted)
    failed(facts_.start_failed, now_ns);
}

void PromoterMemory::target_stopped(bool good, uint64_t now_ns) {
  facts_.target = good ? TargetState::kStopped : TargetState::kUnknown;
  if (good)
    facts_.stop_failed = {};
  else
    failed(facts_.stop_failed, now_ns);
  if (facts_.ending_ns) facts_.ending_ns = now_ns;  // what is left has its time from now on
}

void PromoterMemory::end(uint64_t now_ns) {
  if (facts_.ending_ns) return;
  facts_.ending_ns = now_ns;
  facts_.stop_failed = {};  // it is tried once more
  facts_.demotion_refused = {};
}

}  // namespace twinblock
