#include "twinblock/device_fate.h"

#include "twinblock/json_fields.h"

namespace twinblock {
namespace {

using nlohmann::json;

// Of a node that is primary.
FateVerdict fate_by_term(const Attachment& attachment, const json& status, bool same_process) {
  const uint64_t term = count_at(status, "term");
  const std::string node = text_at(status, "node");
  if (term != attachment.term)
    return {Fate::kEnd, "since it was attached, a node has been promoted anew (" + node +
                            " is primary by promotion " + std::to_string(term) +
                            ", the device is of promotion " + std::to_string(attachment.term) +
                            ")"};
  if (same_process) return {Fate::kKeep, ""};
  if (term != 0) return {Fate::kReconnect, node + " is primary again, by the same promotion"};
  return {Fate::kEnd, node + " was restarted, and does not say whether anybody was promoted since"};
}

}  // namespace

FateVerdict device_fate(const Attachment& attachment, const json& status, bool server_runs) {
  if (!status.is_object()) {
    if (server_runs) return {Fate::kKeep, ""};
    return {Fate::kWait, attachment.node + " does not answer", "start twinblockd there"};
  }
  const std::string node = text_at(status, "node");
  const std::string uuid = text_at(status, "volume_uuid");
  if (node != attachment.node)
    return {Fate::kEnd, "another node answers, " + node + " instead of " + attachment.node};
  if (!attachment.volume_uuid.empty() && !uuid.empty() && uuid != attachment.volume_uuid)
    return {Fate::kEnd, "another volume was made in its place"};
  const bool same_process =
      server_runs && static_cast<pid_t>(count_at(status, "pid")) == attachment.server.pid;
  if (text_at(status, "role") == "primary") return fate_by_term(attachment, status, same_process);
  const json peer = object_at(status, "peer");
  if (flag_at(peer, "connected") && text_at(peer, "role") == "primary")
    return {Fate::kEnd, text_at(peer, "name") + " was promoted meanwhile"};
  if (flag_at(status, "resumes"))
    return {Fate::kWait, node + " is not primary yet",
            "see twinblock status, and wait, or promote it: it goes on under the same promotion"};
  // The right to go on alone was this promotion's until the peer took it: whatever is primary next is so by another one.
  const json witness = object_at(status, "witness");
  const std::string holder = text_at(witness, "holder");
  if (text_at(witness, "state") == "refused" && !holder.empty() && holder == text_at(peer, "name"))
    return {Fate::kEnd, "the witness says that " + holder + " may have gone on without " + node};
  return {Fate::kWait, node + " is not primary, and a new promotion can't serve what waits in the device", ""};
}

}  // namespace twinblock
