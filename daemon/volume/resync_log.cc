#include "volume/resync_log.h"

#include <utility>

#include "base/units.h"

namespace twinblock {

void ResyncLog::began(bool source) {
  told_ = true;
  const std::string reason = cause_ ? words_.resync(*cause_, core_.node, core_.peer) : "";
  core_.events().tell("resync-begun",
                    {{"direction", source ? "to-peer" : "from-peer"}, {"reason", reason}});
}

void ResyncLog::ended(const Progress& progress, const std::optional<Sent>& sent) {
  if (progress.total_bytes() > 0)
    last_ = {progress.total_bytes(), progress.duration_ns(), sent.value_or(Sent{}), cause_};
  if (!std::exchange(told_, false)) return;
  EventDetails details{{"direction", sent ? "to-peer" : "from-peer"},
                       {"bytes", progress.total_bytes()},
                       {"milliseconds", progress.duration_ns() / kMillisecond_ns}};
  if (sent) {
    details.emplace_back("data_bytes", sent->data_bytes);
    details.emplace_back("zero_bytes", sent->zero_bytes);
    details.emplace_back("compared_bytes", sent->compared_bytes);
  }
  core_.events().tell("resync-ended", std::move(details));
}

void ResyncLog::waits(const BlockMap& unreadable, const std::string& read_error) {
  core_.log.log(Severity::kWarning, "all is copied to " + core_.peer + " but " + format_size(unreadable.set_bytes()) +
                                        " that can't be read here (" + read_error +
                                        "): it is copied when it is written anew, and tried again from time to time");
  core_.events().tell("resync-waits", {{"unreadable_bytes", unreadable.set_bytes()}, {"reason", read_error}});
}

void ResyncLog::failed(const std::string& why) {
  if (std::exchange(told_, false)) core_.events().tell("resync-failed", {{"reason", why}});
}

}  // namespace twinblock
