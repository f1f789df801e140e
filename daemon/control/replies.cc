#include "control/replies.h"

#include <utility>

namespace twinblock {

using nlohmann::json;

namespace {

// What came from a client, a peer or the system need not be UTF-8.
std::string dumped(const json& line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string success(json result) { return dumped({{"ok", true}, {"result", std::move(result)}}); }

std::string failure(const std::string& error, const std::string& action) {
  return dumped({{"ok", false}, {"error", error}, {"action", action}});
}

std::string failure(const Error& error) {
  json line{{"ok", false}, {"error", error.what}, {"action", error.action}};
  switch (error.retry) {
    case Retry::kUnknown: break;
    case Retry::kWhenMended: line["refused"] = "for_good"; break;
    case Retry::kNotNow: line["refused"] = "now"; break;
    case Retry::kLater: line["refused"] = "later"; break;
  }
  return dumped(line);
}

OperatorOrders::Reply answer_with(Send send) {
  return [send = std::move(send)](const Result<std::string>& result) {
    send(result.ok() ? success({{"message", result.value()}})
                     : failure(result.error()));
  };
}

}  // namespace twinblock
