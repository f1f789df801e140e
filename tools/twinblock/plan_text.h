// What `plan --from` prints. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "twinblock/plan_zones.h"

namespace twinblock {

struct ProfileFile {
  std::string path;
  Profile profile;
};

// With --json, docs/profiles.md says what the keys mean.
nlohmann::json recorded_plan_json(const std::vector<ProfileFile>& files, const Load& load, double times,
                         const std::optional<Limits>& measured);
// At most 30 lines.
std::string recorded_plan_text(const std::vector<ProfileFile>& files, const Load& load, double times,
                      const std::optional<Limits>& measured);

}  // namespace twinblock
