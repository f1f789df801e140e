#include "twinblock/standard_output.h"

#include <cerrno>
#include <cstdio>

#include "twinblock/exit_status.h"

namespace twinblock {

Result<bool> not_written(int code) {
  if (code == EPIPE) return false;
  return refused(system_error(code, "can't write the output").what);
}

Result<bool> flush_output() {
  // Of a longer text a part was written before, or was not, of which only the stream knows then.
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  const int code = errno;
  std::clearerr(stdout);  // what is written from now on may find room again
  return not_written(code);
}

}  // namespace twinblock
