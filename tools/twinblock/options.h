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

// One struct for each verb that has options of its own. `words` are some verbs' words as typed, the
// volume among them; prepare_…() fills in what follows from them.
struct InitOptions {
  bool force = false;
  bool join = false;
};
struct PromoteOptions {
  bool peer_is_dead = false;
};
struct ResolveOptions {
  std::string keep;  // "local" or "peer"
  bool yes = false;
};
struct ResyncOptions {
  std::vector<std::string> words;
  std::string pace;               // from them: "pause", "resume", "auto" or "rate", …
  uint64_t rate_bytes_per_s = 0;  // … and how much that is
};
struct VerifyOptions {
  bool repair = false;
  bool follow = false;
  bool detach = false;
  bool stop = false;
};
struct WaitOptions {
  std::vector<std::string> words;
  std::string goal;  // of --for, or from the words
  std::string timeout = "60s";
  uint64_t timeout_ns = 0;  // from that
  bool progress = false;
};
struct LinkOptions {
  std::vector<std::string> words;
  std::string action;                            // from them, as are …
  std::vector<std::string> names;                // … of all actions but list, …
  std::map<std::string, std::string> addresses;  // … and of add: node name -> "IP:port"
  std::string rate;                              // add
};
struct CompressionOptions {
  std::vector<std::string> words;
  std::string mode;  // from them; empty: as it is
  int level = 0;     // 0: as it is
};
struct KeyOptions {
  std::vector<std::string> words;
  std::string action;  // from them: "new", "show", "add", "reload" or "renew"
};
struct AttachOptions {
  std::string method = kMethodAuto;
  bool stay = false;
};
struct DetachOptions {
  bool force = false;
  bool with_host = false;
};
struct LatencyOptions {
  std::string window;         // "start", "10s" or "60s"
  bool window_given = false;  // the user said so
  bool watch = false;
  std::string interval;      // of --watch, as typed; empty: not said
  uint64_t interval_ns = 0;  // from that
  std::optional<uint32_t> sample_every;
};
struct EventsOptions {
  bool follow = false;
  uint64_t since = 0;
};

struct Options {
  // Of all verbs:
  NodeOptions node;
  bool print_json = false;
  // Of the one that is named like it; the others stay as they are.
  InitOptions init;
  PromoteOptions promote;
  ResolveOptions resolve;
  ResyncOptions resync;
  VerifyOptions verify;
  WaitOptions wait;
  LinkOptions link;
  CompressionOptions compression;
  KeyOptions key;
  AttachOptions attach;
  DetachOptions detach;
  LatencyOptions latency;
  EventsOptions events;
};

// What a verb prints: `text` for people, `data` with --json.
struct Output {
  nlohmann::json data;
  std::string text;
  int exit_status = kExitOk;
  bool printed = false;  // all has been said already
};

// Of the options of `resync`: an optional volume, and pause, resume, auto, or rate and a size.
// An error (kExitUsage) says what is wrong, as from all of these.
Status prepare_pace(Options& options);
// Of `link`: an action, an optional volume, names, and with add addresses.
Status prepare_link(Options& options);
// Of `compression`: an optional volume and an optional mode.
Status prepare_compression(Options& options);
// Of `key`: an action and an optional volume.
Status prepare_key(Options& options);
// Of `wait`: an optional volume, what to wait for, unless --for says it, and the timeout.
Status prepare_wait(Options& options);
// Of `verify`: which options go together.
Status prepare_verify(Options& options);
// Of `attach`: which options go together.
Status prepare_attach(Options& options);
// Of `latency`: the window and the interval of --watch.
Status prepare_latency(Options& options);

}  // namespace twinblock
