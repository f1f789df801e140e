// Which of the devices of a recording are counted. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/profile.h"

namespace twinblock {

// Of the devices `seen`: those `wanted`, or where none is, all whole disks, so that nothing is
// counted twice: no partition whose disk is there, and nothing that lies over disks (dm, md, loop,
// drbd, a second path). Fills in devices and left_out of the profile. An error where one wanted is
// not there, or no disk is.
Status choose_devices(const std::set<std::string>& seen, const ProfileDevices& wanted,
                      Profile& profile);

// A report of iostat or sar: what each device did in an interval.
struct DeviceRate {
  double bytes_per_s = 0;
  double writes_per_s = 0;
};
struct DeviceReport {
  double end_s = 0;       // as ProfileSample's
  double interval_s = 0;  // 0: as long as it is since the report before
  bool since_boot = false;
  std::map<std::string, DeviceRate> rates;
};

// Samples of the reports; those since boot are left out, and say when the first interval began. An
// error where no interval is left.
Result<Profile> profile_of(const std::vector<DeviceReport>& reports, const ProfileDevices& wanted,
                           Profile profile);

}  // namespace twinblock
