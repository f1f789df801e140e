// Receive buffers of one size, used again instead of allocated anew: a slab returns to the pool
// when the last payload in it has been dropped. Loop thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace twinblock::wire {

struct Slab {
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};

class SlabPool {
 public:
  SlabPool();
  // A slab of limits::kReceiveSlabBytes, not zeroed; it may outlive the pool.
  std::shared_ptr<Slab> take();

 private:
  std::shared_ptr<std::vector<std::unique_ptr<Slab>>> free_;
};

}  // namespace twinblock::wire
