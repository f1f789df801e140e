#include <algorithm>
#include <cstdio>

#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/device_text.h"
#include "twinblock/exit_status.h"
#include "twinblock/json_fields.h"
#include "twinblock/locate.h"
#include "twinblock/status_text.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

std::string message_of(const json& result) { return paragraph(text_at(result, "message")); }

// A verb that changes the node, then says what it is like now.
Result<Output> change(const Options& options, const std::string& socket, const std::string& verb,
                      const json& args, uint64_t timeout_ns = kChangeTimeout_ns) {
  const Result<json> changed =
      control_order(socket, verb, args, timeout_ns, next_command(options, "status"));
  if (!changed) return changed.error();
  const Result<json> status = ask_status(socket);
  // The change was made; that the status can't be had right now does not undo it.
  Output output{changed.value(), message_of(changed.value())};
  if (!status) return output;
  const json& now = status.value();
  output.data["status"] = now;
  output.text += short_status(now);
  if (const std::string action = text_at(now, "action"); !action.empty())
    output.text += "to do: " + wrapped(action, kTextWidth, 7) + "\n";
  return output;
}

// As change(), where the state is still the one that the verb is about to end.
Result<Output> order(const Options& options, const std::string& socket, const std::string& verb,
                     const json& args) {
  Result<Output> output = change(options, socket, verb, args);
  if (output) output.value().text = message_of(output.value().data);
  return output;
}

// The operator's word in the witness' stead. Named only where it is given: a node of an older version,
// which runs on after an upgrade, refuses arguments that it does not know.
json with_word(bool without_witness, json args) {
  if (without_witness) args["without_witness"] = true;
  return args;
}

// Quoted for a shell where it has to be.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '-' || c == '_' || c == '@';
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Of find_node().
Status check_volume(const Options& options, const std::string& socket) {
  if (options.node.socket.empty() || options.node.volume.empty()) return ok_status();
  const Result<json> status = ask_status(socket);
  if (!status) return ok_status();
  const std::string volume = text_at(status.value(), "volume");
  if (volume == options.node.volume) return ok_status();
  return wrong_usage(
      "the node at " + socket + " has volume '" + volume + "', not '" + options.node.volume + "'",
      "name the volume before the rest, or leave it out");
}

}  // namespace

Result<std::string> find_node(const Options& options) {
  const Result<std::string> socket = locate_control_socket(options.node);
  if (!socket) return socket.error();
  if (const Status right = check_volume(options, socket.value()); !right) return right.error();
  return socket.value();
}

std::string next_command(const Options& options, const std::string& verb) {
  std::string out = "twinblock " + verb;
  if (!options.node.volume.empty()) out += " " + quoted(options.node.volume);
  if (!options.node.config.empty()) out += " --config " + quoted(options.node.config);
  if (!options.node.node.empty()) out += " --node " + quoted(options.node.node);
  if (!options.node.socket.empty()) out += " --socket " + quoted(options.node.socket);
  return out;
}

std::string why_text(const json& result) {
  std::string out;
  for (const json& sentence : array_at(result, "why"))
    if (sentence.is_string())
      out += "- " + wrapped(sentence.get<std::string>(), kTextWidth, 2) + "\n";
  return out;
}

Result<Output> run_why(const Options&, const std::string& socket) {
  const Result<json> why = control_request(socket, "why", json::object(), kAskTimeout_ns);
  if (!why) return why.error();
  return Output{why.value(), why_text(why.value())};
}

Result<Output> run_init(const Options& options, const std::string& socket) {
  return order(options, socket, "init", json{{"force", options.init.force}, {"join", options.init.join}});
}

// A node that is still in session with the peer waits for the end of it before it believes that the
// peer is dead.
void say_what_is_waited_for(const std::string& socket) {
  const Result<json> status = ask_status(socket);
  if (!status) return;
  const json peer = object_at(status.value(), "peer");
  if (!flag_at(peer, "connected") || text_at(peer, "role") != "primary") return;
  std::fprintf(stderr,
               "the session with %s still stands: waiting until %s counts as lost (at most "
               "peer_timeout), or answers; Ctrl-C before that takes the order back\n",
               text_at(peer, "name").c_str(), text_at(peer, "name").c_str());
}

// Without the peer's answer it takes twice peer_timeout, which may be minutes.
Result<Output> run_promote(const Options& options, const std::string& socket) {
  if (options.promote.peer_is_dead) say_what_is_waited_for(socket);
  return change(options, socket, "promote",
                with_word(options.promote.without_witness,
                          json{{"peer_is_dead", options.promote.peer_is_dead}}),
                kLongChangeTimeout_ns);
}

// The flush of both nodes takes as long as the disks do.
Result<Output> run_demote(const Options& options, const std::string& socket) {
  return change(options, socket, "demote", json::object(), kLongChangeTimeout_ns);
}

Result<Output> run_continue(const Options& options, const std::string& socket) {
  return change(options, socket, "continue", with_word(options.go_on.without_witness, json::object()));
}

// A command of the user's may take as long as it takes to write the disk.
Result<Output> run_rollback(const Options& options, const std::string& socket) {
  return change(options, socket, "rollback", json::object(), kLongChangeTimeout_ns);
}

// It may have to write zeroes to all that is new.
Result<Output> run_grow(const Options& options, const std::string& socket) {
  Result<Output> output = change(options, socket, "grow",
                                 {{"size_bytes", options.grow.size_bytes}}, kLongChangeTimeout_ns);
  if (!output) return output;
  const std::string device = grow_attached_device(socket);
  output.value().data["device"] = device;
  if (!device.empty()) output.value().text += paragraph(device);
  return output;
}

// The flush before it takes as long as the disks do.
Result<Output> run_snapshot(const Options& options, const std::string& socket) {
  return change(options, socket, "snapshot", {{"name", options.snapshot.name}}, kLongChangeTimeout_ns);
}

Result<Output> run_resolve(const Options& options, const std::string& socket) {
  json args{{"keep", options.resolve.keep}, {"dry_run", !options.resolve.yes}};
  if (options.resolve.state != 0) args["state"] = options.resolve.state;
  if (options.resolve.yes) return order(options, socket, "resolve", args);
  const Result<json> lost = control_request(socket, "resolve", args, kAskTimeout_ns);
  if (!lost) return lost.error();
  Output output{lost.value(), message_of(lost.value())};
  const std::string next = next_command(options, "resolve") + " --keep " + options.resolve.keep + " --yes --state " +
                           std::to_string(count_at(lost.value(), "state"));
  output.data["next"] = next;
  output.text += "\nTo do it:\n  " + next + "\n";
  return output;
}

}  // namespace twinblock
