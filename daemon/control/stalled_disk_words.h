// What `status` says of a disk from which nothing comes, not even an error, and for which all wait without an end. Pure.
#pragma once

#include "control/status_words.h"
#include "volume/status_view.h"

namespace twinblock {

// Comes before all else that there is to say.
void add_stalled_disk(const StatusView& view, StatusWords& words);

}  // namespace twinblock
