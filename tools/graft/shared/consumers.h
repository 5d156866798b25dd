// What took most of a run's time and memory, side by side.
#pragma once

#include <vector>

#include "tools/graft/shared/public_api.h"

namespace graft::cli {

/// What graft_profile_describe() and its neighbours tell. Texts are the profile's.
struct ProfileReport {
  graft_profile_info info = {};
  std::vector<graft_profile_row> nodes;  ///< by falling time
  std::vector<graft_profile_row> ops;    ///< the same, by op
  std::vector<graft_profile_phase> phases;
};

Result<ProfileReport> report_of(graft_context* context, graft_profile* profile);
void print_consumers(const ProfileReport& all);

}  // namespace graft::cli
