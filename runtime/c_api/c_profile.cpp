// graft/profile.h
#include "graft/profile.h"

#include "runtime/c_api/c_handles.h"

using namespace graft;
using namespace graft::c_api;

namespace {

graft_status give_row(const graft_profile* profile, const std::vector<Consumer> Consumers::*rows, std::size_t index,
                      graft_profile_row* row) {
  if (profile == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(profile->context, [&]() -> Status {
    const std::vector<Consumer>& all = profile->told.*rows;
    if (index >= all.size()) {
      return error(Code::not_found, "The profile has ", all.size(), " rows; number ", index, " is not one.");
    }
    const Consumer& from = all[index];
    graft_profile_row out{};
    out.name = from.name.c_str();
    out.op = from.op.c_str();
    out.nodes = from.nodes;
    out.calls = from.calls;
    out.ms = 1e3 * from.seconds;
    out.flops = from.flops;
    out.bytes = from.bytes;
    out.peak_bytes = from.peak_bytes;
    return write_info(out, row, "graft_profile_row");
  });
}

}  // namespace

graft_status graft_profile_create(graft_context* context, uint32_t steps, graft_profile** profile) {
  return guarded(context, [&]() -> Status {
    if (profile == nullptr) return invalid("graft_profile_create needs a place for the profile.");
    *profile = new graft_profile(context, steps == 0 ? 1 : steps);
    return ok_status();
  });
}

void graft_profile_destroy(graft_profile* profile) {
  if (profile != nullptr) destroy<graft_context>(profile->context, profile);
}

graft_status graft_profile_describe(graft_profile* profile, graft_profile_info* info) {
  if (profile == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(profile->context, [&]() -> Status {
    GRAFT_TRY(check_info(info, "graft_profile_info"));
    profile->told = consumers_of(profile->profile);
    const Consumers& from = profile->told;
    graft_profile_info out{};
    out.steps = from.steps;
    out.step_ms = 1e3 * from.step_seconds;
    out.device_ms = 1e3 * from.device_seconds;
    out.dispatches = from.dispatches;
    out.barriers = from.barriers;
    out.submissions = from.submissions;
    out.peak_node = from.peak_node.c_str();
    out.peak_bytes = from.arena_at_peak;
    out.resident_bytes = from.resident_bytes;
    return write_info(out, info, "graft_profile_info");
  });
}

graft_status graft_profile_phase_at(const graft_profile* profile, size_t index, graft_profile_phase* phase) {
  if (profile == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(profile->context, [&]() -> Status {
    if (index >= std::size(kHostPhaseNames)) return error(Code::not_found, "There is no phase number ", index, ".");
    graft_profile_phase out{};
    out.name = kHostPhaseNames[index].data();
    out.ms = 1e3 * profile->told.host_seconds[index];
    out.total_ms = 1e3 * profile->told.total_host_seconds[index];
    return write_info(out, phase, "graft_profile_phase");
  });
}

graft_status graft_profile_node(const graft_profile* profile, size_t index, graft_profile_row* row) {
  return give_row(profile, &Consumers::nodes, index, row);
}

graft_status graft_profile_op(const graft_profile* profile, size_t index, graft_profile_row* row) {
  return give_row(profile, &Consumers::ops, index, row);
}

graft_status graft_profile_save_trace(graft_profile* profile, const char* path) {
  if (profile == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(profile->context, [&]() -> Status {
    if (path == nullptr) return invalid("graft_profile_save_trace needs a path.");
    return write_trace(*profile->context->files, path, profile->profile, consumers_of(profile->profile));
  });
}
