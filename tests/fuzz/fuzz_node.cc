#include "fuzz_node.h"

#include <utility>

#include "control/event_words.h"
#include "control/status_words.h"
#include "control/why_words.h"
#include "metadata_image.h"

namespace twinblock::fuzz {

class FuzzNode::QuietLog final : public Log {
 public:
  explicit QuietLog(const FuzzNode& node) : node_(node) {}
  void log(Severity, const std::string& line) override {
    require(!line.empty() && printable_line(line), "a log line that is none", line);
    if (node_.logs) node_.logs(line);
  }

 private:
  const FuzzNode& node_;
};

Config make_config(uint64_t volume_bytes, const std::string& replication) {
  const std::string text = "volume = \"r0\"\nsize = \"" + std::to_string(volume_bytes) + R"("
[node.alpha]
backing = "/alpha.img"
metadata = "/alpha.meta"
runtime = "/run/alpha"
[node.beta]
backing = "/beta.img"
metadata = "/beta.meta"
runtime = "/run/beta"
[link.main]
alpha = "10.0.0.1:7700"
beta = "10.0.0.2:7700"
[link.backup]
alpha = "10.1.0.1:7700"
beta = "10.1.0.2:7700"
[replication]
)" + replication;
  Result<Config> config = parse_config(text, "r0.toml");
  require(config.ok(), "the harness's own configuration", config.ok() ? "" : config.error().what);
  return std::move(config.value());
}

FuzzNode::FuzzNode(const Config& configuration, std::string name,
                   std::vector<std::byte> metadata_file, metadata::Loaded loaded,
                   DataFound found, Witness* witness, Copies* copies, uint64_t boot, FenceCommand* fence,
                   uint64_t seed, bool cache_is_gone, uint64_t own_set_bytes_max, BackingNumbers numbers)
    : config(configuration),
      network(scheduler, sim::Random(1)),
      data(scheduler, std::vector<std::byte>(configuration.size_bytes)),
      metadata(scheduler, std::move(metadata_file)),
      process_(std::make_shared<sim::Process>()),
      log_(std::make_unique<QuietLog>(*this)) {
  process_->name = name;
  data.process = metadata.process = process_;
  clock = std::make_unique<sim::VirtualClock>(scheduler, process_, sim::Random(2));
  // Its host was started just now, so that what lies some seconds back was before its clock began. (Of the simulator's
  // hosts only some are that young.)
  process_->clock_origin_ns = 1;
  port_ = network.attach(0, process_);
  workers = std::make_unique<sim::VirtualWorkers>(scheduler, process_, sim::Random(4));
  engine = std::make_unique<Engine>(
      Engine::Parts{config, std::move(name), *clock, *log_, *port_, data, metadata, *workers,
                    std::move(loaded), found, metadata::Uuid{1},
                    [random = sim::Random(seed)]() mutable { return random.next() | 1; }, kEventWords,
                    boot, cache_is_gone, limits::kFrameZeroBytesMax, {witness, fence}, {}, copies,
                    limits::kReceiveBytesMax, limits::kZeroBytesInFlightMax, own_set_bytes_max, numbers});
}

FuzzNode::~FuzzNode() {
  engine.reset();
  workers.reset();
  port_.reset();
  clock.reset();
  scheduler.clear();
}

void FuzzNode::stand_still(uint64_t ns) {
  scheduler.stand_still(process_);
  run(ns);
  scheduler.resume(process_);
}

void FuzzNode::look() const {
  const StatusView view = engine->status();
  const StatusWords words = status_words(view);
  require(!words.status.empty() && printable_line(words.status), "a status without words",
          words.status);
  require(printable_line(words.action), "an action that is no line", words.action);
  require(view.dirty_bytes <= view.size_bytes && view.intent_bytes <= view.size_bytes,
          "more may differ than there is");
  require(view.resync.percent >= 0 && view.resync.percent <= 100 &&
              view.resync.done_bytes <= view.resync.total_bytes,
          "more than all of a resync is done");
  for (const std::string& line : why_words(view))
    require(!line.empty() && printable_line(line), "a reason that is no line", line);
}

std::unique_ptr<FuzzNode> plain_node(const Config& config, const metadata::NodeRecord& record, Witness* witness,
                                     Copies* copies, uint64_t boot, bool cache_is_gone) {
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  return std::make_unique<FuzzNode>(config, record.node, std::move(file), std::move(loaded), DataFound::kSome, witness,
                                    copies, boot, nullptr, 3, cache_is_gone);
}

std::unique_ptr<FuzzNode> fenced_node(const Config& config, const metadata::NodeRecord& record, FenceCommand* fence,
                                      uint64_t boot) {
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  return std::make_unique<FuzzNode>(config, record.node, std::move(file), std::move(loaded), DataFound::kSome, nullptr,
                                    nullptr, boot, fence);
}

std::unique_ptr<FuzzNode> empty_node(const Config& config, const metadata::NodeRecord& record) {
  std::vector<std::byte> file = plain_file(record);
  metadata::Loaded loaded = load_plain(file, record);
  return std::make_unique<FuzzNode>(config, record.node, std::move(file), std::move(loaded), DataFound::kNone);
}

std::unique_ptr<FuzzNode> blank_node(const Config& config, DataFound found) {
  constexpr uint32_t kRegionBytes = 64 * kKiB;
  std::vector<std::byte> file(metadata::metadata_bytes_max(config.size_bytes, kRegionBytes));
  Result<metadata::Loaded> loaded =
      metadata::load(metadata::reader_of(file), file.size(), config.size_bytes, "r0.meta");
  require(loaded.ok() && loaded.value().blank, "the test's own metadata");
  loaded.value().record.region_bytes = kRegionBytes;
  return std::make_unique<FuzzNode>(config, "alpha", std::move(file), std::move(loaded.value()), found);
}

}  // namespace twinblock::fuzz
