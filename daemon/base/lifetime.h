// Tells code that has called a stranger whether the object that it belongs to is still there: a
// handler or a callback may destroy whom it was called by. A member of that object, asked through a
// Watch that lies in a local variable. One thread.
#pragma once

#include <memory>

namespace twinblock {

class Lifetime {
 public:
  Lifetime() : token_(std::make_shared<const Token>()) {}
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  // Outlives what it watches. Any number at once: calls may be nested.
  class Watch {
   public:
    explicit Watch(const Lifetime& lifetime) : token_(lifetime.token_) {}
    [[nodiscard]] bool ended() const { return token_.expired(); }

   private:
    std::weak_ptr<const void> token_;
  };

 private:
  struct Token {};
  std::shared_ptr<const void> token_;  // shared by nobody: only watched
};

}  // namespace twinblock
