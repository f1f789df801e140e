#include <cstdio>
#include <optional>

#include "twinblock/actions.h"
#include "twinblock/attach.h"
#include "twinblock/detach.h"

namespace twinblock {

using nlohmann::json;

Result<Output> run_attach(const Options& options, const std::string& socket) {
  const Result<json> status = ask_status(socket);
  if (!status) return status.error();
  const std::string stem = node_file_stem(socket);
  const Result<std::string> cleared = clear_dead_attachment(HostPaths{}, status.value(), stem);
  if (!cleared) return cleared.error();
  if (!cleared.value().empty() && !options.print_json)
    std::fprintf(stderr, "%s\n", cleared.value().c_str());
  std::string note;
  const Result<Attachment> attached =
      attach(HostPaths{}, status.value(), stem, options.attach.method, note);
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
  const Status done = detach(HostPaths{}, stem, *attachment, options.detach.force);
  if (!done) return done.error();
  const std::string device = attachment->device;
  return Output{json{{"device", device}, {"method", attachment->method}},
                (device.empty() ? "an unfinished attach" : device) + " is detached\n"};
}

}  // namespace twinblock
