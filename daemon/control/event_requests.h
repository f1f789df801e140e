// The verb `events`: what happened, and waiting for what happens next. Loop thread only.
#pragma once

#include <nlohmann/json.hpp>

#include "control/replies.h"

namespace twinblock {

// `args` have the types that the table of verbs names: {"since": N} is answered at once with the
// events after number N, oldest first, and not more than fit a short line: ask again with the last
// one's number until it is "last". With "wait": where there are none yet, when there are, or after
// a while without any. A "since" that lies in the future (of a process before this one) is answered
// at once; "instance" tells processes from each other.
void answer_events(Engine& engine, const nlohmann::json& args, const Send& send);

}  // namespace twinblock
