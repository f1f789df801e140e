#include "what_is_there.h"

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/units.h"
#include "io/posix/data_look.h"
#include "io/posix/files.h"
#include "io/posix/memory_look.h"
#include "metadata/memory_doubt.h"

namespace twinblock {
namespace {

Status write_durably(const DiskFile& file, uint64_t offset_bytes, std::span<const std::byte> bytes) {
  int error = file.write(offset_bytes, bytes.data(), bytes.size());
  const auto handle = file.flush_handle();
  if (!handle) return handle.error();
  if (error == 0) error = handle.value()->flush();
  return error == 0 ? ok_status() : Status(system_error(error, "write to the metadata"));
}

std::string why_deceives(const MemoryLook& look) {
  const std::string where = " at offset " + std::to_string(look.at_bytes);
  if (look.error == 0) return "memory shows" + where + " what the disk does not hold";
  return "the disk does not take, or give, what memory holds" + where + " (" + std::strerror(look.error) + ")";
}

}  // namespace

Result<std::unique_ptr<DiskFile>> lock_metadata(const NodeConfig& node) {
  const Result<FileKind> kind = file_kind(node.metadata);
  if (!kind) return kind.error();
  if (kind.value() == FileKind::kMissing) return std::unique_ptr<DiskFile>();
  DiskFile::Options options;
  options.path = node.metadata;
  options.cache = node.backing_io == BackingIo::kDirect ? DiskFile::Cache::kDirectWherePossible : DiskFile::Cache::kBuffered;
  return DiskFile::open(options);
}

Result<metadata::Loaded> load_metadata(const std::string& path, uint64_t volume_bytes) {
  const Result<FileKind> kind = file_kind(path);
  if (!kind) return kind.error();
  if (kind.value() == FileKind::kMissing)
    return metadata::load({}, 0, volume_bytes, path);  // blank
  const Result<std::unique_ptr<FileReader>> file = FileReader::open(path);
  if (!file) return file.error();
  // What is found is acted upon; a power cut must not take it back.
  if (Status flushed = file.value()->flush(); !flushed) return flushed.error();
  return metadata::load(
      [&file](uint64_t offset_bytes, std::span<std::byte> into) {
        return file.value()->read_at(offset_bytes, into);
      },
      file.value()->size_bytes(), volume_bytes, path);
}

Result<DataFound> look_at_backing(const std::string& backing, const metadata::Loaded& loaded) {
  // Whether a process before wrote anything, and ended before it flushed that, need not be known for certain.
  if (!loaded.blank && !loaded.record.held_data) {
    const Result<DataFound> found = look_for_data(backing, limits::kSearchForUnflushed_ns, false);
    return found.ok() ? found.value() : DataFound::kUnknown;
  }
  // Zeroes in memory may be what a failed flush did not get onto the disk: may_forget_memory() has yet to see them.
  return look_for_data(backing, limits::kSearch_ns, loaded.blank);
}

bool may_forget_memory(const std::string& backing, const DiskFile* metadata, Log& log, metadata::Loaded& loaded) {
  std::vector<FileRange> ranges;
  for (const ByteRange& range : metadata::doubtful_ranges(loaded)) ranges.push_back({range.begin_bytes, range.length()});
  const MemoryLook look = look_at_memory(backing, std::move(ranges));
  switch (look.found) {
    case MemoryFound::kHonest:
      return true;
    case MemoryFound::kUntold:
      log.log(Severity::kInfo, "whether memory shows of " + backing + " what the disk holds can't be told (" +
                                   std::strerror(look.error) + ")");
      return true;
    case MemoryFound::kCutOff:
      log.log(Severity::kWarning, "of what memory holds of " + backing + ", " + format_size(look.at_bytes) +
                                      " are on the disk as well; to compare the rest would take too long");
      return true;
    case MemoryFound::kHangs:
      loaded.record.flush_failed = true;
      log.log(Severity::kWarning, backing + " does not answer: it is not known whether it holds what memory shows of it");
      return false;
    case MemoryFound::kDeceives:
      break;
  }
  log.log(Severity::kWarning, "it counts as if a flush of " + backing + " had failed before that was on record: " +
                                  why_deceives(look));
  const Status recorded = metadata::record_doubt(loaded, [metadata](uint64_t offset_bytes, auto bytes) {
    return write_durably(*metadata, offset_bytes, bytes);
  });
  if (!recorded) log.log(Severity::kError, recorded.error().what);
  return recorded.ok();
}

}  // namespace twinblock
