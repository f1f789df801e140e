#include "volume/differences.h"

namespace twinblock {

void Differences::load(metadata::Loaded& loaded, const metadata::IntentStore& intents, bool valid) {
  const metadata::NodeRecord& record = loaded.record;
  valid_ = valid;
  if (loaded.dirty) {
    dirty_.swap(*loaded.dirty);  // by the block, from the snapshot
  } else if (record.all_dirty) {
    all_may_differ();
  } else if (record.primary || record.dirty) {
    intents.for_each_set([this](uint64_t offset_bytes, uint64_t length_bytes) {
      may_differ(offset_bytes, length_bytes);
    });
  }
}

}  // namespace twinblock
