// Result<T>: a value, or an Error that says in one sentence what went wrong and, where there is
// one, what to do. For operating failures (files, peers, input); bugs use TB_CHECK instead.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/checks.h"

namespace twinblock {

// Of an order that was refused: whether it is of use to give it again.
enum class Retry {
  kUnknown,     // or not of an order
  kWhenMended,  // not before somebody has mended something
  kNotNow,      // not for as long as things are as they are, which is as it should be
  kLater,       // soon, or when something is back
};

struct Error {
  std::string what;    // one sentence, names the file, option or peer; no trailing newline
  std::string action;  // what the operator can do; may be empty
  int code = 0;        // errno value where one caused it, else 0
  Retry retry = Retry::kUnknown;
};

// "WHAT; ACTION", or what there is of it: for logs, events and other nodes.
std::string in_words(const Error& error);

// "WHAT: strerror(CODE)" as an Error.
Error system_error(int code, std::string what, std::string action = {});

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] bool ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return ok(); }
  T& value() {
    TB_CHECK(ok(), "value() of a failed Result");
    return std::get<T>(state_);
  }
  const T& value() const {
    TB_CHECK(ok(), "value() of a failed Result");
    return std::get<T>(state_);
  }
  [[nodiscard]] const Error& error() const {
    TB_CHECK(!ok(), "error() of a good Result");
    return std::get<Error>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

struct Unit {};
using Status = Result<Unit>;
inline Status ok_status() { return Unit{}; }

}  // namespace twinblock
