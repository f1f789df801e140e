#include "twinblock/grow_device.h"

#include <sys/stat.h>

#include "twinblock/attach.h"
#include "twinblock/detach.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_device.h"

namespace twinblock {
namespace {

using nlohmann::json;

// 0: not known, as of a file that lies in another mount namespace.
uint64_t bytes_of(const HostPaths& host, const Attachment& attachment) {
  if (attachment.method != kMethodNbdfuseFile) return nbd_device_bytes(host, attachment.device);
  struct stat file {};
  return stat(attachment.device.c_str(), &file) == 0 ? static_cast<uint64_t>(file.st_size) : 0;
}

enum class Size { kSmaller, kWhole, kUnknown };

Size size_of(const HostPaths& host, const AskStatus& ask, const Attachment& attachment) {
  const uint64_t device_bytes = bytes_of(host, attachment);
  const Result<json> status = ask();
  const uint64_t volume_bytes = status ? count_at(status.value(), "size_bytes") : 0;
  if (device_bytes == 0 || volume_bytes == 0) return Size::kUnknown;
  return device_bytes < volume_bytes ? Size::kSmaller : Size::kWhole;
}

// What looks after a device has found, and done, in a sentence.
std::string outcome(const HostPaths& host, const Attachment& attachment, const FateVerdict& verdict) {
  const std::string& device = attachment.device;
  switch (verdict.fate) {
    case Fate::kKeep:
    case Fate::kReconnect:
      return verdict.why.empty() ? "" : device + " is " + verdict.why + ".";
    case Fate::kWait:
      return device + " waits for its node: " + verdict.why + "; " + (verdict.action.empty() ? "" : verdict.action + "; or ") +
             give_up_words(host, attachment) + ".";
    case Fate::kEnd:
      return device + " was ended, since its pages may be stale: " + verdict.why + "; unmount it and attach again.";
  }
  return {};
}

}  // namespace

std::string grow_device(const HostPaths& host, const AskStatus& ask, const std::string& stem, bool root) {
  Result<std::optional<Attachment>> note = read_attachment(stem);
  if (!note || !note.value().has_value() || !note.value()->complete) return {};
  std::optional<Attachment>& existing = note.value();
  const std::string device = existing->device;
  if (existing->method != kMethodNbd) {
    const Size size = size_of(host, ask, *existing);
    if (size == Size::kWhole) return {};
    // One that was attached since has it: nobody is to detach that.
    return device + " was attached by " + existing->method + ", and keeps its old size " +
           (size == Size::kUnknown ? "(if that was before the volume grew) " : "") +
           "until it is detached and attached again.";
  }
  // One that is somebody else's by now, or was ended, gets nothing.
  if (!existing->ended.empty() || !is_ours(host, *existing)) return {};
  if (!root) {
    if (size_of(host, ask, *existing) == Size::kWhole) return {};
    return device + " keeps its old size until root gives it the new one: twinblock attach " + existing->volume;
  }
  const Result<std::optional<FateVerdict>> verdict = revive(host, ask, stem, existing);
  if (!verdict)
    return device + " did not get the new size: " + verdict.error().what + "; try again: twinblock attach " +
           existing->volume;
  return verdict.value().has_value() ? outcome(host, *existing, *verdict.value()) : "";
}

}  // namespace twinblock
