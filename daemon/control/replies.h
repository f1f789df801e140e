// The lines that answer control requests. Loop thread only.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "volume/engine.h"

namespace twinblock {

// Called once with a line without its newline.
using Send = std::function<void(std::string)>;

// {"ok":true,"result":…}
std::string success(nlohmann::json result);

// {"ok":false,"error":…,"action":…}
std::string failure(const std::string& error, const std::string& action);

// {"ok":true,"result":{"message":…}}, or a failure.
OperatorOrders::Reply answer_with(Send send);

}  // namespace twinblock
