// What `twinblock` can do: one table of verbs, with what each prints.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/attach.h"
#include "twinblock/locate.h"

namespace twinblock {

struct Options {
  NodeOptions node;
  bool print_json = false;
  bool force = false;
  bool join = false;
  bool peer_is_dead = false;
  bool progress = false;
  std::string method = kMethodAuto;
  std::string goal = "duplex";
  std::string timeout = "60s";
};

// What a verb prints: `text` for people, `data` with --json.
struct Output {
  nlohmann::json data;
  std::string text;
};

struct Verb {
  const char* name;
  const char* summary;
  const char* help;
  Result<Output> (*run)(const Options&, const std::string& socket);
  void (*add_options)(CLI::App&, Options&);
};

const std::vector<Verb>& verbs();

}  // namespace twinblock
