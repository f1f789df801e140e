// The lines that answer control requests. Loop thread only.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "volume/engine.h"

namespace twinblock {

// Called once with a line without its newline.
struct Send {
  void operator()(std::string line) const { to(std::move(line)); }

  std::function<void(std::string)> to;
  std::function<bool()> gone;  // whether who asked waits for it no more; null: he waits
};

// {"ok":true,"result":…}
std::string success(nlohmann::json result);

// {"ok":false,"error":…,"action":…}, and where it is known whether to try again, "refused": "for_good",
// "now" or "later".
std::string failure(const std::string& error, const std::string& action);
std::string failure(const Error& error);

// {"ok":true,"result":{"message":…}}, or a failure.
OperatorOrders::Reply answer_with(Send send);

}  // namespace twinblock
