#include "volume/differences.h"

#include "base/limits.h"

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

std::optional<ByteRange> Differences::next_readable(uint64_t from_bytes, uint64_t until_bytes) const {
  while (true) {
    auto run = dirty_.next_run(from_bytes, BlockMap::kChunkBytes, until_bytes);
    if (!run || unreadable_.empty()) return run;
    const auto bad = unreadable_.next_run(run->begin_bytes, BlockMap::kChunkBytes, run->end_bytes);
    if (!bad) return run;
    if (bad->begin_bytes > run->begin_bytes) {
      run->end_bytes = bad->begin_bytes;
      return run;
    }
    from_bytes = bad->end_bytes;
  }
}

bool Differences::peer_may_have_unreadable() const {
  for (auto bad = unreadable_.next_run(0, BlockMap::kChunkBytes); bad;
       bad = unreadable_.next_run(bad->end_bytes, BlockMap::kChunkBytes)) {
    const auto maybe = coarse_.next_run(bad->begin_bytes, BlockMap::kChunkBytes, bad->end_bytes);
    if (!maybe || maybe->begin_bytes > bad->begin_bytes || maybe->end_bytes < bad->end_bytes) return false;
  }
  return !unreadable_.empty();
}

void Differences::found_unreadable(const ByteRange& block) {
  if (dirty_.any(block.begin_bytes, block.length())) unreadable_.set(block.begin_bytes, block.length());
}

// A block that was written in part may be readable as a whole now.
void Differences::may_be_readable(uint64_t offset_bytes, uint64_t length_bytes) {
  constexpr uint64_t kBlock = limits::kBlockBytes;
  const uint64_t begin = offset_bytes / kBlock * kBlock;
  const uint64_t end = (offset_bytes + length_bytes + kBlock - 1) / kBlock * kBlock;
  unreadable_.clear(begin, end - begin);
}

}  // namespace twinblock
