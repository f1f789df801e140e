#include "twinblock/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

constexpr size_t kHelpWidth = 80;
constexpr const char* kFooter =
    "'twinblock VERB --help' explains a verb.\n"
    "Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no node answers,\n"
    "4 wait timed out, 5 verify found differences.";

void add_common_options(CLI::App& app, const Verb& verb, Options& options) {
  if (verb.names_volume)
    app.add_option("VOLUME", options.node.volume, "may be left out where only one has a node here");
  app.add_option("--config", options.node.config, "the volume's file (/etc/twinblock/VOLUME.toml)");
  app.add_option("--node", options.node.node,
                 "which node of the file; the host's name says it else");
  app.add_option("--socket", options.node.socket,
                 "the node's control socket, instead of all these");
  app.add_flag("--json", options.print_json, "print JSON");
}

std::string verb_names() {
  std::string names;
  for (const Verb& verb : verbs()) names += (names.empty() ? "" : ", ") + std::string(verb.name);
  return names;
}

bool is_verb(const std::string& word) {
  return std::any_of(verbs().begin(), verbs().end(),
                     [&word](const Verb& verb) { return word == verb.name; });
}

}  // namespace

bool wants_json(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments,
                                       const std::string& version) {
  if (!arguments.empty() && !arguments[0].starts_with('-') && !is_verb(arguments[0]))
    return wrong_usage("there is no verb '" + arguments[0] + "'", "use one of " + verb_names());
  CLI::App app{"Controls the nodes of mirrored volumes.", "twinblock"};
  app.footer(kFooter);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  app.set_version_flag("--version", "twinblock " + version);
  CommandLine line;
  for (const Verb& verb : verbs()) {
    CLI::App* sub = app.add_subcommand(verb.name, verb.summary);
    sub->footer(wrapped(verb.help, kHelpWidth, 0));
    if (verb.add_options != nullptr) verb.add_options(*sub, line.options);
    add_common_options(*sub, verb, line.options);
    sub->callback([&line, &verb] { line.verb = &verb; });
  }
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    std::ostringstream complaint;
    if (app.exit(error, text, complaint) != 0)
      return wrong_usage(
          error.what(),
          arguments.empty()
              ? "use one of " + verb_names()
              : "see: twinblock " + (is_verb(arguments[0]) ? arguments[0] + " " : "") + "--help");
    line.verb = nullptr;
    line.text = text.str();
    return line;
  }
  if (line.verb->prepare != nullptr)
    if (const Status prepared = line.verb->prepare(line.options); !prepared)
      return prepared.error();
  return line;
}

}  // namespace twinblock
