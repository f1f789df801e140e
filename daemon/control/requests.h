// The control protocol: one JSON object a line in, one out. Pure but for the engine that it calls;
// loop thread only.
//
//   {"verb":"status","args":{}}  ->  {"ok":true,"result":{…}}
//                                or  {"ok":false,"error":"sentence","action":"what to do"}
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "io/memory_standing.h"
#include "volume/engine.h"

namespace twinblock {

// By which key of its file a node proves itself; it takes all of them from the peer.
enum class KeyChoice { kFirst, kLast };

// What `status` adds to the engine's own view, and what of the node is not the engine's.
struct NodeFacts {
  std::string disk_engine;  // "io_uring" or "threads"
  std::string disk_io;      // "direct" or "buffered"
  std::string nbd_uri;
  std::string control_path;
  std::string backing;
  std::string metadata;
  std::string config;
  int pid = 0;
  MemoryStanding memory = {};
  std::string key = {};  // the fingerprint of this node's; empty: links are not encrypted
  // Reads the key's file anew; connections that stand are left alone. `done` is told the fingerprint of the chosen one, on the
  // loop, when it was read. Null: links are not encrypted.
  std::function<void(KeyChoice, std::function<void(const Result<std::string>&)> done)> read_keys = {};
  // Ends the clients' connections that this process has made; how many there were.
  std::function<int(int pid)> hang_up = {};
};

// Answers one request; `reply` is called once, at once or later, with a line without its newline.
// Anything that is not a good request is answered with an error that says what is wrong with it. `gone`: whether who
// asked waits for no answer any more; null: he waits.
void handle_control_request(Engine& engine, const NodeFacts& facts, const std::string& request,
                            std::function<void(std::string)> reply, std::function<bool()> gone = nullptr);

// The "result" of `stats`: what was counted since the process began.
nlohmann::json render_stats(const StatusView& view, const LatencyView& latency);

// The "result" of `status`, and two parts of it.
nlohmann::json render_status(const StatusView& view, const NodeFacts& facts);
nlohmann::json render_links(const StatusView& view);
// null: there is no cache of reads.
nlohmann::json render_cache(const StatusView& view);
nlohmann::json render_compression(const StatusView& view);

}  // namespace twinblock
