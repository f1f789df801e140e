#include "control/requests.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"
#include "control/event_requests.h"
#include "control/latency_requests.h"
#include "control/link_requests.h"
#include "control/metrics.h"
#include "control/probe_requests.h"
#include "control/why_words.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 4;

enum class Kind { kFlag, kNumber, kOptionalNumber, kWord, kOptionalWord, kText, kTexts };
struct Argument {
  const char* name = nullptr;  // null: none
  Kind kind = Kind::kFlag;
  // Words and numbers must be given, but for the optional ones. Of words, it is one of these.
  std::array<const char*, 5> words{};
};
struct Verb {
  const char* name;
  std::array<Argument, 4> arguments;
  void (*run)(Engine&, const NodeFacts&, const json& args, Send);
};

// Keys are read anew; to renew is to go on with the last of them, on connections of its own.
void answer_key(Engine& engine, const NodeFacts& facts, bool renew, const Send& send) {
  if (!facts.read_keys) {
    send(failure("the links of this node are not encrypted",
                 "see `man twinblock.toml` for key, and restart it"));
    return;
  }
  facts.read_keys(renew ? KeyChoice::kLast : KeyChoice::kFirst, [&engine, renew, send](const Result<std::string>& key) {
    if (!key) {
      send(failure(key.error().what, key.error().action));
      return;
    }
    engine.orders().keys_changed();
    if (renew) engine.orders().renew_links();
    send(success({{"key", key.value()}}));
  });
}

// With the state of what would be lost, for the order that is given then.
void show_loss(Engine& engine, bool keep_local, Send send) {
  engine.orders().resolve(keep_local, true, [&engine, keep_local, send = std::move(send)](const Result<std::string>& said) {
    if (!said) {
      send(failure(said.error()));
      return;
    }
    const StatusView view = engine.status();
    const std::optional<SyncFacts> lost = keep_local ? view.peer.facts : view.mine;
    send(success({{"message", said.value()}, {"state", lost ? lost->state_id : 0}}));
  });
}

void answer_snapshot(Engine& engine, const std::string& name, Send send) {
  engine.orders().snapshot(name, [node = engine.node(), peer = engine.config().other(engine.node()).name,
                                  send = std::move(send)](const Result<Snapshots::Taken>& taken) {
    if (!taken) {
      send(failure(taken.error()));
      return;
    }
    const Snapshots::Taken& is = taken.value();
    send(success({{"message", is.said},
                  {"snapshot", is.name},
                  {"taken_at", format_timestamp(is.at_ns)},
                  {"pause_ns", is.pause_ns},
                  {"copies", {{node, is.here}, {peer, is.there}}}}));
  });
}

bool flag(const json& args, const char* name) { return args.value(name, false); }

ResyncPace pace_of(const std::string& word) {
  if (word == "pause") return ResyncPace::kPause;
  if (word == "resume") return ResyncPace::kResume;
  return word == "rate" ? ResyncPace::kRate : ResyncPace::kAuto;
}

const std::array<Verb, 22> kVerbs{{
    {"status",
     {},
     [](Engine& engine, const NodeFacts& facts, const json&, Send send) {
       send(success(render_status(engine.status(), facts)));
     }},
    {"init",
     {{{"force"}, {"join"}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       engine.orders().init(flag(args, "force"), flag(args, "join"), answer_with(std::move(send)));
     }},
    {"promote",
     {{{"peer_is_dead"}, {"without_witness"}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       const Roles::Word word{flag(args, "peer_is_dead"), flag(args, "without_witness"), send.gone};
       if (word.without_witness && !word.peer_is_dead)
         send(failure("'without_witness' goes with 'peer_is_dead' only",
                      "who vouches in the witness' place vouches for the peer's death"));
       else
         engine.orders().promote(word, answer_with(std::move(send)));
     }},
    {"demote",
     {},
     [](Engine& engine, const NodeFacts&, const json&, Send send) {
       engine.orders().demote(answer_with(std::move(send)));
     }},
    {"grow",
     {{{"size_bytes", Kind::kNumber}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       engine.orders().grow(args["size_bytes"].get<uint64_t>(), answer_with(std::move(send)));
     }},
    {"rollback",
     {},
     [](Engine& engine, const NodeFacts&, const json&, Send send) {
       engine.orders().roll_back(answer_with(std::move(send)));
     }},
    {"snapshot",
     {{{"name", Kind::kText}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_snapshot(engine, args.value("name", std::string()), std::move(send));
     }},
    {"hang-up",
     {{{"pid", Kind::kNumber}}},
     [](Engine& engine, const NodeFacts& facts, const json& args, Send send) {
       const auto pid = args["pid"].get<uint64_t>();
       const bool known = facts.hang_up && pid != 0 && pid <= INT32_MAX;
       const int ended = known ? facts.hang_up(static_cast<int>(pid)) : 0;
       if (ended > 0) engine.clients().hung_up_on();
       send(success({{"connections", ended}}));
     }},
    {"continue",
     {{{"without_witness"}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       engine.orders().go_on_alone(flag(args, "without_witness"), answer_with(std::move(send)));
     }},
    {"resolve",
     {{{"keep", Kind::kWord, {"local", "peer"}}, {"dry_run"}, {"state", Kind::kOptionalNumber}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       const bool keep_local = args["keep"] == "local";
       if (flag(args, "dry_run"))
         show_loss(engine, keep_local, std::move(send));
       else
         engine.orders().resolve(keep_local, false, answer_with(std::move(send)), args.value("state", uint64_t{0}));
     }},
    {"resync",
     {{{"pace", Kind::kWord, {"pause", "resume", "auto", "rate"}},
       {"bytes_per_s", Kind::kOptionalNumber}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       const ResyncPace pace = pace_of(args["pace"].get_ref<const std::string&>());
       const auto rate = args.value("bytes_per_s", uint64_t{0});
       if (pace == ResyncPace::kRate && rate == 0) {
         send(failure("pace 'rate' needs 'bytes_per_s', more than 0",
                      "give bytes a second, or pause the resync"));
         return;
       }
       if (pace != ResyncPace::kRate && args.contains("bytes_per_s")) {
         send(failure("'bytes_per_s' goes with pace 'rate' only", "leave one of the two out"));
         return;
       }
       engine.orders().set_resync_pace(pace, rate, answer_with(std::move(send)));
     }},
    {"verify",
     {{{"order", Kind::kWord, {"compare", "repair", "stop"}}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       const std::string& order = args["order"].get_ref<const std::string&>();
       engine.orders().verify(order == "repair" ? VerifyOrder::kRepair
                              : order == "stop" ? VerifyOrder::kStop
                                                : VerifyOrder::kCompare,
                              answer_with(std::move(send)));
     }},
    {"link",
     {{{"action", Kind::kWord, {"list", "add", "remove", "enable", "disable"}},
       {"name", Kind::kText},
       {"addresses", Kind::kTexts},
       {"rate", Kind::kText}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_link(engine, args, std::move(send));
     }},
    {"key",
     {{{"action", Kind::kWord, {"reload", "renew"}}}},
     [](Engine& engine, const NodeFacts& facts, const json& args, Send send) {
       answer_key(engine, facts, args.value("action", std::string()) == "renew", std::move(send));
     }},
    {"compression",
     {{{"mode", Kind::kOptionalWord, {"off", "on", "auto"}}, {"level", Kind::kOptionalNumber}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_compression(engine, args, std::move(send));
     }},
    {"latency",
     {{{"window", Kind::kOptionalWord, {"start", "10s", "60s"}}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_latency(engine, args, send);
     }},
    {"sample",
     {{{"every", Kind::kNumber}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_sample(engine, args, send);
     }},
    {"probe",
     {{{"action", Kind::kWord, {"begin", "result"}},
       {"link", Kind::kText},
       {"duty", Kind::kOptionalNumber},
       {"known", Kind::kOptionalNumber}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_probe(engine, args, send);
     }},
    {"stats",
     {},
     [](Engine& engine, const NodeFacts&, const json&, Send send) {
       send(success(render_stats(engine.status(), engine.figures().latency(Window::kStart))));
     }},
    {"events",
     {{{"since", Kind::kOptionalNumber}, {"wait"}}},
     [](Engine& engine, const NodeFacts&, const json& args, Send send) {
       answer_events(engine, args, send);
     }},
    {"metrics",
     {},
     [](Engine& engine, const NodeFacts&, const json&, Send send) {
       send(success({{"text", render_metrics(engine)}}));
     }},
    {"why",
     {},
     [](Engine& engine, const NodeFacts&, const json&, Send send) {
       send(success({{"why", why_words(engine.status())}}));
     }},
}};

std::string check_value(const Argument& argument, const json& value) {
  const std::string name = std::string("argument '") + argument.name + "' must be ";
  switch (argument.kind) {
    case Kind::kFlag:
      return value.is_boolean() ? "" : name + "true or false";
    case Kind::kNumber:
    case Kind::kOptionalNumber:
      return value.is_number_unsigned() ? "" : name + "a whole number";
    case Kind::kText:
      return value.is_string() ? "" : name + "a text";
    case Kind::kTexts:
      return value.is_object() && std::all_of(value.begin(), value.end(),
                                              [](const json& each) { return each.is_string(); })
                 ? ""
                 : name + "an object of texts";
    case Kind::kWord:
    case Kind::kOptionalWord:
      break;
  }
  std::string known;
  for (const char* word : argument.words) {
    if (word == nullptr) continue;
    if (value.is_string() && value.get_ref<const std::string&>() == word) return {};
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  return name + "one of: " + known;
}

// What is wrong with the arguments; empty when nothing is.
std::string check_arguments(const Verb& verb, const json& args) {
  if (!args.is_object()) return "\"args\" must be an object";
  const auto named = [&verb](const std::string& name) {
    return std::find_if(
        verb.arguments.begin(), verb.arguments.end(),
        [&name](const Argument& each) { return each.name != nullptr && name == each.name; });
  };
  for (const auto& [name, value] : args.items()) {
    const auto argument = named(name);
    if (argument == verb.arguments.end())
      return std::string("'") + verb.name + "' has no argument '" + name + "'";
    if (std::string wrong = check_value(*argument, value); !wrong.empty()) return wrong;
  }
  for (const Argument& argument : verb.arguments) {
    const bool needed = argument.kind == Kind::kWord || argument.kind == Kind::kNumber;
    if (argument.name != nullptr && needed && !args.contains(argument.name))
      return std::string("'") + verb.name + "' needs argument '" + argument.name + "'";
  }
  return {};
}

}  // namespace

void handle_control_request(Engine& engine, const NodeFacts& facts, const std::string& request,
                            std::function<void(std::string)> reply, std::function<bool()> gone) {
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
  verb->run(engine, facts, args, Send{std::move(reply), std::move(gone)});
}

}  // namespace twinblock
