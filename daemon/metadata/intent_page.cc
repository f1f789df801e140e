#include "metadata/intent_page.h"

#include <algorithm>
#include <cstring>

#include "base/checks.h"
#include "base/crc32c.h"

namespace twinblock::metadata {
namespace {

uint32_t checksum(const IntentPage& page) {
  // All but the field itself, which counts as zero.
  constexpr size_t kBefore = offsetof(IntentPage, crc);
  constexpr size_t kAfter = kBefore + sizeof page.crc;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&page, 1));
  constexpr std::byte kZero[sizeof page.crc] = {};
  return crc32c_extend(crc32c_extend(crc32c(bytes.first(kBefore)), kZero), bytes.subspan(kAfter));
}

}  // namespace

IntentPage encode_page(uint32_t index, uint64_t sequence, uint64_t tag,
                       std::span<const uint64_t> words) {
  TB_CHECK(words.size() <= kIntentWords, "the words of one page");
  IntentPage page{};
  page.magic = kIntentMagic;
  page.sequence = sequence;
  page.index = index;
  page.tag = tag;
  std::copy(words.begin(), words.end(), page.bits);
  page.crc = checksum(page);
  return page;
}

bool page_good(const IntentPage& page, uint32_t index, uint64_t tag, uint64_t regions) {
  if (page.magic != kIntentMagic || page.index != index || page.reserved != 0 || page.tag != tag ||
      page.crc != checksum(page))
    return false;
  for (uint64_t word = regions / 64; word < kIntentWords; ++word)
    if ((page.bits[word] & ~low_bits(word == regions / 64 ? regions % 64 : 0)) != 0) return false;
  return true;
}

}  // namespace twinblock::metadata
