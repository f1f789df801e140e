// What becomes of what this program prints.
#pragma once

#include "base/result.h"

namespace twinblock {

// Of something that could not be written, with this error of write(2): false where whoever reads it has gone, with
// whom a verb that goes on ends in order; an error (kExitRefused) where it has found no room, for example, and somebody
// will miss it.
Result<bool> not_written(int code);

// To be called right after something was printed on stdout: true when it is written, else as above.
Result<bool> flush_output();

}  // namespace twinblock
