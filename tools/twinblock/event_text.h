// Events as lines of text. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

// One event of the events verb as "time:… number:17 event:link-lost link:main reason:\"…\"": words
// "key:value" with one space between them, the reason last, without a newline. A value that is not
// made of letters, digits and . _ : / + , [ ] - is quoted as JSON quotes a text.
std::string event_line(const nlohmann::json& event);

// The event that says how many are not there any more, in the same form.
nlohmann::json dropped_event(uint64_t count);

}  // namespace twinblock
