#include "twinblock/device_text.h"

#include "twinblock/device_fate.h"
#include "twinblock/json_fields.h"
#include "twinblock/nbd_device.h"

namespace twinblock {
namespace {

using nlohmann::json;

struct DeviceState {
  std::string state;
  std::string why;
};

DeviceState nbd_state(const HostPaths& host, const json& status, const Attachment& attachment) {
  if (!attachment.ended.empty()) return {"dead", attachment.ended};
  if (!is_ours(host, attachment)) return {"dead", "it is not connected"};
  const FateVerdict verdict = device_fate(attachment, status, process_runs(attachment.server));
  if (verdict.fate == Fate::kKeep) return {"connected", ""};
  if (verdict.fate == Fate::kReconnect)
    return {"waits", verdict.why + "; twinblock attach reconnects it"};
  if (verdict.fate == Fate::kWait) return {"waits", verdict.why};
  return {"dead", verdict.why + "; twinblock attach ends it"};
}

DeviceState nbdfuse_state(const json& status, const Attachment& attachment) {
  if (!process_runs(attachment.nbdfuse)) return {"dead", "nbdfuse has ended"};
  const auto node_pid = static_cast<pid_t>(count_at(status, "pid"));
  if (!status.is_object() || (attachment.node_pid != 0 && node_pid != attachment.node_pid))
    return {"dead", "the node has ended or was restarted, which nbdfuse does not outlive"};
  return {"connected", ""};
}

DeviceState unfinished_state(const Attachment& attachment) {
  if (process_runs(attachment.maker))
    return {"being attached", "by process " + std::to_string(attachment.maker.pid)};
  return {"dead", attachment.maker.pid != 0 ? "attach ended half-way" : "attach ended half-way, or is at work"};
}

}  // namespace

json attached_device(const HostPaths& host, const json& status, const std::string& stem) {
  const Result<std::optional<Attachment>> note = read_attachment(stem);
  if (!note || !note.value().has_value()) return nullptr;
  const Attachment& attachment = *note.value();
  const DeviceState state = !attachment.complete ? unfinished_state(attachment)
                            : attachment.method == kMethodNbd ? nbd_state(host, status, attachment)
                                                              : nbdfuse_state(status, attachment);
  return {{"device", attachment.device},
          {"link", attachment.link},
          {"method", attachment.method},
          {"state", state.state},
          {"why", state.why}};
}

std::string device_text(const json& device) {
  if (!device.is_object()) return {};
  const std::string link = text_at(device, "link");
  std::string name = text_at(device, "device");
  if (name.empty()) name = "a device";  // none has been taken yet
  const std::string why = text_at(device, "why");
  return (link.empty() ? name : link + " (" + name + ")") + " by " + text_at(device, "method") +
         ": " + text_at(device, "state") + (why.empty() ? "" : ", " + why);
}

}  // namespace twinblock
