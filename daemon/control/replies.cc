#include "control/replies.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace twinblock {

using nlohmann::json;

std::string failure(const std::string& error, const std::string& action) {
  const json line = {{"ok", false}, {"error", error}, {"action", action}};
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

Engine::Reply answer_with(Send send) {
  return [send = std::move(send)](const Result<std::string>& result) {
    if (!result.ok()) {
      send(failure(result.error().what, result.error().action));
      return;
    }
    const json line = {{"ok", true}, {"result", {{"message", result.value()}}}};
    send(line.dump(-1, ' ', false, json::error_handler_t::replace));
  };
}

}  // namespace twinblock
