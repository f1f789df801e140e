#include "base/result.h"

#include <system_error>

namespace twinblock {

std::string in_words(const Error& error) {
  return error.what + (error.action.empty() ? "" : "; " + error.action);
}

Error system_error(int code, std::string what, std::string action) {
  return Error{std::move(what) + ": " + std::generic_category().message(code), std::move(action),
               code};
}

}  // namespace twinblock
