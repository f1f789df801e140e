// Asks the nodes of this host, for the page: all of them at once, none for long, so that one that hangs holds up
// none of the others. Remembers what each said last. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "twinblock/locate.h"
#include "twinblock/web_content.h"
#include "twinblock/web_history.h"

namespace twinblock {

class WebGather {
 public:
  explicit WebGather(std::string config_dir = kConfigDirectory) : config_dir_(std::move(config_dir)) {}

  // Of the nodes behind these control sockets, and of those that were there before and were not taken away, at `now_ms`
  // since 1970.
  WebFigures ask(const std::vector<std::string>& sockets, uint64_t now_ms);

 private:
  struct Told {
    nlohmann::json status, latency, events;
    nlohmann::json probe;  // of a link, the last one; null: there was none
    uint64_t probe_number = 0;
    std::string metrics, error, action;
    uint64_t told_ms = 0;  // when it answered last; 0: never
    bool answers = false;
  };
  // `known`: the probe that is here, of the process `pid`: each counts its own.
  static Told ask_node(const std::string& socket, uint64_t known, uint64_t pid);
  static void ask_probe(const std::string& socket, uint64_t known, Told& told);

  void forget_what_was_taken_away(const std::vector<std::string>& sockets);
  [[nodiscard]] bool has_a_file(const std::string& volume, const Told& node) const;

  const std::string config_dir_;
  std::map<std::string, Told> nodes_;  // by the volume
  WebHistory history_;
};

}  // namespace twinblock
