#include <unistd.h>

#include <cstdio>

#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/process.h"
#include "twinblock/progress.h"
#include "twinblock/status_text.h"
#include "twinblock/sync_text.h"
#include "twinblock/text_wrap.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kPollTimeout_ns = 2 * kSecond_ns;

Result<json> poll_status(const std::string& socket) {
  return control_request(socket, "status", json::object(), kPollTimeout_ns);
}

Output said(const json& result) { return Output{result, paragraph(text_at(result, "message"))}; }

// Follows a verification to its end.
Result<Output> await_verification(const Options& options, const std::string& socket) {
  VerifyDisplay display(stderr, terminal_columns(STDERR_FILENO));
  WaitActions actions;
  actions.poll = [&] { return poll_status(socket); };
  actions.report = [&](const json& status) {
    if (!options.print_json) display.show(object_at(status, "verify"));
  };
  actions.now_ns = steady_now_ns;
  actions.sleep = sleep_ns;
  const Result<json> verify = wait_for_verification(actions);
  // Also of one that was over before anybody looked.
  if (verify && !options.print_json) display.show(verify.value());
  display.finish();
  if (!verify) return verify.error();
  return verification_output(verify.value());
}

}  // namespace

Result<Output> run_wait(const Options& options, const std::string& socket) {
  ResyncDisplay display(stderr, terminal_columns(STDERR_FILENO));
  WaitActions actions;
  actions.poll = [&] { return poll_status(socket); };
  actions.report = [&](const json& status) {
    if (options.wait.progress) display.show(status);
  };
  actions.now_ns = steady_now_ns;
  actions.sleep = sleep_ns;
  const WaitLimit limit{options.wait.timeout_ns, options.wait.progress && options.wait.timeout.empty()};
  const Result<json> status = wait_for(options.wait.goal, limit, actions);
  if (options.wait.progress) display.finish(status ? status.value() : json());
  if (!status) return status.error();
  return Output{status.value(), short_status(status.value())};
}

Result<Output> run_resync(const Options& options, const std::string& socket) {
  json args{{"pace", options.resync.pace}};
  if (options.resync.pace == "rate") args["bytes_per_s"] = options.resync.rate_bytes_per_s;
  const Result<json> changed = control_request(socket, "resync", args, kAskTimeout_ns);
  if (!changed) return changed.error();
  return said(changed.value());
}

Result<Output> run_verify(const Options& options, const std::string& socket) {
  if (options.verify.follow) {
    const Result<json> status = poll_status(socket);
    if (!status) return status.error();
    const json verify = object_at(status.value(), "verify");
    if (flag_at(verify, "active")) {
      if (options.verify.repair && !flag_at(verify, "repair"))
        return refused("the verification that is under way does not repair",
                       "stop it first: " + next_command(options, "verify") + " --stop");
      return await_verification(options, socket);
    }
  }
  const char* order = options.verify.stop ? "stop" : options.verify.repair ? "repair" : "compare";
  const Result<json> begun =
      control_request(socket, "verify", json{{"order", order}}, kAskTimeout_ns);
  if (!begun) return begun.error();
  if (options.verify.stop || options.verify.detach) return said(begun.value());
  return await_verification(options, socket);
}

}  // namespace twinblock
