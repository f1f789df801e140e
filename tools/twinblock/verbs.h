// What `twinblock` can do: one table of verbs, each with its options and what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <vector>

#include "base/result.h"
#include "twinblock/options.h"

namespace twinblock {

struct Verb {
  const char* name;
  const char* summary;
  const char* help;
  Result<Output> (*run)(const Options&, const std::string& socket);
  void (*add_options)(CLI::App&, Options&);
  // What CLI11 can't check, and what follows from the options; before anything is asked.
  Status (*prepare)(Options&) = nullptr;
  bool names_volume = true;  // false: its own options do
  bool asks_node = true;     // false: it works on files of this host, and gets no socket
  // Of all volumes that have nodes here, where none is named and there are several.
  Result<Output> (*run_all)(const Options&, const std::vector<std::string>& sockets) = nullptr;
};

const std::vector<Verb>& verbs();

}  // namespace twinblock
