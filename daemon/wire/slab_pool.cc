#include "wire/slab_pool.h"

#include "base/limits.h"

namespace twinblock::wire {

SlabPool::SlabPool() : free_(std::make_shared<std::vector<std::unique_ptr<Slab>>>()) {}

std::shared_ptr<Slab> SlabPool::take() {
  std::unique_ptr<Slab> slab;
  if (free_->empty()) {
    slab = std::make_unique<Slab>();
    slab->size = limits::kReceiveSlabBytes;
    slab->bytes = std::make_unique_for_overwrite<std::byte[]>(slab->size);
  } else {
    slab = std::move(free_->back());
    free_->pop_back();
  }
  std::weak_ptr<std::vector<std::unique_ptr<Slab>>> home = free_;
  return {slab.release(), [home](Slab* returned) {
            std::unique_ptr<Slab> owner(returned);
            const auto pool = home.lock();
            if (pool && pool->size() < limits::kReceiveSlabsKept) pool->push_back(std::move(owner));
          }};
}

}  // namespace twinblock::wire
