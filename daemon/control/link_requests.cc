#include "control/link_requests.h"

#include <map>
#include <utility>

#include "base/limits.h"
#include "config/config.h"
#include "control/requests.h"

namespace twinblock {
namespace {

using nlohmann::json;

std::string text_of(const json& args, const char* name) { return args.value(name, std::string()); }

LinkOrder order_of(const std::string& action) {
  if (action == "add") return LinkOrder::kAdd;
  if (action == "remove") return LinkOrder::kRemove;
  return action == "enable" ? LinkOrder::kEnable : LinkOrder::kDisable;
}

// What is wrong with the arguments as a whole; empty when nothing is.
std::string check_link(const std::string& action, const json& args) {
  if (action == "list")
    return args.size() > 1 ? "action 'list' takes no further arguments" : std::string();
  if (!args.contains("name")) return "action '" + action + "' needs argument 'name'";
  if (action != "add" && (args.contains("addresses") || args.contains("rate")))
    return "'addresses' and 'rate' go with action 'add' only";
  return {};
}

}  // namespace

void answer_link(Engine& engine, const json& args, Send send) {
  const std::string action = text_of(args, "action");
  if (const std::string wrong = check_link(action, args); !wrong.empty()) {
    send(failure(wrong, ""));
    return;
  }
  const StatusView view = engine.status();
  if (action == "list") {
    send(success({{"links", render_links(view)}}));
    return;
  }
  const Result<LinkConfig> link = make_link(
      text_of(args, "name"), args.value("addresses", std::map<std::string, std::string>()),
      text_of(args, "rate"), {view.node, view.peer.name});
  if (!link) {
    send(failure(link.error().what, link.error().action));
    return;
  }
  engine.orders().change_link(order_of(action), link.value(), answer_with(std::move(send)));
}

void answer_compression(Engine& engine, const json& args, Send send) {
  const StatusView view = engine.status();
  if (args.empty()) {
    send(success({{"compression", render_compression(view)}}));
    return;
  }
  std::optional<int> level;
  if (args.contains("level")) {
    const auto wanted = args["level"].get<uint64_t>();
    if (wanted < limits::kCompressionLevelMin || wanted > limits::kCompressionLevelMax) {
      send(failure("there is no level " + std::to_string(wanted),
                   "choose from " + std::to_string(limits::kCompressionLevelMin) + " to " +
                       std::to_string(limits::kCompressionLevelMax)));
      return;
    }
    level = static_cast<int>(wanted);
  }
  const auto mode = args.contains("mode") ? parse_compression(text_of(args, "mode"))
                                          : std::optional(view.compression.mode);
  TB_CHECK(mode.has_value(), "the table of verbs names the modes that there are");
  engine.orders().set_compression(*mode, level, answer_with(std::move(send)));
}

}  // namespace twinblock
