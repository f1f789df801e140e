// The command line of `twinblock`: from words to a verb and its options, checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "twinblock/options.h"
#include "twinblock/verbs.h"

namespace twinblock {

struct CommandLine {
  const Verb* verb = nullptr;  // null: there is nothing to run, as for --help …
  Options options;
  std::string text;  // … but this to print
};

// `typed` is without the program's name. Errors carry kExitUsage and name the option.
Result<CommandLine> parse_command_line(const std::vector<std::string>& typed,
                                       const std::string& version);

// What was asked for in vain is still said as JSON where the user wished for that.
bool wants_json(const std::vector<std::string>& arguments);

}  // namespace twinblock
