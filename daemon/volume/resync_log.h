// What is said of a resync, on either side: that it began, why and of what, and how it ended; as
// events now, and for `status` and `why` later. Owned by the engine; loop thread only.
#pragma once

#include <optional>
#include <string>

#include "volume/core.h"
#include "volume/event_words.h"
#include "volume/progress.h"
#include "volume/status_view.h"

namespace twinblock {

class ResyncLog {
 public:
  using Sent = StatusView::ResyncSent;

  ResyncLog(Core& core, const EventWords& words) : core_(core), words_(words) {}

  // Why there is one, and of what.
  void found(const ResyncCause& cause) { cause_ = cause; }
  void began(bool source);
  // `sent`: of the source.
  void ended(const Progress& progress, const std::optional<Sent>& sent);
  // All is copied but what the source can't read.
  void waits(const BlockMap& unreadable, const std::string& read_error);
  void failed(const std::string& why);

  // Of the one that runs, or else of the last one.
  [[nodiscard]] const std::optional<ResyncCause>& cause() const { return cause_; }
  // The last one that ended well and had anything to do.
  [[nodiscard]] const std::optional<StatusView::LastResync>& last() const { return last_; }

 private:
  Core& core_;
  const EventWords& words_;
  bool told_ = false;  // that one has begun
  std::optional<ResyncCause> cause_;
  std::optional<StatusView::LastResync> last_;
};

}  // namespace twinblock
