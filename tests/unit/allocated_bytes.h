// How much of this program's memory is in use, by the C library. (A sanitizer's is not counted: there it is always the same.)
#pragma once

#include <malloc.h>

#include <cstddef>

namespace twinblock {

inline size_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace twinblock
