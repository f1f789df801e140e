// One running node: the loop, its files and sockets, and the engine; and the bridge over which
// nbdkit's worker threads hand requests to the loop and wait for them. The public calls are for any
// thread but for start() and the destructor, which nbdkit's main thread calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "base/hand_over_stack.h"
#include "config/config.h"
#include "control/requests.h"
#include "io/posix/backing_copies.h"
#include "io/posix/control_server.h"
#include "io/posix/etcd_witness.h"
#include "io/posix/fence_command_process.h"
#include "io/posix/key_reader.h"
#include "io/posix/loop.h"
#include "io/posix/posix_disk.h"
#include "io/posix/stderr_log.h"
#include "io/posix/tcp_network.h"
#include "io/posix/throttled_log.h"
#include "io/posix/worker_threads.h"
#include "service_report.h"
#include "volume/cached_read.h"
#include "volume/engine.h"

namespace twinblock {

class Node {
 public:
  // Opens the files and sockets of node `name` and starts the loop, and all threads without which it can't go on.
  // Throws std::system_error when there can be no more of them.
  static Result<std::unique_ptr<Node>> start(Config config, const std::string& name);
  // Orderly: a primary is demoted, the peer is told. No call of a client's is under way, and none
  // comes any more; close_client() need not have been called for each.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] uint64_t size_bytes() const { return engine_->worker_view().volume_bytes(); }

  // A client opens the export; `term` as of Clients::opened.
  Status open_client(uint64_t term);
  void close_client();
  // Something has failed at a client, who is told no more than a number. Does not wait for who reads the log.
  void log_client_error(const std::string& line);

  // Blocking; 0 or an errno value. The range lies inside the volume.
  int read(std::span<std::byte> into, uint64_t offset_bytes);
  int write(std::span<const std::byte> from, uint64_t offset_bytes, bool fua);
  int zero(uint64_t offset_bytes, uint64_t length_bytes, bool may_unmap, bool fast_only, bool fua);
  int flush();
  // Whether a hole begins at `offset_bytes`, and in `extent_bytes` how long that or the data is, at
  // most `length_bytes`. Blocking; never fails: "data" is always a right answer.
  bool is_hole(uint64_t offset_bytes, uint64_t length_bytes, uint64_t& extent_bytes);

 private:
  Node(Config config, std::string name);
  Status open_files(uint64_t volume_bytes, const metadata::Loaded& loaded, int metadata_fd);
  void open_witness();
  Result<std::string> take_keys(KeyChoice choice, Result<LinkKeys> read);
  Status open_engine(metadata::Loaded loaded, DataFound found, bool may_forget);
  int run_request(ClientRequest& request);
  void learn(const CachedRead& cached, ContentCache& cache, uint64_t began_ns);
  bool read_beside_the_loop(std::span<std::byte> into, uint64_t offset_bytes, InflightFilter::Mark mark, int& error);
  int read_missing(const CachedRead& cached, uint64_t offset_bytes, std::span<std::byte> into);
  void end_clients();
  void wait_for(const std::atomic<bool>& finished) const;
  void take_submitted();
  Status call(const std::function<Status()>& work);

  const Config config_;
  const std::string name_;
  const MemoryStanding memory_;  // before anything that starts a thread
  StderrLog log_;
  ThrottledLog client_errors_;
  Loop loop_;
  std::unique_ptr<PosixDisk> data_;
  std::unique_ptr<PosixDisk> metadata_;
  std::unique_ptr<TcpNetwork> network_;
  std::unique_ptr<WorkerThreads> workers_;
  std::unique_ptr<KeyReader> key_reader_;  // null: links are not encrypted
  std::unique_ptr<EtcdWitness> witness_;        // null: none of this kind
  std::unique_ptr<FenceCommandProcess> fence_;  // …
  std::unique_ptr<BackingCopies> copies_;
  std::unique_ptr<Engine> engine_;
  NodeFacts facts_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<ServiceReport> report_;
  struct Stop {
    std::unique_ptr<Timer> timer;  // looks whether one was asked for
    bool now = false;              // nbdkit was told
    int looks = 0;                 // since one was
    bool clients_cut_off = false;  // they had the export open when it was asked for
  } stop_;
  uint64_t clients_ = 0;                 // opened and not closed; loop thread
  uint64_t unfinished_ = 0;              // requests that the engine has; loop thread
  std::thread thread_;
  HandOverStack<ClientRequest> submitted_;  // by workers, for the loop
  std::atomic<int> outstanding_{0};  // requests that workers wait for
};

}  // namespace twinblock
