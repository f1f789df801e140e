// Windows' Performance Monitor, as CSV: "(PDH-CSV 4.0)
// (ZONE)(MINUTES)","\\HOST\OBJECT(INSTANCE)\COUNTER",… The list's separator is the locale's, as is
// the decimal sign. A blank cell: there was no figure.
#include <algorithm>
#include <map>
#include <optional>

#include "twinblock/exit_status.h"
#include "twinblock/profile.h"
#include "twinblock/profile_devices.h"
#include "twinblock/profile_lines.h"
#include "twinblock/profile_times.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

constexpr const char* kRecordPerfmon =
    "record both: typeperf \"\\PhysicalDisk(*)\\Disk Write Bytes/sec\" \"\\PhysicalDisk(*)\\Disk "
    "Writes/sec\" -si 10 -o FILE";
constexpr const char* kTotal = "_Total";
constexpr const char* kSystem = "System";
constexpr size_t kNone = 0;  // column 0 is the time

// Where a device's figures stand.
struct PerfmonColumns {
  size_t bytes = kNone;
  size_t writes = kNone;
};

// Cells of a line; nullopt where a quote does not end.
std::optional<std::vector<std::string>> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      const bool doubled = quoted && i + 1 < line.size() && line[i + 1] == '"';
      if (doubled)
        cells.back() += line[++i];
      else
        quoted = !quoted;
    } else if (line[i] == separator && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  if (quoted) return std::nullopt;
  return cells;
}

bool is_blank(const std::string& cell) {
  return cell.find_first_not_of(" \t") == std::string::npos;
}

char separator_of(std::string_view header) {
  bool quoted = false;
  for (const char each : header) {
    if (each == '"') quoted = !quoted;
    if (!quoted && (each == ',' || each == ';' || each == '\t')) return each;
  }
  return ',';
}

// "\\HOST\PhysicalDisk(0 C:)\Disk Writes/sec": the object's instance of disks, "System", or empty
// for other counters.
std::string device_of(const std::string& cell, bool& bytes) {
  const size_t counter_at = cell.rfind('\\');
  if (counter_at == std::string::npos || counter_at == 0) return {};
  const size_t object_at = cell.rfind('\\', counter_at - 1);
  const std::string counter = cell.substr(counter_at + 1);
  const std::string object = cell.substr(object_at + 1, counter_at - object_at - 1);
  bytes = counter == "Disk Write Bytes/sec" || counter == "File Write Bytes/sec";
  if (object == kSystem) return bytes || counter == "File Write Operations/sec" ? kSystem : "";
  constexpr std::string_view kDisks = "PhysicalDisk(";
  if (!object.starts_with(kDisks) || !object.ends_with(')') ||
      (!bytes && counter != "Disk Writes/sec"))
    return {};
  return object.substr(kDisks.size(), object.size() - kDisks.size() - 1);
}

// The disks one by one, where there are any, else their total, else what files were given.
Status choose(const std::map<std::string, PerfmonColumns>& all, const ProfileDevices& wanted,
              Profile& profile) {
  ProfileDevices chosen = wanted;
  if (chosen.empty())
    for (const auto& [name, columns] : all)
      if (name != kTotal && name != kSystem) chosen.push_back(name);
  if (chosen.empty()) chosen.emplace_back(all.contains(kTotal) ? kTotal : kSystem);
  std::set<std::string> names;
  for (const auto& [name, columns] : all) names.insert(name);
  return choose_devices(names, chosen, profile);
}

class PerfmonText {
 public:
  explicit PerfmonText(const ProfileDevices& wanted) : wanted_(wanted) {}

  Status header(std::string_view line) {
    separator_ = separator_of(line);
    const auto cells = cells_of(line, separator_);
    if (!cells) return profile_error(1, "a quoted cell does not end");
    columns_ = cells->size();
    std::map<std::string, PerfmonColumns> all;
    for (size_t i = 1; i < cells->size(); ++i) {
      bool bytes = false;
      const std::string name = device_of((*cells)[i], bytes);
      if (name.empty()) continue;
      size_t& column = bytes ? all[name].bytes : all[name].writes;
      if (column != kNone)
        return profile_error(1, shown((*cells)[i]) + " stands twice: two hosts in one file",
                             "give each a file of its own, and both with --from");
      column = i;
    }
    if (all.empty())
      return profile_error(1,
                           "there is no column of writes: neither PhysicalDisk's Disk Write "
                           "Bytes/sec nor System's File Write Bytes/sec",
                           kRecordPerfmon);
    profile.format = "Performance Monitor";
    if (const Status chosen = choose(all, wanted_, profile); !chosen) return chosen;
    for (const std::string& name : profile.devices) {
      const PerfmonColumns& columns = all[name];
      if (columns.bytes == kNone)
        return profile_error(1, "there is no column of the bytes written of " + shown(name),
                             kRecordPerfmon);
      if (columns.writes == kNone)
        return profile_error(1, "there is no column of the number of writes of " + shown(name),
                             kRecordPerfmon);
      counted_.push_back(columns);
    }
    return ok_status();
  }

  Status row(std::string_view line, size_t number) {
    const auto cells = cells_of(line, separator_);
    if (!cells) return profile_error(number, "a quoted cell does not end");
    if (cells->size() == 1 && is_blank(cells->front())) return ok_status();
    if (cells->size() != columns_)
      return profile_error(number, "there are " + std::to_string(cells->size()) +
                                       " cells where the heading has " + std::to_string(columns_));
    const auto time = profile_time(cells->front());
    if (!time) return profile_error(number, shown(cells->front()) + " is not a time");
    ProfileSample sample{*time, 0, 0, 0};
    bool blank = false;
    for (const PerfmonColumns& columns : counted_) {
      const Result<double> bytes = figure(*cells, columns.bytes, number, blank);
      if (!bytes) return bytes.error();
      const Result<double> writes = figure(*cells, columns.writes, number, blank);
      if (!writes) return writes.error();
      sample.bytes_per_s += bytes.value();
      sample.writes_per_s += writes.value();
    }
    rows_.push_back({sample, blank});
    return ok_status();
  }

  // After the last row.
  void finish() {
    std::vector<ReportTime> times;
    for (const Row& each : rows_) times.push_back({each.sample.end_s, 0, true});
    const std::vector<PlacedInterval> placed = placed_in_time(times, profile);
    for (size_t i = 0; i < rows_.size(); ++i) {
      ProfileSample sample = rows_[i].sample;
      sample.end_s = placed[i].end_s;
      sample.interval_s = placed[i].interval_s;
      // What the first row says is of an interval whose beginning nobody noted: as long as the
      // second's.
      if (i == 0 && rows_.size() > 1) sample.interval_s = placed[1].interval_s;
      if (rows_[i].blank && i > 0) profile.gap_ends_s.push_back(sample.end_s);
      if (!rows_[i].blank && sample.interval_s > 0) profile.samples.push_back(sample);
    }
  }

  Profile profile;

 private:
  struct Row {
    ProfileSample sample;  // its interval comes at the end
    bool blank = false;
  };

  static Result<double> figure(const std::vector<std::string>& cells, size_t column, size_t number,
                               bool& blank) {
    if (is_blank(cells[column])) {
      blank = true;
      return 0.0;
    }
    const auto value = profile_number(cells[column]);
    if (!value)
      return profile_error(number,
                           "column " + std::to_string(column + 1) + ": " + number_fault(cells[column]));
    return *value;
  }

  const ProfileDevices& wanted_;
  char separator_ = ',';
  size_t columns_ = 0;
  std::vector<PerfmonColumns> counted_;
  std::vector<Row> rows_;
};

}  // namespace

Result<Profile> parse_perfmon(std::string_view text, const ProfileDevices& devices) {
  ProfileLines lines(text);
  PerfmonText parser(devices);
  std::string_view line;
  if (!lines.next(line)) return refused("it is empty");
  if (const Status read = parser.header(line); !read) return read.error();
  while (lines.next(line))
    if (const Status read = parser.row(line, lines.number()); !read) return read.error();
  parser.finish();
  if (parser.profile.samples.empty())
    return refused("it has no interval with figures", "record for longer, such as a working day");
  return parser.profile;
}

}  // namespace twinblock
