#include "io/posix/data_look.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "io/posix/descriptor.h"
#include "io/posix/file_holes.h"
#include "io/posix/files.h"
#include "io/posix/monotonic.h"

namespace twinblock {
namespace {

// Advice only: the kernel reads ahead where that is of use, and forgets the zeroes, which are for nobody.
void advise_before(int fd, bool in_order) {
  (void)::posix_fadvise(fd, 0, 0, in_order ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
}
void forget(int fd, const SearchOrder::Place& place) {
  (void)::posix_fadvise(fd, static_cast<off_t>(place.offset_bytes), static_cast<off_t>(place.length_bytes),
                        POSIX_FADV_DONTNEED);
}

Result<DataFound> look_at_bytes(int fd, const std::string& path, uint64_t patience_ns, bool forget_zeroes) {
  const off_t end = ::lseek(fd, 0, SEEK_END);  // of a device, too
  if (end < 0) return system_error(errno, "find the size of " + path);
  const uint64_t deadline_ns = monotonic_ns() + patience_ns;
  SearchOrder order(static_cast<uint64_t>(end));
  std::vector<std::byte> buffer(limits::kSearchEdgeBytes);
  int error = 0;  // the last one
  size_t failures = 0;
  bool seen = false;
  bool in_order = false;
  advise_before(fd, in_order);
  while (const auto place = order.next()) {
    if (place->all && !in_order) advise_before(fd, in_order = true);
    const auto bytes = std::span(buffer).first(place->length_bytes);
    if (const int failed = read_all(fd, place->offset_bytes, bytes); failed != 0) {
      error = failed;
      if (++failures == limits::kBadPlacesMax) break;
    } else if (!all_zero(bytes)) {
      return DataFound::kSome;
    } else {
      seen = true;
      if (forget_zeroes) forget(fd, *place);
    }
    if (monotonic_ns() >= deadline_ns) break;
  }
  if (error != 0 && !seen) return system_error(error, "read " + path);
  return error == 0 && !order.next() ? DataFound::kNone : DataFound::kUnknown;
}

}  // namespace

Result<DataFound> look_for_data(const std::string& path, uint64_t patience_ns, bool forget_zeroes) {
  const auto kind = file_kind(path);
  if (!kind.ok()) return kind.error();
  if (kind.value() == FileKind::kMissing) return DataFound::kNone;
  if (kind.value() == FileKind::kDirectory) return system_error(EISDIR, "read " + path);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.open()) return system_error(errno, "open " + path);
  if (kind.value() == FileKind::kRegular && file_holes_are_told(file.get())) {
    if (::lseek(file.get(), 0, SEEK_DATA) >= 0) return DataFound::kSome;
    if (errno == ENXIO) return DataFound::kNone;
    if (errno != EINVAL) return system_error(errno, "seek data in " + path);
  }
  return look_at_bytes(file.get(), path, patience_ns, forget_zeroes);
}

}  // namespace twinblock
