#include <unistd.h>

#include <cstdio>
#include <optional>

#include "twinblock/actions.h"
#include "twinblock/attach.h"
#include "twinblock/detach.h"
#include "twinblock/grow_device.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_device.h"
#include "twinblock/stay.h"

namespace twinblock {

using nlohmann::json;

namespace {

// On stderr: stdout has the device's name alone.
void say(const Options& options, const std::string& what) {
  if (!options.print_json && !what.empty()) std::fprintf(stderr, "%s\n", what.c_str());
}

// What users are told of it; the rest of the note is attach's and detach's own.
json shown(const Attachment& attachment, const std::string& note, const std::string& cleared) {
  return {{"volume", attachment.volume}, {"node", attachment.node}, {"method", attachment.method},
          {"device", attachment.device}, {"link", attachment.link}, {"note", note},
          {"cleared", cleared}};
}

// What attach has left of a device that is there already: nothing to do but to name it, or an
// error.
Result<Output> attached_already(const FateVerdict& verdict, const Attachment& attachment) {
  if (verdict.fate == Fate::kWait)
    return refused(attachment.device + " is attached and waits for its node: " + verdict.why,
                   (verdict.action.empty() ? "" : verdict.action + "; or ") +
                       give_up_words(HostPaths{}, attachment));
  return Output{shown(attachment, verdict.why, ""), attachment.device + "\n"};
}

Result<Output> make_attachment(const Options& options, const AskStatus& ask,
                               const std::string& stem) {
  const Result<json> status = ask();
  if (!status) return status.error();
  const Result<std::string> cleared = clear_dead_attachment(HostPaths{}, status.value(), stem);
  if (!cleared) return cleared.error();
  say(options, cleared.value());
  std::string note;
  const Result<Attachment> attached =
      attach(HostPaths{}, status.value(), ask, stem, options.attach.method, note);
  if (!attached) return attached.error();
  const Attachment& attachment = attached.value();
  if (attachment.method == kMethodNbdfuseFile)
    note += (note.empty() ? "" : ": ") +
            std::string(
                "this is a plain file with the volume's content, which mke2fs, qemu and the "
                "like take as it is");
  Output output{shown(attachment, note, cleared.value()), attachment.device + "\n"};
  const std::string also = attachment.link.empty() ? "" : ", also called " + attachment.link;
  const std::string ends =
      attachment.method == kMethodNbd ? "" : "; it ends with the node's process";
  say(options, "attached by " + attachment.method + also + (note.empty() ? "" : "; " + note) +
                   ends + "; undo it with: twinblock detach");
  return output;
}

// A node that is secondary refuses, whatever the kernel has. (Who stays is going to need it.)
bool needs_kernel_nbd(const Options& options, const AskStatus& ask) {
  const bool may_be_nbd =
      options.attach.method == kMethodAuto || options.attach.method == kMethodNbd;
  if (geteuid() != 0 || !may_be_nbd) return false;
  if (options.attach.stay) return true;
  const Result<json> status = ask();
  return status && text_at(status.value(), "role") == "primary";
}

}  // namespace

Result<Output> run_attach(const Options& options, const std::string& socket) {
  const AskStatus ask = [&socket] { return ask_status(socket); };
  const std::string stem = node_file_stem(socket);
  if (needs_kernel_nbd(options, ask)) say(options, load_kernel_nbd(HostPaths{}));
  if (options.attach.stay)
    return stay_attached(HostPaths{}, ask, stem,
                         [&options](const std::string& what) { say(options, what); });
  Result<std::optional<Attachment>> note = read_attachment(stem);
  if (!note) return note.error();
  std::optional<Attachment>& existing = note.value();
  const Result<std::optional<FateVerdict>> verdict = revive(HostPaths{}, ask, stem, existing);
  if (!verdict) return verdict.error();
  if (const std::optional<FateVerdict>& fate = verdict.value(); fate.has_value()) {
    const bool reconnected = fate->fate == Fate::kKeep && !fate->why.empty();
    if (reconnected) say(options, existing->device + " is " + fate->why);
    if (reconnected || fate->fate == Fate::kWait) return attached_already(*fate, *existing);
  }
  return make_attachment(options, ask, stem);
}

std::string grow_attached_device(const std::string& socket) {
  const AskStatus ask = [&socket] { return ask_status(socket); };
  return grow_device(HostPaths{}, ask, node_file_stem(socket), geteuid() == 0);
}

namespace {

// A stop of the node that is no end of the host leaves the device, which waits for the next one.
Result<Output> run_detach_with_host(const std::string& stem,
                                    const std::optional<Attachment>& attachment) {
  if (!attachment.has_value() || !host_goes_down())
    return Output{json{{"device", ""}}, "nothing to do\n"};
  const Result<std::string> done = detach_with_host(HostPaths{}, stem, *attachment);
  if (!done) return done.error();
  return Output{json{{"device", attachment->device}},
                attachment->device + " " + done.value() + "\n"};
}

}  // namespace

Result<Output> run_detach(const Options& options, const std::string& socket) {
  const std::string stem = node_file_stem(socket);
  const Result<std::optional<Attachment>> note = read_attachment(stem);
  if (!note) return note.error();
  const std::optional<Attachment>& attachment = note.value();
  if (options.detach.with_host) return run_detach_with_host(stem, attachment);
  if (!attachment.has_value())
    return refused("not attached (there is no " + attachment_path(stem) + ")");
  Result<std::string> done = std::string("is detached");
  if (options.detach.in_use)
    done = detach_in_use(HostPaths{}, stem, *attachment);
  else if (Status gone = detach(HostPaths{}, stem, *attachment, options.detach.force,
                                [&socket] { return ask_status(socket); });
           !gone)
    done = gone.error();
  if (!done) return done.error();
  const std::string device = attachment->device;
  return Output{json{{"device", device}, {"method", attachment->method}},
                (device.empty() ? "an unfinished attach" : device) + " " + done.value() + "\n"};
}

}  // namespace twinblock
