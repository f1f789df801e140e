#include "base/units.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/link_text.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

json args_of(const Options& options, const std::string& name) {
  json args{{"action", options.link.action}, {"name", name}};
  if (!options.link.addresses.empty()) args["addresses"] = options.link.addresses;
  if (!options.link.rate.empty()) args["rate"] = options.link.rate;
  return args;
}

Result<Output> list_links(const std::string& socket) {
  const Result<json> listed =
      control_request(socket, "link", json{{"action", "list"}}, kAskTimeout_ns);
  if (!listed) return listed.error();
  const json& result = listed.value();
  return Output{result, links_text(result.contains("links") ? result["links"] : json())};
}

// What changed is told even where the rest could not be changed any more.
Error with_done(Error error, const std::string& done) {
  if (!done.empty()) error.what += " (done before that: " + done + ")";
  return error;
}

}  // namespace

Result<Output> run_link(const Options& options, const std::string& socket) {
  if (options.link.action == "list") return list_links(socket);
  Output output;
  output.data["messages"] = json::array();
  std::string done;
  for (const std::string& name : options.link.names) {
    const Result<json> changed = control_order(socket, "link", args_of(options, name), kChangeTimeout_ns,
                                               next_command(options, "link list"));
    if (!changed) return with_done(changed.error(), done);
    done += (done.empty() ? "" : ", ") + name;
    const std::string message = text_at(changed.value(), "message");
    output.data["messages"].push_back(message);
    output.text += paragraph(message);
  }
  // The change was made; that the status can't be had right now does not undo it.
  const Result<json> status = ask_status(socket);
  if (status && status.value().contains("links")) output.data["links"] = status.value()["links"];
  return output;
}

Result<Output> run_compression(const Options& options, const std::string& socket) {
  json args = json::object();
  if (!options.compression.mode.empty()) args["mode"] = options.compression.mode;
  if (options.compression.level > 0) args["level"] = options.compression.level;
  const Result<json> answered = control_request(socket, "compression", args, kAskTimeout_ns);
  if (!answered) return answered.error();
  const json& result = answered.value();
  if (args.empty())
    return Output{result, paragraph(compression_text(object_at(result, "compression")))};
  return Output{result, paragraph(text_at(result, "message"))};
}

}  // namespace twinblock
