#include "what_is_there.h"

#include <span>

#include "io/posix/data_look.h"
#include "io/posix/files.h"

namespace twinblock {

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
  return loaded.blank || loaded.record.held_data ? look_for_data(backing) : DataFound::kUnknown;
}

}  // namespace twinblock
