#include "config/copies_table.h"

#include <array>
#include <optional>
#include <string>

#include "base/units.h"
#include "config/value_readers.h"

namespace twinblock {
namespace {

constexpr const char* kReflink = "reflink";
constexpr TimeoutRange kCopyTimeouts{100 * kMillisecond_ns, 3600 * kSecond_ns, "100ms to 60min"};
constexpr uint64_t kCopyTimeoutDefault_ns = 30 * kSecond_ns;
// In the order of OnNoWayBack.
constexpr std::array<const char*, 2> kOnFailure{"go on", "wait"};

std::string example_of(const std::string& key, const std::string& volume) {
  return "/etc/twinblock/" + volume + "." + key;
}

CopyWay read_command(const ConfigTable& table, const std::string& key, const std::string& volume) {
  return {.reflink = false, .command = read_path(table, key, example_of(key, volume), false)};
}

// "reflink", or a path.
CopyWay read_way(const ConfigTable& table, const std::string& key, const std::string& volume, CopyWay otherwise) {
  const std::string example = example_of(key, volume);
  const auto text = table.text(key, key + " = \"reflink\", or \"" + example + "\"", false);
  if (!text) return otherwise;
  if (*text == kReflink) return {.reflink = true, .command = {}};
  if (text->starts_with('/')) return read_command(table, key, volume);
  table.fail(key, "'" + *text + "' is no way to copy a backing",
             "choose \"reflink\", or write the absolute path of a command, like \"" + example + "\"");
  return otherwise;
}

void check_together(const ConfigTable& table, const std::string& volume, const CopyWays& ways) {
  const bool by_command = !ways.before_resync.command.empty();
  for (const char* key : {"after_resync", "rollback"})
    if (table.has(key) && !by_command)
      table.fail(key, std::string("'") + key + "' belongs to a before_resync that is a command",
                 "remove it, or name the command that takes the copy in before_resync");
  if (by_command && ways.rollback.none())
    table.fail("before_resync", "a copy that a command takes needs a command that brings it back",
               "add rollback = \"" + example_of("rollback", volume) + "\", which may be the same file");
  if (table.has("on_failure") && ways.before_resync.none())
    table.fail("on_failure", "'on_failure' is about before_resync, which is missing",
               "add before_resync = \"reflink\", or remove it");
}

}  // namespace

void read_copies(const ConfigTable& top, Config& config) {
  CopyWays& ways = config.copies;
  ways.timeout_ns = kCopyTimeoutDefault_ns;
  const std::optional<ConfigTable> table = top.child("copies");
  if (!table) return;
  table->allow_only({"before_resync", "after_resync", "rollback", "snapshot", "timeout", "on_failure"});
  ways.before_resync = read_way(*table, "before_resync", config.volume, {});
  ways.snapshot = read_way(*table, "snapshot", config.volume, ways.snapshot);
  ways.after_resync = read_command(*table, "after_resync", config.volume);
  ways.rollback = read_command(*table, "rollback", config.volume);
  ways.timeout_ns = read_timeout(*table, "timeout", kCopyTimeoutDefault_ns, kCopyTimeouts);
  config.on_no_way_back = static_cast<OnNoWayBack>(
      read_choice(*table, "on_failure", kOnFailure, static_cast<size_t>(OnNoWayBack::kGoOn)));
  check_together(*table, config.volume, ways);
  // What a reflink keeps, a reflink brings back, and removes.
  if (ways.before_resync.reflink) ways.after_resync = ways.rollback = ways.before_resync;
}

}  // namespace twinblock
