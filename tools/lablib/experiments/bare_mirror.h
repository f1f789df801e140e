/* What a bare mirror sends for each write, the data behind it; the answer is its offset, when the
 * write is stable. Both in the host's own byte order: the two are processes of one machine. */
#pragma once

#include <stdint.h>

struct bare_head {
  uint64_t at;   /* bytes */
  uint64_t size; /* bytes */
  uint64_t unused[6]; /* as long as a twinblock frame's */
};
