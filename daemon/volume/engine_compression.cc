// Compression at run time: what the operator orders, and what `status` says of it.
#include <cerrno>

#include "base/limits.h"
#include "volume/engine.h"

namespace twinblock {

void Engine::set_compression(Compression mode, std::optional<int> level, Reply reply) {
  const CompressionPolicy::Setting setting{mode, level.value_or(core_.compression.setting().level)};
  if (setting.level < limits::kCompressionLevelMin ||
      setting.level > limits::kCompressionLevelMax) {
    reply(Error{"there is no level " + std::to_string(setting.level),
                "choose from " + std::to_string(limits::kCompressionLevelMin) + " to " +
                    std::to_string(limits::kCompressionLevelMax),
                EINVAL});
    return;
  }
  compression_.order(setting);
  reply(std::string("compression is ") + compression_name(mode) + ", level " +
        std::to_string(setting.level) +
        (session_.up() ? ", on both nodes" : "; " + core_.peer + " is told when it is back"));
}

void Engine::fill_compression(StatusView& view) const {
  const CompressionPolicy& policy = core_.compression;
  const CompressionPolicy::Setting setting = policy.setting();
  const CompressionPolicy::Counters& counters = policy.counters;
  const auto now = [](const std::atomic<uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  StatusView::Compression& shown = view.compression;
  shown.mode = compression_name(setting.mode);
  shown.level = setting.level;
  shown.writes_compressed = now(counters.writes_compressed);
  shown.writes_raw = now(counters.writes_raw);
  shown.raw_bytes = now(counters.raw_bytes);
  shown.sent_bytes = now(counters.sent_bytes);
  shown.incompressible_bytes = now(counters.incompressible_bytes);
  shown.compress_ns = now(counters.compress_cpu_ns);
  shown.decompress_ns = now(counters.decompress_cpu_ns);
  shown.decision = policy.decision();
}

}  // namespace twinblock
