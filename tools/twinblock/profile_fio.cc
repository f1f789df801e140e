// fio --output-format=json or json+: one average of each job; what fio says before the JSON is
// passed over.
#include <algorithm>

#include "twinblock/exit_status.h"
#include "twinblock/profile.h"
#include "twinblock/profile_lines.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr const char* kRecordIt = "record it with: fio --output-format=json --output=FILE …";

struct JobSums {
  double bytes = 0;
  double writes = 0;
  double runtime_s = 0;  // the longest job's
};

Status add_job(const json& job, JobSums& sums) {
  if (!job.is_object() || !job.contains("write") || !job["write"].is_object())
    return refused("the job has no \"write\"", kRecordIt);
  const json& write = job["write"];
  double values[3];
  const char* keys[3] = {"io_bytes", "total_ios", "runtime"};
  for (size_t i = 0; i < 3; ++i) {
    if (!write.contains(keys[i]) || !write[keys[i]].is_number() || write[keys[i]].get<double>() < 0)
      return refused("\"write\" has no number of 0 or more \"" + std::string(keys[i]) + "\"",
                     kRecordIt);
    values[i] = write[keys[i]].get<double>();
  }
  sums.bytes += values[0];
  sums.writes += values[1];
  sums.runtime_s = std::max(sums.runtime_s, values[2] / 1000);
  return ok_status();
}

// fio's own messages come before, each on lines of their own.
size_t json_begin(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && text[at] != '{') {
    at = text.find('\n', at);
    if (at == std::string_view::npos) return text.size();
    ++at;
  }
  return at;
}

}  // namespace

Result<Profile> parse_fio(std::string_view text, const ProfileDevices& devices) {
  // The lines before stay, blank, so that an error names the file's line.
  std::string blanked(text);
  std::replace_if(
      blanked.begin(), blanked.begin() + static_cast<std::ptrdiff_t>(json_begin(text)),
      [](char each) { return each != '\n'; }, ' ');
  const Result<json> read = profile_json(blanked);
  if (!read) return read.error();
  const json& all = read.value();
  if (!all.is_object() || !all.contains("jobs") || !all["jobs"].is_array() || all["jobs"].empty())
    return refused("line " + std::to_string(line_of_word(text, "{", 0)) +
                       ": there is no list \"jobs\" with a job in it",
                   kRecordIt);
  if (!devices.empty())
    return refused("fio's JSON has jobs, and no device '" + devices.front() + "'",
                   "leave --device out");
  JobSums sums;
  Profile profile;
  profile.format = "fio";
  for (const json& job : all["jobs"]) {
    if (const Status added = add_job(job, sums); !added)
      return profile_error(
          line_of_word(text, "\"jobname\"", profile.devices.size()),
          "job " + std::to_string(profile.devices.size() + 1) + ": " + added.error().what,
          added.error().action);
    profile.devices.push_back(job.contains("jobname") && job["jobname"].is_string()
                                  ? job["jobname"].get<std::string>()
                                  : "job");
  }
  if (sums.runtime_s <= 0 || sums.bytes <= 0)
    return refused("none of its jobs has written anything", "record a job that writes");
  const double end_s = all.contains("timestamp") && all["timestamp"].is_number()
                           ? all["timestamp"].get<double>()
                           : 0;
  profile.samples.push_back(
      {end_s, sums.runtime_s, sums.bytes / sums.runtime_s, sums.writes / sums.runtime_s});
  profile.notes.emplace_back("fio says one average a run: its peaks do not show.");
  return profile;
}

}  // namespace twinblock
