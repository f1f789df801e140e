#include "twinblock/profile_devices.h"

#include <algorithm>
#include <regex>

#include "twinblock/exit_status.h"
#include "twinblock/profile_times.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

bool is_disk(const std::string& name) {
  // The last: sar's "dev8-16", of SCSI disks, which have 16 minors each.
  static const std::regex disk(
      "(sd|vd|xvd|hd|dasd)[a-z]+|nvme\\d+n\\d+|mmcblk\\d+|nbd\\d+|rbd\\d+|pmem\\d+|"
      "dev8-(0|16|32|48|64|80|96|112|128|144|160|176|192|208|224|240)");
  return std::regex_match(name, disk);
}

// "sda1", "nvme0n1p2": the disk; empty for all else.
std::string disk_of_partition(const std::string& name) {
  static const std::regex lettered("((?:sd|vd|xvd|hd|dasd)[a-z]+)\\d+");
  static const std::regex numbered("((?:nvme\\d+n|mmcblk|nbd|rbd|pmem)\\d+)p\\d+");
  std::smatch match;
  if (std::regex_match(name, match, lettered) || std::regex_match(name, match, numbered))
    return match[1];
  return {};
}

bool counts(const std::string& name, const std::set<std::string>& seen) {
  if (is_disk(name)) return true;
  const std::string disk = disk_of_partition(name);
  return !disk.empty() && !seen.contains(disk);
}

// Arrays of md, whose disks are counted each: nothing here says whether they mirror.
std::string arrays_note(const Profile& profile) {
  std::vector<std::string> arrays;
  for (const std::string& name : profile.left_out)
    if (name.starts_with("md")) arrays.push_back(name);
  if (arrays.empty()) return {};
  return joined(arrays) + (arrays.size() == 1 ? " lies" : " lie") +
         " over disks that are counted: if it mirrors (RAID 1, 10) each write is counted once a disk, and with " +
         "--device " + arrays.front() + " once.";
}

}  // namespace

Status choose_devices(const std::set<std::string>& seen, const ProfileDevices& wanted,
                      Profile& profile) {
  const std::string all = joined({seen.begin(), seen.end()});
  for (const std::string& name : wanted)
    if (!seen.contains(name))
      return refused("it has no device '" + name + "'",
                     "it has " + all + "; name some of them with --device");
  for (const std::string& name : seen) {
    const bool chosen = wanted.empty()
                            ? counts(name, seen)
                            : std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    (chosen ? profile.devices : profile.left_out).push_back(name);
  }
  if (profile.devices.empty())
    return refused(
        "none of its devices is known to be a whole disk" + (all.empty() ? "" : ": " + all),
        "name those that count with --device");
  if (const std::string note = arrays_note(profile); wanted.empty() && !note.empty())
    profile.notes.push_back(note);
  return ok_status();
}

Result<Profile> profile_of(const std::vector<DeviceReport>& reports, const ProfileDevices& wanted,
                           Profile profile) {
  std::set<std::string> seen;
  for (const DeviceReport& report : reports)
    for (const auto& [name, rate] : report.rates) seen.insert(name);
  if (const Status chosen = choose_devices(seen, wanted, profile); !chosen) return chosen.error();
  bool left_out = false;
  std::vector<ReportTime> times;
  for (const DeviceReport& report : reports)
    times.push_back({report.end_s, report.interval_s, !report.since_boot});
  const std::vector<PlacedInterval> placed = placed_in_time(times, profile);
  for (size_t i = 0; i < reports.size(); ++i) {
    const DeviceReport& report = reports[i];
    left_out |= report.since_boot;
    if (placed[i].interval_s <= 0) continue;
    ProfileSample sample{placed[i].end_s, placed[i].interval_s, 0, 0};
    for (const std::string& name : profile.devices)
      if (const auto rate = report.rates.find(name); rate != report.rates.end()) {
        sample.bytes_per_s += rate->second.bytes_per_s;
        sample.writes_per_s += rate->second.writes_per_s;
      }
    profile.samples.push_back(sample);
  }
  if (profile.samples.empty())
    return refused("it has no interval to go by: only " + std::to_string(reports.size()) +
                       " report, the first of which is the average since boot",
                   "record for longer, such as a working day");
  if (left_out)
    profile.notes.emplace_back("The first report is the average since boot and was left out.");
  return profile;
}

}  // namespace twinblock
