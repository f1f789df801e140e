// A client of the primary, as nbdkit's workers are: overlapping writes, zeroes, flushes and reads,
// several at a time. It lives within the node's process and dies with it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "history.h"
#include "options.h"
#include "random.h"
#include "sim_node.h"
#include "volume/cached_read.h"

namespace twinblock::sim {

class Workload {
 public:
  struct Request {
    ClientRequest client;
    uint64_t id = 0;
    uint64_t number = 0;  // of a write
    uint64_t began_ns = 0;
    uint64_t asked_ns = 0;  // the engine, by one that did not pass it by
    uint64_t troubles = 0;  // the world's count when it began
    uint64_t pauses = 0;    // the node's
    uint64_t late_ns = 0;   // … and how long both had stood still
    std::vector<std::byte> buffer;
    std::vector<WirePiece> pieces;
    std::vector<std::vector<std::byte>> compressed;  // what some of them travel as
    std::vector<ContentTag> tags;                    // of whole blocks, where there is a cache of reads
    std::unique_ptr<CachedRead> cached;              // of a read beside the loop
  };
  // Called at the instant of each answer, before the history hears of it. False: nobody can keep what
  // this answer promises, and nobody has to.
  using Answered = std::function<bool(SimNode& node, const Request& request)>;

  Workload(Scheduler& scheduler, History& history, const Options& options, Random random,
           Answered answered);

  // The node is primary: requests begin.
  void open(SimNode& node);
  [[nodiscard]] SimNode* node() const { return node_; }
  // No new requests; those under way go on.
  void stop() { issuing_ = false; }
  void go_on();
  // As many at once as there may be.
  void burst();
  [[nodiscard]] bool is_open() const { return node_ != nullptr; }
  [[nodiscard]] bool idle() const { return requests_.empty(); }
  // For how long the oldest request has waited for its answer; 0: none does.
  [[nodiscard]] uint64_t longest_wait_ns() const;
  void close();
  // The process is gone, and the engine in it.
  void abandon();
  // Reads the whole volume through the engine; idle() when all is read.
  void read_all();
  void flush_all();
  // One write of just that.
  void write_over(uint64_t offset_bytes, uint64_t length_bytes);
  [[nodiscard]] const Request* oldest() const {
    return requests_.empty() ? nullptr : requests_.begin()->second.get();
  }
  void count_trouble() { ++troubles_; }
  [[nodiscard]] uint64_t troubles() const { return troubles_; }
  [[nodiscard]] uint64_t answers_total() const { return answers_; }
  [[nodiscard]] uint64_t writes_total() const { return writes_; }  // acknowledged
  // Whether a write that touches the range is under way.
  [[nodiscard]] bool writing(uint64_t offset_bytes, uint64_t length_bytes) const;

 private:
  void next(uint64_t delay_ns);
  void issue();
  Request& add(ClientOp op);
  void choose_range(Request& request, uint64_t bytes_max);
  void begin_write(Request& request);
  void write(Request& request);
  void cut(Request& request);
  void compress(Request& request, WirePiece& piece);
  void begin_zero(Request& request);
  void begin_read(Request& request);
  void finish_read(uint64_t id, InflightFilter::Mark mark, uint64_t from, bool failed);
  void wait_for_others(uint64_t id, InflightFilter::Mark mark, bool failed, bool later);
  bool read_missing(Request& request, uint64_t from, uint64_t to);
  void keep_later(Request& request);
  void check_bypassed(const Request& request) const;
  void note_acknowledged(const Request& request, bool counts);
  void submit(Request& request);
  void answered(Request& request);

  Scheduler& scheduler_;
  History& history_;
  const Options& options_;
  Random random_;
  Random piece_random_;  // apart, so that it does not shift what is drawn otherwise
  Random keep_random_;   // …
  Answered answered_;
  SimNode* node_ = nullptr;
  bool issuing_ = false;
  bool next_due_ = false;
  uint64_t opened_ = 0;
  uint64_t next_id_ = 1;
  uint64_t troubles_ = 0;
  uint64_t answers_ = 0;
  uint64_t writes_ = 0;
  std::map<uint64_t, std::unique_ptr<Request>> requests_;
  // Of each sector: the write that was acknowledged last (0: zeroes), of those of this opening.
  static constexpr uint64_t kUnknown = ~uint64_t{0};
  std::vector<uint64_t> acknowledged_;
};

}  // namespace twinblock::sim
