#include "twinblock/verbs.h"

#include <unistd.h>

#include <cstdio>

#include "base/units.h"
#include "twinblock/control_client.h"
#include "twinblock/detach.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/progress.h"
#include "twinblock/status_text.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kStatusTimeout_ns = 10 * kSecond_ns;
// init writes metadata, promote and demote agree with the peer and flush.
constexpr uint64_t kChangeTimeout_ns = 120 * kSecond_ns;
constexpr uint64_t kWaitPollTimeout_ns = 2 * kSecond_ns;

Result<json> ask(const std::string& socket, const std::string& verb, const json& args,
                 uint64_t timeout_ns) {
  return control_request(socket, verb, args, timeout_ns);
}

Result<Output> run_status(const Options&, const std::string& socket) {
  const Result<json> status = ask(socket, "status", json::object(), kStatusTimeout_ns);
  if (!status) return status.error();
  return Output{status.value(), status_text(status.value())};
}

// "r0 on alpha: primary, duplex"
std::string short_status(const json& status) {
  return text_at(status, "volume") + " on " + text_at(status, "node") + ": " +
         text_at(status, "role") + ", " + text_at(status, "state") + "\n";
}

// A verb that changes the node, then says what it is like now.
Result<Output> change(const std::string& socket, const std::string& verb, const json& args) {
  const Result<json> changed = ask(socket, verb, args, kChangeTimeout_ns);
  if (!changed) return changed.error();
  const Result<json> status = ask(socket, "status", json::object(), kStatusTimeout_ns);
  // The change was made; that the status can't be had right now does not undo it.
  Output output{changed.value(), ""};
  if (const std::string said = text_at(changed.value(), "message"); !said.empty())
    output.text = said + "\n";
  if (!status) return output;
  const json& now = status.value();
  output.data["status"] = now;
  output.text += short_status(now);
  if (const std::string action = text_at(now, "action"); !action.empty())
    output.text += "to do: " + action + "\n";
  return output;
}

Result<Output> run_init(const Options& options, const std::string& socket) {
  Result<Output> output =
      change(socket, "init", json{{"force", options.force}, {"join", options.join}});
  // The state is still the one that init is about to end: the nodes have not met since.
  if (output) output.value().text = text_at(output.value().data, "message") + "\n";
  return output;
}

Result<Output> run_promote(const Options& options, const std::string& socket) {
  return change(socket, "promote", json{{"peer_is_dead", options.peer_is_dead}});
}

Result<Output> run_demote(const Options&, const std::string& socket) {
  return change(socket, "demote", json::object());
}

Result<Output> run_attach(const Options& options, const std::string& socket) {
  const Result<json> status = ask(socket, "status", json::object(), kStatusTimeout_ns);
  if (!status) return status.error();
  const std::string stem = node_file_stem(socket);
  const Result<std::string> cleared = clear_dead_attachment(HostPaths{}, status.value(), stem);
  if (!cleared) return cleared.error();
  if (!cleared.value().empty() && !options.print_json)
    std::fprintf(stderr, "%s\n", cleared.value().c_str());
  std::string note;
  const Result<Attachment> attached =
      attach(HostPaths{}, status.value(), stem, options.method, note);
  if (!attached) return attached.error();
  const Attachment& attachment = attached.value();
  if (attachment.method == kMethodNbdfuseFile)
    note += (note.empty() ? "" : ": ") +
            std::string(
                "this is a plain file with the volume's content, which mke2fs, qemu and the "
                "like take as it is");
  Output output{to_json(attachment), attachment.device + "\n"};
  output.data["note"] = note;
  output.data["cleared"] = cleared.value();
  if (!options.print_json)
    std::fprintf(stderr, "attached by %s%s%s; undo it with: twinblock detach\n",
                 attachment.method.c_str(), note.empty() ? "" : "; ", note.c_str());
  return output;
}

Result<Output> run_detach(const Options& options, const std::string& socket) {
  const std::string stem = node_file_stem(socket);
  const Result<std::optional<Attachment>> note = read_attachment(stem);
  if (!note) return note.error();
  const std::optional<Attachment>& attachment = note.value();
  if (!attachment.has_value())
    return refused("not attached (there is no " + attachment_path(stem) + ")");
  const Status done = detach(HostPaths{}, stem, *attachment, options.force);
  if (!done) return done.error();
  const std::string device = attachment->device;
  return Output{json{{"device", device}, {"method", attachment->method}},
                (device.empty() ? "an unfinished attach" : device) + " is detached\n"};
}

Result<Output> run_wait(const Options& options, const std::string& socket) {
  const std::optional<uint64_t> timeout_ns = parse_wait_timeout(options.timeout);
  if (!timeout_ns)
    return wrong_usage("--timeout: '" + options.timeout + "' is not a duration",
                       "write it like 60s, 500ms or 2min");
  ProgressDisplay display(stderr, isatty(STDERR_FILENO) != 0);
  WaitActions actions;
  actions.poll = [&] { return ask(socket, "status", json::object(), kWaitPollTimeout_ns); };
  actions.report = [&](const json& status) {
    if (options.progress) display.show(status);
  };
  actions.now_ns = steady_now_ns;
  actions.sleep = sleep_ns;
  const Result<json> status = wait_for(options.goal, *timeout_ns, actions);
  if (options.progress) display.finish(status ? status.value() : json());
  if (!status) return status.error();
  return Output{status.value(), short_status(status.value())};
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table{
      {"init", "make a new volume of this node's replica",
       "Makes a new volume: this node's replica, as it is, becomes the first one that is current, "
       "and "
       "the peer's blank replica is filled from it when they meet. Run it on one node only. "
       "Refuses a "
       "replica that belongs to a volume already; --force makes a new volume of it and forgets the "
       "old "
       "one. --join makes this node wait for the peer's data instead.\n"
       "Example: twinblock init r0",
       run_init,
       [](CLI::App& app, Options& options) {
         app.add_flag("--force", options.force, "also where there is a volume already");
         app.add_flag("--join", options.join, "be the blank side, which is filled by the peer");
       }},
      {"status", "show how a node is",
       "Shows a node's role and state, its peer and links, a running resync, counters and "
       "latencies, "
       "and, when something is wrong, what it is and what to do.\n"
       "Example: twinblock status r0",
       run_status, nullptr},
      {"promote", "make this node the primary",
       "Makes this node the primary, which exports the device. Refused while the peer is primary, "
       "and "
       "while this replica is not current. When the peer was primary and can't be reached, it may "
       "still be writing: first make sure that it is down (fenced), then say so with "
       "--peer-is-dead.\n"
       "Example: twinblock promote r0",
       run_promote,
       [](CLI::App& app, Options& options) {
         app.add_flag("--peer-is-dead", options.peer_is_dead,
                      "you made sure that the unreachable peer is down");
       }},
      {"demote", "make this node a secondary",
       "Makes this node a secondary: the device is flushed to both nodes and no longer exported. "
       "Refused while clients are connected; detach first.\n"
       "Example: twinblock demote r0",
       run_demote, nullptr},
      {"attach", "make a block device of the volume",
       "Makes a device of the volume on the primary and prints its name: /dev/nbdN where the "
       "kernel has "
       "nbd and nbd-client is installed, else a loop device on a file by nbdfuse, else (without "
       "root) "
       "that file alone, which mke2fs, qemu and the like take as it is. The device stays until "
       "'twinblock detach', or until the node ends: then attach again, which takes the dead device "
       "away.\n"
       "Example: mount $(twinblock attach r0) /mnt",
       run_attach,
       [](CLI::App& app, Options& options) {
         app.add_option("--method", options.method, "how, instead of the best way that works here")
             ->check(CLI::IsMember(std::vector<std::string>{kMethodAuto, kMethodNbdClient,
                                                            kMethodNbdfuse, kMethodNbdfuseFile}));
       }},
      {"detach", "undo attach",
       "Flushes the device that attach made and takes it away. Refused while it is mounted or "
       "open. "
       "Works also when the node is gone; then nothing can be flushed, and --force gives up what "
       "was "
       "not written yet.\n"
       "Example: umount /mnt && twinblock detach r0",
       run_detach,
       [](CLI::App& app, Options& options) {
         app.add_flag("--force", options.force, "also when the device can't be flushed");
       }},
      {"wait", "wait until a node is in a state",
       "Waits until the node is as wished: duplex (both replicas current), connected, primary, "
       "secondary, simplex or resync. Exits with 4 when that takes longer than --timeout. "
       "--progress "
       "shows how a resync proceeds.\n"
       "Example: twinblock wait r0 --for duplex --timeout 10min --progress",
       run_wait,
       [](CLI::App& app, Options& options) {
         app.add_option("--for", options.goal, "what to wait for (default duplex)")
             ->check(CLI::IsMember(wait_goals()));
         app.add_option("--timeout", options.timeout, "such as 500ms, 60s (the default), 10min");
         app.add_flag("--progress", options.progress, "show how a resync proceeds, on stderr");
       }},
  };
  return table;
}

}  // namespace twinblock
