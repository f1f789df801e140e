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
  bool without_witness = false;
};
struct ContinueOptions {
  bool without_witness = false;
};
struct ResolveOptions {
  std::string keep;  // "local" or "peer"
  bool yes = false;
  uint64_t state = 0;  // of what is given up, as it was shown; 0: not said
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
  std::string timeout;      // none: a minute, and with --progress, a minute in which nothing is copied
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
  bool in_use = false;
  bool with_host = false;
};
struct PromoterOptions {
  std::string prefer;
  std::string target;  // empty: twinblock-VOLUME.target
  std::string start;
  std::string stop;
  std::string restart_wait;  // as typed; empty: not said
  std::string boot_wait;
  uint64_t restart_wait_ns = 0;  // from that
  uint64_t boot_wait_ns = 0;
};
struct LatencyOptions {
  std::string window;         // "start", "10s" or "60s"
  bool window_given = false;  // the user said so
  std::optional<uint32_t> sample_every;
  bool sizes = false;
  bool links = false;
};
struct GrowOptions {
  std::vector<std::string> words;  // as typed: a volume, if any, and a size
  uint64_t size_bytes = 0;         // from the latter
};
struct SnapshotOptions {
  std::vector<std::string> words;  // as typed: a volume, if any, and a name
  std::string name;                // the latter
};
struct PlanOptions {
  std::vector<std::string> links;  // as typed: "10Gbit,rtt=80us"
  std::string window;              // "60s", "10s" or "start"; empty: the first
  std::string now;                 // what the present links are called together; empty: as the node says
  double now_bits_per_s = 0;       // from that
  double ratio = 0;                // what the data compresses to; 0: not said
  std::vector<std::string> from;   // recordings; without any, the node is asked
  std::vector<std::string> devices;  // of them; empty: all whole disks
  double times = 1;
};
struct ProbeOptions {
  std::vector<std::string> links;  // none: all
  uint64_t duty = 0;               // per cent; 0: as clients allow
  std::string plot;                // a file; empty: none
};
struct WebOptions {
  std::string listen = "127.0.0.1:7780";
  std::vector<std::string> hosts;  // by what else than addresses a browser may call it
};
// --watch, of the verbs that have it.
struct WatchOptions {
  bool on = false;
  std::string interval;      // as typed; empty: not said
  uint64_t interval_ns = 0;  // from that
};
struct EventsOptions {
  bool follow = false;
  uint64_t since = 0;
};

struct Options {
  // Of all verbs:
  NodeOptions node;
  bool print_json = false;
  WatchOptions watch;
  // Of the one that is named like it; the others stay as they are.
  InitOptions init;
  PromoteOptions promote;
  ContinueOptions go_on;  // `continue`
  ResolveOptions resolve;
  GrowOptions grow;
  SnapshotOptions snapshot;
  ResyncOptions resync;
  VerifyOptions verify;
  WaitOptions wait;
  LinkOptions link;
  CompressionOptions compression;
  KeyOptions key;
  AttachOptions attach;
  DetachOptions detach;
  PromoterOptions promoter;
  LatencyOptions latency;
  PlanOptions plan;
  ProbeOptions probe;
  WebOptions web;
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
// Of `grow`: an optional volume, and a size.
Status prepare_grow(Options& options);
// Of `snapshot`: an optional volume, and a name.
Status prepare_snapshot(Options& options);
// Of `link`: an action, an optional volume, names, and with add addresses.
Status prepare_link(Options& options);
// Of `compression`: an optional volume and an optional mode.
Status prepare_compression(Options& options);
// Of `key`: an action and an optional volume.
Status prepare_key(Options& options);
// Of `wait`: an optional volume, what to wait for, unless --for says it, and the timeout.
Status prepare_wait(Options& options);
// Of `promote`: which options go together.
Status prepare_promote(Options& options);
// Of `verify`: which options go together.
Status prepare_verify(Options& options);
// Of `attach`: which options go together.
Status prepare_attach(Options& options);
// Of `promoter`: which options go together, and its times.
Status prepare_promoter(Options& options);
// Of `status`: the interval of --watch.
Status prepare_status(Options& options);
// Of `web`: where it listens, as "IP:port" whatever was typed.
Status prepare_web(Options& options);
// Of `plan`: what goes together, its links, rates and recordings.
Status prepare_plan(Options& options);
// Of `probe`: the duty and the picture's file.
Status prepare_probe(Options& options);
// Of `latency`: the window and the interval of --watch.
Status prepare_latency(Options& options);

}  // namespace twinblock
