// What the command line says, and what a verb gives back.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/attach.h"
#include "twinblock/exit_status.h"
#include "twinblock/locate.h"

namespace twinblock {

struct Options {
  NodeOptions node;
  bool print_json = false;
  bool force = false;                   // init, detach
  bool join = false;                    // init
  bool peer_is_dead = false;            // promote
  bool yes = false;                     // resolve
  std::string keep;                     // resolve: "local" or "peer"
  std::vector<std::string> pace_words;  // resync: as typed, with the volume
  std::string pace;                     // resync, from pace_words
  uint64_t rate_bytes_per_s = 0;        // … with pace "rate"
  bool repair = false, stop = false, detach = false, follow = false;  // verify, events
  bool progress = false;                                              // wait
  std::vector<std::string> link_words;                // link: as typed, with the volume
  std::string link_action;                            // link, from link_words …
  std::vector<std::string> link_names;                // … of all actions but list
  std::map<std::string, std::string> link_addresses;  // … of add, node name -> "IP:port"
  std::string link_rate;                              // link add
  std::vector<std::string> compression_words;         // compression: as typed, with the volume
  std::string compression_mode;          // compression, from compression_words; empty: as it is
  int compression_level = 0;             // compression; 0: as it is
  std::string method = kMethodAuto;      // attach
  std::vector<std::string> wait_words;   // wait: as typed, with the volume
  std::string goal;                      // wait: of --for, or from wait_words
  std::string timeout = "60s";           // wait
  uint64_t timeout_ns = 0;               // wait, from timeout
  std::string window;                    // latency: "start", "10s" or "60s"
  bool window_given = false;             // … and the user said so
  bool watch = false;                    // latency
  std::string interval;                  // … as typed; empty: not said
  uint64_t interval_ns = 0;              // … from that
  std::optional<uint32_t> sample_every;  // latency
  uint64_t since = 0;                    // events
};

// What a verb prints: `text` for people, `data` with --json.
struct Output {
  nlohmann::json data;
  std::string text;
  int exit_status = kExitOk;
  bool printed = false;  // all has been said already
};

// Of the options of `resync`: an optional volume, and pause, resume, auto, or rate and a size.
// Fills in node.volume, pace and rate_bytes_per_s; an error (kExitUsage) says what is wrong.
Status prepare_pace(Options& options);
// Of `link`: an action, an optional volume, names, and with add addresses. Fills in node.volume and
// the link_ options; an error (kExitUsage) says what is wrong.
Status prepare_link(Options& options);
// Of `compression`: an optional volume and an optional mode.
Status prepare_compression(Options& options);
// Of `wait`: an optional volume, what to wait for, unless --for says it, and the duration in
// timeout. Fills in node.volume, goal and timeout_ns.
Status prepare_wait(Options& options);
// Of `verify`: which options go together.
Status prepare_verify(Options& options);
// Of `latency`: the window and the interval of --watch.
Status prepare_latency(Options& options);

}  // namespace twinblock
