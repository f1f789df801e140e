// twinblock: controls the nodes of mirrored volumes. Finds the node that the command line names,
// runs the verb, prints what it returned.
#include <cstdio>
#include <string>

#include "twinblock/actions.h"
#include "twinblock/command_line.h"
#include "twinblock/json_fields.h"
#include "twinblock/locate.h"

namespace twinblock {
namespace {

int complain(bool print_json, const Error& error) {
  if (print_json)
    std::printf(
        "%s\n",
        json_text({{"ok", false}, {"error", error.what}, {"action", error.action}}, 2).c_str());
  std::fprintf(stderr, "twinblock: %s\n", error.what.c_str());
  if (!error.action.empty()) std::fprintf(stderr, "twinblock: to do: %s\n", error.action.c_str());
  return error.code == 0 ? kExitRefused : error.code;
}

int print(const std::string& text, int exit_status) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? exit_status : kExitRefused;
}

int run(const Verb& verb, const Options& options) {
  if (!verb.asks_node) {
    const Result<Output> output = verb.run(options, "");
    if (!output) return complain(options.print_json, output.error());
    return print(options.print_json ? json_text(output.value().data, 2) + "\n" : output.value().text,
                 output.value().exit_status);
  }
  const Result<std::string> socket = locate_control_socket(options.node);
  if (!socket) return complain(options.print_json, socket.error());
  if (const Status right = check_volume(options, socket.value()); !right)
    return complain(options.print_json, right.error());
  const Result<Output> output = verb.run(options, socket.value());
  if (!output) return complain(options.print_json, output.error());
  const Output& said = output.value();
  if (said.printed) return said.exit_status;
  if (!options.print_json) return print(said.text, said.exit_status);
  return print(json_text(said.data, 2) + "\n", said.exit_status);
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
