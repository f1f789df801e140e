// Whether what this host's memory shows of the backing may be believed. A process that dies before it has on record that
// its flush failed is told of it in vain: the next one finds pages that count as written, and that the disk does not hold.
// So what is in memory is compared with the disk at each start, by who can (io/posix/memory_look.h); here is what of the
// record that concerns. FORMAT.md, "A failed flush". Before the loop runs; record_doubt() blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "metadata/block_map.h"
#include "metadata/load.h"

namespace twinblock::metadata {

// What is to be compared, in the order in which that is worth most; none where the record says already that nothing in
// memory is believed, or where there is no record. What a primary wrote lately lies in its intents, which come first.
// But all else belongs to it: a node has no intents for what its peer writes on it, nor has one that was promoted
// before it has flushed.
[[nodiscard]] std::vector<ByteRange> doubtful_ranges(const Loaded& loaded);

// Writes at the offset of the metadata, so that it is durable when this returns.
using WriteDurably = std::function<Status(uint64_t offset_bytes, std::span<const std::byte> bytes)>;

// Memory deceives: as if the record had said so. It does, when this returns without an error, and not before may anything
// of that memory be dropped, which is all that tells of it.
Status record_doubt(Loaded& loaded, const WriteDurably& write);

}  // namespace twinblock::metadata
