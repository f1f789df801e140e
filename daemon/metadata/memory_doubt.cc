#include "metadata/memory_doubt.h"

#include <algorithm>

#include "metadata/disk_format.h"

namespace twinblock::metadata {
namespace {

// Appends the volume's regions whose bits are `set`, or are not, neighbours as one.
void append(std::vector<ByteRange>& ranges, const Loaded& loaded, bool set) {
  const NodeRecord& record = loaded.record;
  const size_t first = ranges.size();
  for (uint64_t region = 0, at = 0; at < record.size_bytes; ++region, at += record.region_bytes) {
    if (((loaded.intent_words[region / 64] >> (region % 64) & 1) != 0) != set) continue;
    const uint64_t end = std::min<uint64_t>(at + record.region_bytes, record.size_bytes);
    if (ranges.size() > first && ranges.back().end_bytes == at)
      ranges.back().end_bytes = end;
    else
      ranges.push_back({at, end});
  }
}

}  // namespace

std::vector<ByteRange> doubtful_ranges(const Loaded& loaded) {
  std::vector<ByteRange> ranges;
  if (loaded.blank || loaded.record.flush_failed) return ranges;
  append(ranges, loaded, true);
  append(ranges, loaded, false);
  return ranges;
}

// One copy after the other, as SuperblockStore does.
Status record_doubt(Loaded& loaded, const WriteDurably& write) {
  loaded.record.flush_failed = true;
  const uint64_t sequence = loaded.sequence + 1;
  const auto image = encode(loaded.record, sequence);
  for (const uint64_t copy : {sequence, sequence + 1})
    if (Status written = write(kSuperblockOffset[copy % 2], image); !written) return written;
  loaded.sequence = sequence;
  return ok_status();
}

}  // namespace twinblock::metadata
