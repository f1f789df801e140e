// twinblock: controls the nodes of mirrored volumes. Reads the command line, finds the node, runs
// the verb, prints what it returned.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "twinblock/exit_status.h"
#include "twinblock/locate.h"
#include "twinblock/text_wrap.h"
#include "twinblock/verbs.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kHelpWidth = 80;

void add_common_options(CLI::App& app, Options& options) {
  app.add_option("VOLUME", options.node.volume, "may be left out where only one has a node here");
  app.add_option("--config", options.node.config, "the volume's file (/etc/twinblock/VOLUME.toml)");
  app.add_option("--node", options.node.node,
                 "which node of the file; the host's name says it else");
  app.add_option("--socket", options.node.socket,
                 "the node's control socket, instead of all these");
  app.add_flag("--json", options.print_json, "print JSON");
}

int complain(const Options& options, const Error& error) {
  if (options.print_json)
    std::printf("%s\n", json{{"ok", false}, {"error", error.what}, {"action", error.action}}
                            .dump(2, ' ', false, json::error_handler_t::replace)
                            .c_str());
  std::fprintf(stderr, "twinblock: %s\n", error.what.c_str());
  if (!error.action.empty()) std::fprintf(stderr, "twinblock: to do: %s\n", error.action.c_str());
  return error.code == 0 ? kExitRefused : error.code;
}

int run(const Verb& verb, const Options& options) {
  const Result<std::string> socket = locate_control_socket(options.node);
  if (!socket) return complain(options, socket.error());
  const Result<Output> output = verb.run(options, socket.value());
  if (!output) return complain(options, output.error());
  const std::string text =
      options.print_json
          ? output.value().data.dump(2, ' ', false, json::error_handler_t::replace) + "\n"
          : output.value().text;
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? kExitOk : kExitRefused;
}

}  // namespace
}  // namespace twinblock

int main(int argc, char** argv) {
  using namespace twinblock;
  CLI::App app{"Controls the nodes of mirrored volumes.", "twinblock"};
  app.footer(
      "'twinblock VERB --help' explains a verb.\n"
      "Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no node answers, 4 wait timed "
      "out.");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.set_version_flag("--version", std::string("twinblock ") + TWINBLOCK_VERSION);
  Options options;
  const Verb* chosen = nullptr;
  const std::string first = argc > 1 ? argv[1] : "";
  if (!first.empty() && !first.starts_with('-') &&
      std::none_of(verbs().begin(), verbs().end(),
                   [&](const Verb& verb) { return first == verb.name; })) {
    std::string names;
    for (const Verb& verb : verbs()) names += (names.empty() ? "" : ", ") + std::string(verb.name);
    return complain(options,
                    wrong_usage("there is no verb '" + first + "'", "use one of " + names));
  }
  for (const Verb& verb : verbs()) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->footer(wrapped(verb.help, kHelpWidth, 0));
    add_common_options(*sub, options);
    if (verb.add_options != nullptr) verb.add_options(*sub, options);
    sub->callback([&chosen, &verb] { chosen = &verb; });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return run(*chosen, options);
}
