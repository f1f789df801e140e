#include "control/requests.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace twinblock {
namespace {

using nlohmann::json;
using Send = std::function<void(std::string)>;

constexpr int kDepthMax = 4;

std::string failure(const std::string& error, const std::string& action) {
  const json line = {{"ok", false}, {"error", error}, {"action", action}};
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

Engine::Reply answer_with(Send send) {
  return [send = std::move(send)](const Result<std::string>& result) {
    if (!result.ok()) {
      send(failure(result.error().what, result.error().action));
      return;
    }
    send(json{{"ok", true}, {"result", {{"message", result.value()}}}}.dump());
  };
}

struct Verb {
  const char* name;
  std::array<const char*, 2> arguments;  // booleans; null: none
  void (*run)(Engine&, const NodeFacts&, const json& args, Send);
};

bool flag(const json& args, const char* name) { return args.value(name, false); }

const std::array<Verb, 4> kVerbs{{
    {"status",
     {nullptr, nullptr},
     [](Engine& engine, const NodeFacts& facts, const json&, Send send) {
       send("{\"ok\":true,\"result\":" + render_status(engine.status(), facts) + "}");
     }},
    {"init",
     {"force", "join"},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       engine.init(flag(args, "force"), flag(args, "join"), answer_with(std::move(send)));
     }},
    {"promote",
     {"peer_is_dead", nullptr},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       engine.promote(flag(args, "peer_is_dead"), answer_with(std::move(send)));
     }},
    {"demote",
     {nullptr, nullptr},
     [](Engine& engine, const NodeFacts&, const json&, Send send) {
       engine.demote(answer_with(std::move(send)));
     }},
}};

// What is wrong with the arguments; empty when nothing is.
std::string check_arguments(const Verb& verb, const json& args) {
  if (!args.is_object()) return "\"args\" must be an object";
  for (const auto& [name, value] : args.items()) {
    const bool known = std::any_of(
        verb.arguments.begin(), verb.arguments.end(),
        [&name](const char* argument) { return argument != nullptr && name == argument; });
    if (!known) return std::string("'") + verb.name + "' has no argument '" + name + "'";
    if (!value.is_boolean()) return "argument '" + name + "' must be true or false";
  }
  return {};
}

}  // namespace

void handle_control_request(Engine& engine, const NodeFacts& facts, const std::string& request,
                            Send reply) {
  // Requests are flat. Deeper ones are not even built: copying and freeing them recurses.
  bool too_deep = false;
  const auto keep = [&too_deep](int depth, json::parse_event_t, const json&) {
    too_deep = too_deep || depth > kDepthMax;
    return !too_deep;
  };
  const json parsed = json::parse(request, keep, false);
  if (too_deep || !parsed.is_object() || !parsed.contains("verb") || !parsed["verb"].is_string()) {
    reply(failure("not a control request",
                  R"(send one JSON object a line: {"verb":"status","args":{}})"));
    return;
  }
  const std::string& name = parsed["verb"].get_ref<const std::string&>();
  const auto* verb = std::find_if(kVerbs.begin(), kVerbs.end(),
                                  [&name](const Verb& known) { return name == known.name; });
  if (verb == kVerbs.end()) {
    std::string known;
    for (const Verb& each : kVerbs) known += (known.empty() ? "" : ", ") + std::string(each.name);
    reply(failure("unknown verb '" + name + "'", "this twinblockd knows: " + known));
    return;
  }
  const json args = parsed.contains("args") ? parsed["args"] : json::object();
  if (const std::string wrong = check_arguments(*verb, args); !wrong.empty()) {
    reply(failure(wrong, ""));
    return;
  }
  verb->run(engine, facts, args, std::move(reply));
}

}  // namespace twinblock
