#include "twinblock/plan_changes.h"

#include <algorithm>

#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

using nlohmann::json;

// Less than this part of a write is not worth a row.
constexpr double kShown = 0.01;
// Two sums of the same bytes differ by less.
constexpr double kRounding = 1e-9;
// One core's zstd at level 1, with data of 2 to 4 : 1, and its way back: where it was never tried here.
constexpr double kCompressByte_ns = 2.5, kDecompressByte_ns = 0.8;

// What `saved` says of each class.
template <typename Saved>
Change saving(const Workload& workload, Saved saved) {
  Change change{workload.wire_part, {}};
  for (const Workload::Class& each : workload.classes) change.saved_ns.push_back(saved(each));
  return change;
}

bool shows(const Workload& workload, const Change& change) {
  double saved = 0, all = 0;
  for (size_t i = 0; i < workload.classes.size(); ++i) {
    saved += workload.classes[i].writes * change.saved_ns[i];
    all += workload.classes[i].writes * workload.classes[i].mean_ns;
  }
  return saved > kShown * all;
}

void add_disks(const Workload& workload, const json& latency, const json& status, std::vector<PlannedChange>& found) {
  const std::string peer = text_at(object_at(status, "peer"), "name");
  PlannedChange theirs{"disk of " + peer + ", 2x",
                       saving(workload, [](const Workload::Class& each) { return each.peer_disk_ns / 2; }),
                       "a faster disk of " + peer + " saves less where the one of " + text_at(latency, "node") +
                           " is hardly faster than it now"};
  PlannedChange ours{"disk of " + text_at(latency, "node") + ", 2x",
                     saving(workload, [](const Workload::Class& each) { return each.local_disk_ns / 2; }),
                     "a faster disk of " + text_at(latency, "node") + " saves less where " + peer +
                         " is hardly faster than it now"};
  for (PlannedChange* each : {&theirs, &ours})
    if (shows(workload, each->change)) found.push_back(std::move(*each));
}

void add_encryption(const Workload& workload, const json& status, const SealCost& seal,
                    std::vector<PlannedChange>& found) {
  if (is_encrypted(status)) {
    Change off = saving(workload, [](const Workload::Class& each) { return each.crypto_ns; });
    if (shows(workload, off)) found.push_back({"no encryption", std::move(off), ""});
    return;
  }
  if (seal.byte_ns <= 0) return;
  // Sealed here, and opened there.
  found.push_back({"encryption", saving(workload, [&seal](const Workload::Class& each) {
                     return -2 * (seal.fixed_ns + seal.byte_ns * each.bytes);
                   }),
                   "the peer is taken to open what it gets as fast as this host seals it"});
}

// Of one byte, at both ends together, and what is left of it.
struct Packing {
  double byte_ns, part;
  bool guessed;
};

// (What this node has decompressed is what the peer had sent, when that was primary.)
Packing packing_of(const json& compression, double ratio) {
  const auto raw = static_cast<double>(count_at(compression, "raw_bytes"));
  const double compress_s = number_at(compression, "compress_s");
  const bool tried = raw > 0 && compress_s > 0;
  return {(tried ? compress_s * 1e9 / raw : kCompressByte_ns) + kDecompressByte_ns, 1 / ratio, !tried};
}

void add_compression(const Workload& workload, const json& status, double ratio, std::vector<PlannedChange>& found) {
  const json compression = object_at(status, "compression");
  // Zeroes travel as a length, whether the rest is compressed or not.
  const double data_part = 1 - workload.zero_part;
  if (workload.wire_part < data_part - kRounding) {
    Change off = saving(workload, [](const Workload::Class& each) { return each.compression_ns; });
    off.wire_part = data_part;
    found.push_back({"no compression", std::move(off), ""});
    return;
  }
  if (ratio <= 1 || text_at(compression, "mode") != "off") return;
  const Packing packing = packing_of(compression, ratio);
  Change on = saving(workload, [&](const Workload::Class& each) { return -packing.byte_ns * data_part * each.bytes; });
  on.wire_part = data_part * packing.part;
  found.push_back({printed("compression %.3g:1", ratio), std::move(on),
                   packing.guessed ? "nothing was compressed here yet: that is taken to need 2.5 ns a byte, and 0.8 ns "
                                     "at the peer"
                                   : ""});
}

}  // namespace

bool is_encrypted(const json& status) { return text_at(object_at(status, "encryption"), "mode") == "tls"; }

std::vector<PlannedChange> changes_of(const Workload& workload, const json& latency, const json& status,
                                      const SealCost& seal, double ratio) {
  std::vector<PlannedChange> found;
  add_disks(workload, latency, status, found);
  add_encryption(workload, status, seal, found);
  add_compression(workload, status, ratio, found);
  return found;
}

}  // namespace twinblock
