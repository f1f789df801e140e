// The options of `promoter`.
#include "base/units.h"
#include "twinblock/options.h"
#include "twinblock/promoter_decision.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

// Longer ones are slips: until then nobody serves the volume.
constexpr uint64_t kWaitMax_ns = 3600 * kSecond_ns;

Status read_time(const char* option, const std::string& text, uint64_t otherwise_ns, uint64_t& ns) {
  ns = otherwise_ns;
  if (text.empty()) return ok_status();
  const std::optional<uint64_t> read_ns = parse_wait_timeout(text);
  if (!read_ns || *read_ns > kWaitMax_ns)
    return wrong_usage(std::string(option) + ": '" + text + "' is not a duration of at most 1h",
                       "write it like 3s, 500ms or 1min");
  ns = *read_ns;
  return ok_status();
}

Status check_path(const char* option, const std::string& path) {
  if (path.starts_with('/')) return ok_status();
  return wrong_usage(std::string(option) + ": '" + path + "' is not an absolute path",
                     "name a program, such as /usr/local/sbin/start-r0");
}

Status check_programs(const PromoterOptions& promoter) {
  if (promoter.start.empty() && promoter.stop.empty()) return ok_status();
  if (promoter.start.empty() || promoter.stop.empty())
    return wrong_usage("--start and --stop go together",
                       "give both, or --target to have systemd do it");
  if (!promoter.target.empty())
    return wrong_usage("--target is systemd's affair, --start and --stop do without it",
                       "give either");
  const Status start = check_path("--start", promoter.start);
  return start ? check_path("--stop", promoter.stop) : start;
}

}  // namespace

Status prepare_promoter(Options& options) {
  PromoterOptions& promoter = options.promoter;
  if (const Status good = check_programs(promoter); !good) return good;
  if (const Status read = read_time("--restart-wait", promoter.restart_wait, kRestartWaitDefault_ns,
                                    promoter.restart_wait_ns);
      !read)
    return read;
  return read_time("--boot-wait", promoter.boot_wait, kBootWaitDefault_ns, promoter.boot_wait_ns);
}

}  // namespace twinblock
