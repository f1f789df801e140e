#include "sim_node.h"

#include <cerrno>
#include <utility>

#include "base/bytes.h"
#include "control/event_words.h"
#include "control/status_words.h"
#include "metadata/memory_doubt.h"
#include "report.h"

namespace twinblock::sim {
namespace {

// Small enough that the zeroes of a small volume travel in several pieces.
constexpr uint64_t kZeroPieceBytes = 16 * kKiB;
// … and that some pieces wait for others to land.
constexpr uint64_t kZeroBytesInFlightMax = 64 * kKiB;

}  // namespace

class SimNode::NodeLog final : public Log {
 public:
  explicit NodeLog(const std::string& name) : name_(name) {}
  void log(Severity severity, const std::string& line) override {
    static constexpr const char* kMarks[] = {"", "warning: ", "error: "};
    if (Report::verbose()) Report::trace(name_, kMarks[static_cast<int>(severity)] + line);
  }

 private:
  const std::string& name_;
};

SimNode::SimNode(Scheduler& scheduler, VirtualNetwork& network, const Config& config, int host,
                 uint32_t region_bytes, Random random)
    : scheduler_(scheduler),
      network_(network),
      config_(&config),
      host_(host),
      region_bytes_(region_bytes),
      name_(config.nodes[static_cast<size_t>(host)].name),
      random_(random),
      boot_(static_cast<uint64_t>(host) + 1),
      log_(std::make_unique<NodeLog>(name_)) {
  replace_disks();
}

SimNode::~SimNode() {
  if (running()) end_process();
}

void SimNode::replace_disks() {
  data_ = std::make_unique<VirtualDisk>(scheduler_, random_.fork(), name_ + "'s data disk",
                                        config_->size_bytes);
  // A copy of the chances: drawing from them would shift what other parts see.
  copies_shelf_ = std::make_unique<CopyShelf>(scheduler_, Random(random_).fork());
  replace_metadata();
}

void SimNode::replace_metadata() {
  metadata_ = std::make_unique<VirtualDisk>(
      scheduler_, random_.fork(), name_ + "'s metadata disk",
      metadata::metadata_bytes_max(config_->size_bytes, region_bytes_));
}

namespace {

constexpr size_t kShelfMax = 2;

std::unique_ptr<VirtualDisk> copy_of(const VirtualDisk& disk, Scheduler& scheduler, Random random,
                                     const std::string& name) {
  auto copy = std::make_unique<VirtualDisk>(scheduler, random, name, disk.size_bytes());
  if (!disk.is_new()) copy->restore(disk.contents(), disk.size_bytes());
  return copy;
}

}  // namespace

const VirtualDisk* SimNode::lay_copy_aside() {
  if (shelf_.size() == kShelfMax) return nullptr;
  if (Report::verbose()) Report::trace(name_, "-- a copy of its disks is made");
  shelf_.push_back({copy_of(*data_, scheduler_, random_.fork(), name_ + "'s data disk"),
                    copy_of(*metadata_, scheduler_, random_.fork(), name_ + "'s metadata disk"),
                    std::make_unique<CopyShelf>(scheduler_, Random(random_).fork())});
  return shelf_.back().data.get();
}

void SimNode::swap_disks() {
  const bool blank = shelf_.empty() || (shelf_.size() < kShelfMax && random_.chance(0.5));
  put_in(blank ? shelf_.size() : random_.below(shelf_.size()));
}

void SimNode::put_in_blank_disks() { put_in(shelf_.size()); }

void SimNode::put_back_disks() { put_in(shelf_.size() - 1); }

void SimNode::put_in(size_t which) {
  data_->faults = metadata_->faults = DiskFaults{};
  Pair out{std::move(data_), std::move(metadata_), std::move(copies_shelf_)};
  if (which == shelf_.size()) {
    if (Report::verbose()) Report::trace(name_, "-- gets a blank pair of disks");
    replace_disks();
  } else {
    if (Report::verbose())
      Report::trace(name_, "-- gets a pair of disks back from the shelf, with its metadata");
    data_ = std::move(shelf_[which].data);
    metadata_ = std::move(shelf_[which].metadata);
    copies_shelf_ = std::move(shelf_[which].copies);
    shelf_.erase(shelf_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  shelf_.push_back(std::move(out));
}

void SimNode::start() {
  if (Report::verbose()) Report::trace(name_, "-- starts");
  process_ = std::make_shared<Process>();
  process_->name = name_;
  started_ns_ = scheduler_.now_ns();
  clock_ = std::make_unique<VirtualClock>(scheduler_, process_, random_.fork());
  port_ = network_.attach(host_, process_);
  // A copy of the chances: drawing from them would shift what other parts see.
  workers_ = std::make_unique<VirtualWorkers>(scheduler_, process_, random_);
  metadata_->attach(process_);
  // As the plugin does: what is found is acted upon, and a power cut must not take it back.
  metadata_->flush_now();
  const std::span<const std::byte> found = metadata_->contents();
  Result<metadata::Loaded> loaded =
      metadata::load(metadata::reader_of(found), found.size(), config_->size_bytes, name_ + ".meta");
  if (!loaded) Report::violation(name_ + " refuses to start: " + loaded.error().what);
  if (loaded.value().blank) loaded.value().record.region_bytes = region_bytes_;
  for (const std::string& warning : loaded.value().warnings) Report::trace(name_, warning);
  data_->attach(process_, !loaded.value().record.flush_failed);
  const bool cache_is_gone = look_at_memory(loaded.value()) && data_->forget_cache();
  metadata::Uuid instance;
  for (uint8_t& byte : instance) byte = static_cast<uint8_t>(random_.next());
  if (outside_.witness && config_->witness.kind == WitnessKind::kEtcd) witness_ = outside_.witness(process_);
  if (outside_.fence && config_->witness.kind == WitnessKind::kCommand) fence_ = outside_.fence(process_);
  copies_ = copies_shelf_->port(process_, *data_);
  engine_ = std::make_unique<Engine>(
      Engine::Parts{*config_, name_, *clock_, *log_, *port_, *data_, *metadata_, *workers_,
                    std::move(loaded.value()), data_->is_new() ? DataFound::kNone : DataFound::kSome, instance,
                    [random = random_.fork()]() mutable { return random.next() | 1; }, kEventWords, boot_,
                    cache_is_gone, kZeroPieceBytes, {witness_.get(), fence_.get()},
                    outside_.cut_off_clients, copies_.get(), receive_bytes_max_, kZeroBytesInFlightMax});
  engine_->orders().set_sample_every(4);
  if (Status started = engine_->start(); !started)
    Report::violation(name_ + " does not start: " + started.error().what);
}

// As the plugin does. Whether a flush failed, and memory may be dropped.
bool SimNode::look_at_memory(metadata::Loaded& loaded) {
  doubt_is_on_record_ = true;
  if (!data_->memory_deceives(metadata::doubtful_ranges(loaded))) return loaded.record.flush_failed;
  log_->log(Severity::kWarning, "what memory shows is not on its disk: a flush failed");
  const Status recorded =
      metadata::record_doubt(loaded, [this](uint64_t offset_bytes, std::span<const std::byte> bytes) {
        return metadata_->write_now(offset_bytes, bytes) ? ok_status() : Status(system_error(EIO, "write"));
      });
  doubt_is_on_record_ = recorded.ok();
  return recorded.ok();
}

std::array<uint16_t, kPhases>& SimNode::phases_seen() {
  static std::array<uint16_t, kPhases> seen{};
  return seen;
}

std::array<uint16_t, kChannelPhases>& SimNode::channel_phases_seen() {
  static std::array<uint16_t, kChannelPhases> seen{};
  return seen;
}

bool SimNode::remembers_failed_flush() const {
  if (!metadata_->idle()) return false;
  const std::span<const std::byte> found = metadata_->contents();
  const Result<metadata::Loaded> loaded =
      metadata::load(metadata::reader_of(found), found.size(), config_->size_bytes, name_ + ".meta");
  return loaded.ok() && loaded.value().record.flush_failed;
}

void SimNode::end_process() {
  process_->alive = false;
  process_->deferred.clear();
  process_->deferred_timers.clear();
  data_->process_ended();
  metadata_->process_ended();
  for (size_t from = 0; from < kPhases; ++from)
    phases_seen()[from] |= engine_->inside().phase_steps().after(static_cast<Phase>(from));
  for (size_t from = 0; from < kChannelPhases; ++from)
    channel_phases_seen()[from] |=
        engine_->inside().channel_steps().after(static_cast<ChannelPhase>(from));
  engine_.reset();
  copies_.reset();
  witness_.reset();
  fence_.reset();
  workers_.reset();
  port_.reset();
  clock_.reset();
}

void SimNode::kill() {
  if (Report::verbose()) Report::trace(name_, "-- is killed");
  end_process();
}

void SimNode::power_off() {
  if (Report::verbose()) Report::trace(name_, "-- loses power");
  powered_ = false;
  boot_ += 2;
  network_.set_power(host_, false);
  if (running()) end_process();
  data_->power_lost();
  metadata_->power_lost();
}

void SimNode::power_on() {
  powered_ = true;
  network_.set_power(host_, true);
}

void SimNode::pause() {
  if (Report::verbose()) Report::trace(name_, "-- is paused");
  ++pauses_;
  process_->paused = true;
}

void SimNode::resume() {
  if (Report::verbose()) Report::trace(name_, "-- goes on");
  scheduler_.resume(process_);
}

std::string SimNode::describe() {
  const std::string text = "\n  " + name_ + ": ";
  if (!running()) return text + "not running";
  const StatusView view = engine().status();
  std::string links;
  for (const StatusView::Link& link : view.links)
    links += ", link " + link.name + " " + link_state_name(link.state) + " (" + link.last_error + ")";
  return text + role_name(view.role) + ", " + state_name(view.state) + ", data " + data_state_name(view.data) +
         ", dirty " + std::to_string(view.dirty_bytes) + ", generation " +
         metadata::format_generation(view.mine.generations.current) + " base " +
         metadata::format_generation(view.mine.generations.base) + links + ". " + status_words(view).status;
}

}  // namespace twinblock::sim
