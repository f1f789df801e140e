// Compression at run time: what the operator orders, and what `status` says of it.
#include <cerrno>

#include "volume/engine.h"

namespace twinblock {

void Engine::set_compression(Compression, std::optional<int>, Reply reply) {
  reply(Error{"this version does not compress", "", ENOTSUP});
}

void Engine::fill_compression(StatusView& view) const {
  view.compression.mode = compression_name(Compression::kOff);
  view.compression.level = core_.config.compression_level;
}

}  // namespace twinblock
