#include "service_report.h"

#include <utility>

#include "base/units.h"
#include "io/posix/notify.h"

namespace twinblock {
namespace {

constexpr uint64_t kInterval_ns = kSecond_ns;

}  // namespace

ServiceReport::ServiceReport(Clock& clock, std::function<std::string()> state)
    : state_(std::move(state)), timer_(clock.make_timer([this] { tell(); })) {
  if (notify_is_wanted()) timer_->arm(kInterval_ns);
}

void ServiceReport::tell() {
  notify_alive();
  std::string state = state_();
  if (state != told_) notify_status(state);
  told_ = std::move(state);
  timer_->arm(kInterval_ns);
}

}  // namespace twinblock
