// fio --output-format=json or json+: one average of each job; what fio says before the JSON is
// passed over.
#include <algorithm>
#include <optional>

#include "twinblock/exit_status.h"
#include "twinblock/profile.h"
#include "twinblock/profile_lines.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr const char* kRecordFio = "record it with: fio --output-format=json --output=FILE …";

// Jobs that run at the same time.
struct JobSums {
  double bytes = 0;
  double writes = 0;
  double runtime_s = 0;  // the longest job's
  std::optional<double> group;
  std::optional<double> end_ms;  // when the last one ended; older fio does not say when jobs begin
};

// Of a clock that says when jobs begin, and of runtimes, that is no difference.
constexpr double kSameTime_ms = 500;

// Whether fio began the job when those had ended (stonewall): by their times, else by its number of
// the group.
bool begins_later(const json& job, const JobSums& before) {
  const auto begin_ms = profile_member(job, "job_start");
  if (begin_ms && before.end_ms) return *begin_ms + kSameTime_ms >= *before.end_ms;
  const auto group = profile_member(job, "groupid");
  return group && before.group && *group != *before.group;
}

Status add_job(const json& job, JobSums& sums) {
  if (!job.is_object() || !job.contains("write") || !job["write"].is_object())
    return refused("the job has no \"write\"", kRecordFio);
  const json& write = job["write"];
  double values[3];
  const char* keys[3] = {"io_bytes", "total_ios", "runtime"};
  for (size_t i = 0; i < 3; ++i) {
    if (!write.contains(keys[i]) || !write[keys[i]].is_number() || write[keys[i]].get<double>() < 0)
      return refused("\"write\" has no number of 0 or more \"" + std::string(keys[i]) + "\"",
                     kRecordFio);
    values[i] = write[keys[i]].get<double>();
  }
  sums.bytes += values[0];
  sums.writes += values[1];
  sums.runtime_s = std::max(sums.runtime_s, values[2] / 1000);
  sums.group = profile_member(job, "groupid");
  if (const auto begin_ms = profile_member(job, "job_start"))
    sums.end_ms = std::max(sums.end_ms.value_or(0), *begin_ms + profile_member(job, "job_runtime").value_or(values[2]));
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
                   kRecordFio);
  if (!devices.empty())
    return refused("fio's JSON has jobs, and no device '" + devices.front() + "'",
                   "leave --device out");
  std::vector<JobSums> phases(1);
  Profile profile;
  profile.format = "fio";
  for (const json& job : all["jobs"]) {
    if (job.is_object() && !profile.devices.empty() && begins_later(job, phases.back())) phases.emplace_back();
    if (const Status added = add_job(job, phases.back()); !added)
      return profile_error(
          line_of_word(text, "\"jobname\"", profile.devices.size()),
          "job " + std::to_string(profile.devices.size() + 1) + ": " + added.error().what,
          added.error().action);
    profile.devices.push_back(job.contains("jobname") && job["jobname"].is_string()
                                  ? job["jobname"].get<std::string>()
                                  : "job");
  }
  std::erase_if(phases, [](const JobSums& each) { return each.runtime_s <= 0 || each.bytes <= 0; });
  if (phases.empty()) return refused("none of its jobs has written anything", "record a job that writes");
  double end_s = all.contains("timestamp") && all["timestamp"].is_number()
                           ? all["timestamp"].get<double>()
                           : 0;
  for (auto each = phases.rbegin(); each != phases.rend(); ++each) {
    profile.samples.insert(profile.samples.begin(), {end_s, each->runtime_s, each->bytes / each->runtime_s,
                                                     each->writes / each->runtime_s});
    end_s -= each->runtime_s;
  }
  profile.notes.emplace_back("fio says one average a run: its peaks do not show.");
  if (phases.size() > 1)
    profile.notes.push_back("Its jobs ran in " + std::to_string(phases.size()) + " groups, one after the other.");
  return profile;
}

}  // namespace twinblock
