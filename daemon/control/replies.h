// The lines that answer control requests. Loop thread only.
#pragma once

#include <functional>
#include <string>

#include "volume/engine.h"

namespace twinblock {

// Called once with a line without its newline.
using Send = std::function<void(std::string)>;

// {"ok":false,"error":…,"action":…}
std::string failure(const std::string& error, const std::string& action);

// {"ok":true,"result":{"message":…}}, or a failure.
Engine::Reply answer_with(Send send);

}  // namespace twinblock
