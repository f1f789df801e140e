// What `status` says where a disk of this node's own has refused something, and what helps. Pure.
#pragma once

#include "control/status_words.h"
#include "volume/status_view.h"

namespace twinblock {

// `words`: of the volume's state; what to do about that stays, unless the disk comes before it.
void add_own_disk(const StatusView& view, StatusWords& words);

}  // namespace twinblock
