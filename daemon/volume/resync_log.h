// What is said of a resync, on either side: that it began, why and of what, and how it ended; as
// events now, and for `status` and `why` later. Owned by the engine; loop thread only.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "volume/events.h"
#include "volume/progress.h"
#include "volume/status_view.h"

namespace twinblock {

class ResyncLog {
 public:
  using Sent = StatusView::ResyncSent;

  explicit ResyncLog(Events& events) : events_(events) {}

  // Why there is one, and of what: a sentence.
  void set_reason(std::string reason) { reason_ = std::move(reason); }
  void began(bool source);
  // `sent`: of the source.
  void ended(const Progress& progress, const std::optional<Sent>& sent);
  void failed(const std::string& why);

  [[nodiscard]] const std::string& reason() const { return reason_; }
  // The last one that ended well and had anything to do.
  [[nodiscard]] const std::optional<StatusView::LastResync>& last() const { return last_; }
  [[nodiscard]] const std::string& last_reason() const { return last_reason_; }

 private:
  Events& events_;
  bool told_ = false;  // that one has begun
  std::string reason_, last_reason_;
  std::optional<StatusView::LastResync> last_;
};

}  // namespace twinblock
