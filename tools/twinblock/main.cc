// twinblock: controls the nodes of mirrored volumes. Finds the node that the command line names,
// runs the verb, prints what it returned.
#include <cstdio>
#include <string>

#include "twinblock/actions.h"
#include "twinblock/command_line.h"
#include "twinblock/json_fields.h"
#include "twinblock/locate.h"
#include "twinblock/standard_output.h"

namespace twinblock {
namespace {

int complain(bool print_json, const Error& error) {
  const int exit_status = error.code == 0 ? kExitRefused : error.code;
  if (print_json) {
    nlohmann::json reply{{"ok", false}, {"error", error.what}, {"action", error.action}};
    if (const std::string_view refusal = refusal_of(exit_status); !refusal.empty())
      reply["refused"] = refusal;
    std::printf("%s\n", json_text(versioned(reply), 2).c_str());
  }
  std::fprintf(stderr, "twinblock: %s\n", error.what.c_str());
  if (!error.action.empty()) std::fprintf(stderr, "twinblock: to do: %s\n", error.action.c_str());
  return exit_status;
}

int print(const std::string& text, int exit_status) {
  std::fputs(text.c_str(), stdout);
  const Result<bool> written = flush_output();
  if (!written) return complain(false, written.error());
  return written.value() ? exit_status : kExitRefused;
}

int finish(const Options& options, const Result<Output>& output) {
  if (!output) return complain(options.print_json, output.error());
  const Output& said = output.value();
  if (said.printed) return said.exit_status;
  return print(options.print_json ? json_text(versioned(said.data), 2) + "\n" : said.text, said.exit_status);
}

int run(const Verb& verb, const Options& options) {
  if (!verb.asks_node) return finish(options, verb.run(options, ""));
  if (verb.run_all != nullptr)
    if (const auto all = all_control_sockets(options.node); all.size() > 1)
      return finish(options, verb.run_all(options, all));
  const Result<std::string> socket = find_node(options);
  if (!socket) return complain(options.print_json, socket.error());
  return finish(options, verb.run(options, socket.value()));
}

}  // namespace
}  // namespace twinblock

int main(int argc, char** argv) {
  using namespace twinblock;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const Result<CommandLine> line = parse_command_line(arguments, TWINBLOCK_VERSION);
  if (!line) return complain(wants_json(arguments), line.error());
  if (line.value().verb == nullptr) return print(line.value().text, kExitOk);
  return run(*line.value().verb, line.value().options);
}
