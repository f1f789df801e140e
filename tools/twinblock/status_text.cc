#include "twinblock/status_text.h"

#include <algorithm>
#include <vector>

#include "base/units.h"
#include "twinblock/device_text.h"
#include "twinblock/json_fields.h"
#include "twinblock/link_text.h"
#include "twinblock/sync_text.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr size_t kLabelWidth = 10;

// "   volume: r0", the labels' colons one below the other; long texts continue below their start.
void add(std::string& out, const std::string& label, const std::string& text) {
  if (text.empty()) return;
  out += std::string(kLabelWidth - std::min(kLabelWidth, label.size()), ' ') + label + ": " +
         wrapped(text, kTextWidth, kLabelWidth + 2) + "\n";
}

// What of a node's complaint, "cause; cause", its sentences do not say already: a cause is told
// once.
std::string unsaid(const std::string& complaint, const std::string& sentences) {
  constexpr const char* kBetween = "; ";
  std::string left;
  for (size_t begin = 0; begin < complaint.size();) {
    const size_t end = std::min(complaint.find(kBetween, begin), complaint.size());
    const std::string cause = complaint.substr(begin, end - begin);
    if (sentences.find(cause) == std::string::npos) left += (left.empty() ? "" : kBetween) + cause;
    begin = end + std::string(kBetween).size();
  }
  return left;
}

json links_unsaid(json links, const std::string& sentences) {
  for (json& link : links)
    if (const std::string error = text_at(link, "last_error"); !error.empty())
      link["last_error"] = unsaid(error, sentences);
  return links;
}

std::string peer_text(const json& peer, const std::string& sentences) {
  const std::string name = text_at(peer, "name");
  if (name.empty()) return {};
  std::vector<std::string> parts{flag_at(peer, "connected") ? "connected" : "not connected"};
  if (flag_at(peer, "connected")) {
    parts.push_back(text_at(peer, "role"));
    const std::string data = text_at(peer, "data");
    if (!data.empty()) parts.push_back("data " + data);
  }
  const std::string error = unsaid(text_at(peer, "error"), sentences);
  return name + " (" + joined(parts) + ")" + (error.empty() ? "" : ": " + error);
}

// Several lines on a resync that runs, one on the last one.
void add_resync(std::string& out, const json& status) {
  const json resync = object_at(status, "resync");
  if (!flag_at(resync, "active")) {
    add(out, "resync", last_resync_line(object_at(status, "last_resync")));
    return;
  }
  const bool source = text_at(resync, "direction") == "source";
  add(out, "resync", (source ? "to the peer: " : "from the peer: ") + resync_line(resync));
  const std::string hold = resync_hold(resync, text_at(status, "volume"));
  add(out, "pace", hold.empty() && source ? "auto: what clients leave" : hold);
  add(out, "reason", text_at(resync, "reason"));
  add(out, "sent", sent_line(object_at(resync, "sent")));
}

std::string verify_text(const json& status) {
  const json verify = object_at(status, "verify");
  if (!verify.is_object()) return {};
  return flag_at(verify, "active") ? verify_line(verify) : verify_result(verify);
}

std::string intents_text(const json& status) {
  const uint64_t bytes = count_at(object_at(status, "intents"), "bytes");
  if (bytes == 0 || text_at(status, "role") != "primary") return {};
  return format_size(bytes) +
         " written lately; after a crash here that is compared with the peer's";
}

std::string writes_text(const json& counters, const json& latency) {
  if (!counters.is_object()) return {};
  std::string text =
      count_text(counters, "writes") + " (" + format_size(count_at(counters, "write_bytes")) + ")";
  const auto us_at = [&latency](const char* key) {
    return format_duration(time_at_ns(latency, key, 1e3));
  };
  if (number_at(latency, "write_p50_us") > 0)
    text += ", p50 " + us_at("write_p50_us") + ", p99 " + us_at("write_p99_us") + ", max " +
            us_at("write_max_us");
  return text;
}

std::string counters_text(const json& counters) {
  if (!counters.is_object()) return {};
  return count_text(counters, "reads") + " (" + format_size(count_at(counters, "read_bytes")) +
         "), flushes " + count_text(counters, "flushes") + ", zeroes and trims " +
         count_text(counters, "zeroes") + ", peer losses " + count_text(counters, "peer_losses");
}

std::string disk_text(const json& status, const std::string& sentences) {
  const json disk = object_at(status, "disk");
  const std::string error = text_at(disk, "error");
  const std::string rest = unsaid(error, sentences);
  return joined({text_at(status, "backing"), text_at(disk, "engine"), text_at(disk, "io"),
                 error.empty()  ? ""
                 : rest.empty() ? "ERROR, see above"
                                : "ERROR: " + rest});
}

// "TLS 1.3, AES-128-GCM, key 9f86-d081-884c-7d65, proven by the peer".
std::string encryption_text(const json& status) {
  const json encryption = object_at(status, "encryption");
  if (text_at(encryption, "mode") != "tls") return "off";
  if (status.contains("links") && status["links"].is_array())
    for (const json& link : status["links"])
      if (const std::string says = text_at(link, "encryption"); !says.empty())
        return says + ", proven by the peer";
  return "key " + text_at(encryption, "key");
}

// Nothing where there is no cache: "1.2 GiB of 2 GiB, 93% of 120000 blocks (4000 by an equal one), 1000000 places known".
std::string cache_text(const json& cache) {
  if (!cache.is_object()) return {};
  const uint64_t hits = count_at(cache, "hits"), asked = hits + count_at(cache, "misses");
  return format_size(count_at(cache, "memory_bytes")) + " of " + format_size(count_at(cache, "size_bytes")) + ", hits " +
         (asked == 0 ? "0" : std::to_string(hits * 100 / asked)) + "% of " + std::to_string(asked) + " blocks (" +
         count_text(cache, "equal_hits") + " by an equal one), " + count_text(cache, "places") + " places known";
}

// Nothing where all was granted.
std::string memory_text(const json& memory) {
  const std::string refused = text_at(memory, "refused");
  const std::string action = text_at(memory, "action");
  return refused.empty() || action.empty() ? refused : refused + "; to do: " + action;
}

}  // namespace

std::string status_text(const json& status) {
  std::string out;
  const std::string size = format_size(count_at(status, "size_bytes"));
  add(out, "volume", text_at(status, "volume") + ", " + size);
  add(out, "node", text_at(status, "node"));
  add(out, "role", text_at(status, "role"));
  add(out, "state", text_at(status, "state"));
  add(out, "data", text_at(status, "data"));
  add(out, "status", text_at(status, "status"));
  add(out, "action", text_at(status, "action"));
  const std::string sentences = text_at(status, "status") + " " + text_at(status, "action");
  add(out, "peer", peer_text(object_at(status, "peer"), sentences));
  add_resync(out, status);
  add(out, "verify", verify_text(status));
  const uint64_t dirty = count_at(status, "dirty_bytes");
  if (dirty > 0) add(out, "dirty", format_size(dirty) + " that the peer misses");
  add(out, "intents", intents_text(status));
  const json counters = object_at(status, "counters");
  add(out, "encrypted", encryption_text(status));
  add(out, "compress", compression_text(object_at(status, "compression")));
  add(out, "writes", writes_text(counters, object_at(status, "latency")));
  add(out, "reads", counters_text(counters));
  add(out, "cache", cache_text(status.is_object() && status.contains("cache") ? status["cache"] : json()));
  add(out, "disk", disk_text(status, sentences));
  add(out, "memory", memory_text(object_at(status, "memory")));
  add(out, "device", device_text(object_at(status, "device")));
  add(out, "clients", count_text(status, "clients") + " at " + text_at(status, "nbd"));
  if (count_at(status, "pid") > 0)
    add(out, "process",
        count_text(status, "pid") + ", up " + clock_time(count_at(status, "uptime_s")));
  if (status.is_object() && status.contains("links") && status["links"].is_array())
    out += "\n" + links_table(links_unsaid(status["links"], sentences));
  return out;
}

std::string status_list(const json& all) {
  constexpr const char* kRow = "%-15s %-11s %-10s %-13s %-13s %s\n";
  std::string out = printed(kRow, "VOLUME", "NODE", "ROLE", "STATE", "DATA", "PEER");
  std::string below;
  for (const json& each : array_at(all, "volumes")) {
    const std::string volume = text_at(each, "volume");
    std::string text = text_at(each, "error");
    if (text.empty()) {
      const json peer = object_at(each, "peer");
      const std::string seen = text_at(peer, "name") + (flag_at(peer, "connected") ? "" : ", not connected");
      out += printed(kRow, volume.c_str(), text_at(each, "node").c_str(), text_at(each, "role").c_str(),
                     text_at(each, "state").c_str(), text_at(each, "data").c_str(), seen.c_str());
    } else {
      out += printed("%-15s %-11s %-10s no answer\n", volume.c_str(), "", "");
    }
    const std::string action = text_at(each, "action");
    if (text.empty() && !action.empty()) text = text_at(each, "status");
    if (!action.empty()) text += (text.empty() ? "" : " ") + ("To do: " + action);
    if (!text.empty()) below += volume + ": " + wrapped(text, kTextWidth, 2) + "\n";
  }
  return out + (below.empty() ? "" : "\n" + below);
}

std::string short_status(const json& status) {
  return text_at(status, "volume") + " on " + text_at(status, "node") + ": " +
         text_at(status, "role") + ", " + text_at(status, "state") + "\n";
}

}  // namespace twinblock
