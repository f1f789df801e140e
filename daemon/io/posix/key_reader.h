// Reads a file of keys anew beside the loop, since the file system that it lies on may hang. Loop thread only.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>

#include "io/posix/link_key.h"
#include "io/posix/loop.h"
#include "io/posix/thread.h"

namespace twinblock {

class KeyReader {
 public:
  // `read`: on a thread of its own, which may outlive this, and all that this process had.
  KeyReader(Loop& loop, std::function<Result<LinkKeys>()> read)
      : loop_(loop), shared_(std::make_shared<Shared>(std::move(read), this)) {}
  // After Loop::run() has returned. Nobody is told any more. A thread that hangs in the kernel can't be called back, nor
  // waited for: it is left behind, and ends with the process, or before.
  ~KeyReader() {
    const std::lock_guard lock(shared_->mutex);
    shared_->reader = nullptr;
  }
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;

  // `done`: on the loop, later; at once where there can be none now.
  void read(std::function<void(Result<LinkKeys>)> done) {
    if (done_) {
      done(Error{"the keys are being read just now", "try again; if that lasts, see what their file system waits for", EBUSY});
      return;
    }
    done_ = std::move(done);
    try {
      start_thread("keys", [shared = shared_] {
        const auto keys = std::make_shared<Result<LinkKeys>>(shared->read());
        const std::lock_guard lock(shared->mutex);
        if (shared->reader != nullptr) shared->reader->have_read(keys);
      }).detach();
    } catch (const std::system_error& error) {
      std::exchange(done_, nullptr)(system_error(error.code().value(), "no thread can be started to read the keys"));
    }
  }

 private:
  // The thread's part in it: what there is of this as long as it runs.
  struct Shared {
    Shared(std::function<Result<LinkKeys>()> how, KeyReader* whose) : read(std::move(how)), reader(whose) {}
    const std::function<Result<LinkKeys>()> read;
    std::mutex mutex;   // held for looking, and for handing over; never while the file is read
    KeyReader* reader;  // null: gone
  };

  // The thread; `shared_->mutex` is held.
  void have_read(const std::shared_ptr<Result<LinkKeys>>& keys) {
    loop_.post([this, keys] { std::exchange(done_, nullptr)(std::move(*keys)); });
  }

  Loop& loop_;
  const std::shared_ptr<Shared> shared_;
  std::function<void(Result<LinkKeys>)> done_;  // none: nothing is being read
};

}  // namespace twinblock
