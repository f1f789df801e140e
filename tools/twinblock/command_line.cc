#include "twinblock/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>

#include "twinblock/did_you_mean.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

constexpr size_t kHelpWidth = 80;
constexpr const char* kFooter =
    "'twinblock help VERB' explains a verb, as 'twinblock VERB --help' does.\n"
    "Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no node answers,\n"
    "4 wait timed out, or an order was not answered in time and goes on,\n"
    "5 verify found differences, 6 attach --stay had to end the device;\n"
    "promote was refused: 7 for good, 8 now, 9 for a while.";

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

constexpr const char* kHelpVerb = "help";

std::vector<std::string> verb_words() {
  std::vector<std::string> words;
  for (const Verb& verb : verbs()) words.emplace_back(verb.name);
  words.emplace_back(kHelpVerb);
  return words;
}

std::string use_a_verb() {
  std::string names;
  for (const std::string& word : verb_words()) names += (names.empty() ? "" : ", ") + word;
  return "use one of " + names;
}

bool is_verb(const std::string& word) {
  return std::any_of(verbs().begin(), verbs().end(),
                     [&word](const Verb& verb) { return word == verb.name; });
}

Error no_such_verb(const std::string& word) {
  return wrong_usage("there is no verb '" + word + "'",
                     did_you_mean(word, verb_words()) + use_a_verb());
}

// "help VERB" is "VERB --help" in other words, and "help" alone is "--help".
Result<std::vector<std::string>> without_help_verb(std::vector<std::string> arguments) {
  if (arguments.empty() || arguments[0] != kHelpVerb) return arguments;
  arguments.erase(arguments.begin());
  if (!arguments.empty() && arguments[0] == kHelpVerb) arguments.erase(arguments.begin());
  if (arguments.size() > 1 && !arguments[1].starts_with('-'))
    return wrong_usage("help: '" + arguments[1] + "' is too much", "write: twinblock help VERB");
  if (!arguments.empty() && !arguments[0].starts_with('-') && !is_verb(arguments[0]))
    return no_such_verb(arguments[0]);
  arguments.resize(std::min<size_t>(arguments.size(), 1));
  if (!arguments.empty() && arguments[0].starts_with('-')) arguments.clear();
  arguments.emplace_back("--help");
  return arguments;
}

}  // namespace

bool wants_json(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
}

Result<CommandLine> parse_command_line(const std::vector<std::string>& typed,
                                       const std::string& version) {
  const Result<std::vector<std::string>> words = without_help_verb(typed);
  if (!words) return words.error();
  const std::vector<std::string>& arguments = words.value();
  if (!arguments.empty() && !arguments[0].starts_with('-') && !is_verb(arguments[0]))
    return no_such_verb(arguments[0]);
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
              ? use_a_verb()
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
