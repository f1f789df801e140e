#include "mirror/witness_claim.h"

namespace twinblock {

ClaimVerdict judge_claim(const WitnessReading& reading, const metadata::NodeRecord& record) {
  if (!reading.entry) return record.had_partner() ? ClaimVerdict::kLost : ClaimVerdict::kReplace;
  const uint64_t named = reading.entry->generation;
  const bool knows = record.generations.knows(named) || (record.claim != 0 && named == record.claim);
  return knows ? ClaimVerdict::kReplace : ClaimVerdict::kOvertaken;
}

}  // namespace twinblock
