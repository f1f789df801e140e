#include "twinblock/promoter.h"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>

#include "twinblock/control_client.h"
#include "twinblock/event_stream.h"
#include "twinblock/json_fields.h"
#include "twinblock/process.h"
#include "twinblock/promoter_memory.h"
#include "twinblock/stop_pause.h"

namespace twinblock {
namespace {

using nlohmann::json;

// How often the node is asked while it does not answer, or does not tell of its events.
constexpr uint64_t kLookAway_ns = 250 * kMillisecond_ns;

uint64_t wall_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond_ns + static_cast<uint64_t>(now.tv_nsec);
}

PromotionRefusal refusal_kind(const Error& error) {
  if (error.code == kExitForGood) return PromotionRefusal::kForGood;
  return error.code == kExitNow ? PromotionRefusal::kNow : PromotionRefusal::kLater;
}

std::string with_action(const Error& error) {
  return error.what + (error.action.empty() ? "" : " (to do: " + error.action + ")");
}

// Of an order that was not carried out, or may yet be. `done`: "promoted" or "demoted".
std::string not_done(const std::string& node, const std::string& done, const Error& error) {
  const bool goes_on = error.code == kExitTimedOut;
  return node + (goes_on ? " may be " + done + " yet: " : " is not " + done + ": ") + with_action(error);
}

Status check_setup(const PromoterView& view, const std::string& config, const PromoterRules& rules) {
  if (!view.witness)
    return wrong_usage(
        "volume " + view.volume + " has no witness, without which a node that can't hear the other one "
        "can't know whether it may be promoted",
        "write a table [witness] into " + config + " on both hosts, with kind = \"etcd\" and endpoints = "
        "[\"http://HOST:2379\"], or with kind = \"command\" and command = \"/PATH\" (man twinblock.toml), "
        "and restart both nodes");
  if (rules.prefer.empty() || rules.prefer == view.node || rules.prefer == view.peer)
    return ok_status();
  return wrong_usage("--prefer: volume " + view.volume + " has no node '" + rules.prefer + "'",
                     "its nodes are " + view.node + " and " + view.peer);
}

class Promoter {
 public:
  Promoter(const PromoterSetup& setup, const std::function<void(const std::string&)>& say)
      : setup_(setup), say_(say), target_(setup.target), events_(setup.socket) {}

  Result<Output> run() {
    StopPause pause;
    if (const Status there = target_.check(); !there) return there.error();
    while (true) {
      if (const Status seen = look(); !seen) return seen.error();
      const uint64_t now_ns = steady_now_ns();
      const PromoterVerdict verdict = decide_promoter(memory_.facts(), setup_.rules, now_ns);
      if (verdict.step == PromoterStep::kEnd) return over();
      tell_manager(verdict.why);
      if (act(verdict, now_ns)) continue;
      if (pause.wait(rest_ns(verdict, now_ns), {events_.fd(), target_.fd()})) continue;
      sd_notify(0, "STOPPING=1");
      memory_.end(steady_now_ns());
    }
  }

 private:
  // What the node says, and what came of the target. An error: this setup can't work.
  Status look() {
    note_target_end();
    bool restarted = false;
    const Result<std::vector<json>> events = events_.take(restarted);
    const Result<json> status = control_request(setup_.socket, "status", json::object(), kAskTimeout_ns);
    if (!status) {
      if (!memory_.facts().ending_ns) remark(status.error().what);
      memory_.see(std::nullopt, steady_now_ns());
      be_ready();
      return ok_status();
    }
    PromoterView view = promoter_view(status.value());
    if (!checked_)
      if (const Status good = check_setup(view, text_at(status.value(), "config"), setup_.rules); !good)
        return good;
    checked_ = true;
    be_ready();
    if (!memory_.facts().view) remark(view.node + " answers");
    memory_.see(std::move(view), steady_now_ns());
    if (restarted) memory_.forget_events();
    if (events)
      for (const json& event : events.value()) memory_.hear(event, wall_now_ns(), steady_now_ns());
    return ok_status();
  }

  void note_target_end() {
    const std::optional<Status> ended = target_.ended();
    if (!ended) return;
    const bool started = memory_.facts().target == TargetState::kStarting;
    if (!ended->ok() && !target_.aborted()) say_(ended->error().what);
    if (ended->ok()) say_(target_.name() + (started ? " is started" : " is stopped"));
    target_ended(started, ended->ok());
  }

  void target_ended(bool started, bool good) {
    if (started)
      memory_.target_started(good, target_.aborted(), steady_now_ns());
    else
      memory_.target_stopped(good, steady_now_ns());
  }

  // Whether that may have changed what is to be done next.
  bool act(const PromoterVerdict& verdict, uint64_t now_ns) {
    switch (verdict.step) {
      case PromoterStep::kPromote:
        promote(verdict.why);
        return true;
      case PromoterStep::kDemote:
        demote(verdict.why);
        return true;
      case PromoterStep::kStart:
        memory_.target_starts();
        begun(target_.begin_start(), true);
        return true;
      case PromoterStep::kStop:
        memory_.target_stops();
        begun(target_.begin_stop(), false);
        return true;
      case PromoterStep::kAbort:
        target_.abort(now_ns);
        return false;
      case PromoterStep::kNothing:
      case PromoterStep::kEnd:
        return false;
    }
    return false;
  }

  void begun(const Status& begun, bool start) {
    if (begun) return;
    remark(begun.error().what);
    target_ended(start, false);
  }

  void promote(const std::string& why) {
    const std::string node = memory_.facts().view->node;
    const Result<json> done = order("promote", json{{"peer_is_dead", false}});
    // One that did not last until the next look is tried again no sooner than a refused one.
    memory_.promotion_refused(done ? PromotionRefusal::kLater : refusal_kind(done.error()),
                              steady_now_ns());
    if (!done && done.error().code == kExitTimedOut) memory_.promotion_unanswered();
    remark(done ? node + " is promoted: " + why : not_done(node, "promoted", done.error()));
  }

  void demote(const std::string& why) {
    const std::string node = memory_.facts().view->node;
    const Result<json> done = order("demote", json::object());
    memory_.demotion_refused(steady_now_ns());
    if (done) memory_.demoted();
    else stays_ = done.error();
    remark(done ? node + " is demoted: " + why : not_done(node, "demoted", done.error()));
  }

  Result<json> order(const std::string& verb, const json& args) {
    return control_order(setup_.socket, verb, args, setup_.order_ns,
                         "twinblock status " + memory_.facts().view->volume);
  }

  [[nodiscard]] uint64_t rest_ns(const PromoterVerdict& verdict, uint64_t now_ns) const {
    uint64_t rest_ns = setup_.look_ns;
    if (!memory_.facts().view || events_.fd() < 0) rest_ns = std::min(rest_ns, kLookAway_ns);
    if (verdict.look_ns != 0)
      rest_ns = std::min(rest_ns, verdict.look_ns - std::min(verdict.look_ns, now_ns));
    return rest_ns;
  }

  Result<Output> over() {
    const std::optional<PromoterView>& view = memory_.facts().view;
    if (view && view->primary) {
      const bool goes_on = stays_.code == kExitTimedOut;
      return refused(view->node + (goes_on ? " is primary still: " : " stays primary: ") + stays_.what,
                     stays_.action);
    }
    if (view && memory_.facts().promotion_unanswered)
      return refused(view->node + " may be promoted yet, and nobody looks after it then: " + stays_.what, stays_.action);
    const std::string node = view ? view->node : "a node that does not answer";
    return Output{json{{"node", node}}, "nobody looks after " + node + " any more\n"};
  }

  void be_ready() {
    if (!ready_) sd_notify(0, "READY=1");
    ready_ = true;
  }

  void tell_manager(const std::string& why) {
    if (why == manager_told_) return;
    manager_told_ = why;
    sd_notify(0, ("STATUS=" + why).c_str());
  }

  // What may be so for long is said once.
  void remark(const std::string& what) {
    if (what == told_) return;
    told_ = what;
    say_(what);
  }

  const PromoterSetup& setup_;
  const std::function<void(const std::string&)>& say_;
  PromoterMemory memory_;
  TargetRunner target_;
  EventStream events_;
  Error stays_{"it was not demoted in time", "", kExitRefused};  // why it could not be demoted
  bool checked_ = false;
  bool ready_ = false;
  std::string told_;
  std::string manager_told_;
};

}  // namespace

Result<Output> run_promoter_loop(const PromoterSetup& setup,
                                 const std::function<void(const std::string&)>& say) {
  return Promoter(setup, say).run();
}

}  // namespace twinblock
