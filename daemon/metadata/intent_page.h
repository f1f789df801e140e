// The coding of an intent page. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "metadata/disk_format.h"

namespace twinblock::metadata {

// The bits of page `index`: `words` is what the map has for it, at most kIntentWords.
IntentPage encode_page(uint32_t index, uint64_t sequence, uint64_t tag,
                       std::span<const uint64_t> words);

// Whether the page is undamaged and in its place, and has no bit at or past `regions` of its own.
bool page_good(const IntentPage& page, uint32_t index, uint64_t tag, uint64_t regions);

// Bits 0 to `count` - 1 of a word; all from 64 on.
constexpr uint64_t low_bits(uint64_t count) {
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

}  // namespace twinblock::metadata
