// Reads a file of keys anew beside the loop, since the file system that it lies on may hang. Loop thread only.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "io/posix/link_key.h"
#include "io/posix/loop.h"
#include "io/posix/thread.h"

namespace twinblock {

class KeyReader {
 public:
  // `read`: on a thread of its own.
  KeyReader(Loop& loop, std::function<Result<LinkKeys>()> read) : loop_(loop), read_(std::move(read)) {}
  // After Loop::run() has returned. Waits for one that has begun; nobody is told.
  ~KeyReader() {
    if (thread_.joinable()) thread_.join();
  }
  KeyReader(const KeyReader&) = delete;
  KeyReader& operator=(const KeyReader&) = delete;

  // `done`: on the loop, later; at once where there can be none now.
  void read(std::function<void(Result<LinkKeys>)> done) {
    if (reading_) {
      done(Error{"the keys are being read just now", "try again; if that lasts, see what their file system waits for", EBUSY});
      return;
    }
    if (thread_.joinable()) thread_.join();
    try {
      thread_ = start_thread("keys", [this, done] {
        auto keys = std::make_shared<Result<LinkKeys>>(read_());
        loop_.post([this, done, keys] {
          reading_ = false;
          done(std::move(*keys));
        });
      });
      reading_ = true;
    } catch (const std::system_error& error) {
      done(system_error(error.code().value(), "no thread can be started to read the keys"));
    }
  }

 private:
  Loop& loop_;
  const std::function<Result<LinkKeys>()> read_;
  std::thread thread_;
  bool reading_ = false;
};

}  // namespace twinblock
