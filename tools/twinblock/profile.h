// What a recording of another tool says of the writes to a host's disks. Pure. The parsers take the
// text of a file and name in their errors (kExitRefused) the line and the reason, without the file;
// profile_read.h puts it before.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace twinblock {

// The mean over an interval.
struct ProfileSample {
  double end_s = 0;       // wall clock as the file says it, in seconds since 1970 there
  double interval_s = 0;  // > 0
  double bytes_per_s = 0;
  double writes_per_s = 0;
};

struct Profile {
  std::string format;                  // "iostat", "sar", …
  std::vector<std::string> devices;    // whose writes were added up
  std::vector<std::string> left_out;   // which others the file has
  std::vector<ProfileSample> samples;  // in the order of time
  std::vector<double> gap_ends_s;      // when intervals ended of which the file does not know all
  bool writes_estimated = false;       // the file does not count writes alone
  std::vector<std::string> notes;      // whole sentences
};

// Of each format; `devices` are those to count, empty: all whole disks.
using ProfileDevices = std::vector<std::string>;
Result<Profile> parse_iostat(std::string_view text, const ProfileDevices& devices);
Result<Profile> parse_iostat_json(std::string_view text, const ProfileDevices& devices);
Result<Profile> parse_sar(std::string_view text, const ProfileDevices& devices);
Result<Profile> parse_sadf_json(std::string_view text, const ProfileDevices& devices);
Result<Profile> parse_perfmon(std::string_view text, const ProfileDevices& devices);
Result<Profile> parse_fio(std::string_view text, const ProfileDevices& devices);

// The format is told by the content. A byte order mark is taken away, UTF-16 and CRLF are
// understood.
Result<Profile> parse_profile(std::string_view bytes, const ProfileDevices& devices);

}  // namespace twinblock
