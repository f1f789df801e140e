// What a handshake's verdict means to a user. Pure; any thread.
#pragma once

#include <string>

#include "mirror/generation.h"

namespace twinblock {

// For logs and status: a sentence, and what to do (empty where there is nothing). `peer` is the
// peer node's name, `volume` the volume's.
std::string explain(Verdict verdict, const std::string& peer);
std::string advise(Verdict verdict, const std::string& volume, const std::string& peer);
// The same where it is known what both said, which may tell more.
std::string explain(Verdict verdict, const SyncFacts& mine, const SyncFacts& theirs, const std::string& peer);
std::string advise(Verdict verdict, const SyncFacts& mine, const SyncFacts& theirs, const std::string& volume,
                   const std::string& peer);

}  // namespace twinblock
