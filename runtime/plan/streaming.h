// Streamed values: which stretches of a run need which bytes of them, and where in the ring these come to lie.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft {

/// A range of a resident that a step reads.
struct StreamUse {
  std::uint32_t step = 0;
  std::uint32_t resident = 0;  ///< index into Residents::entries()
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const StreamUse&, const StreamUse&) = default;
};

/// How a run's uses are served.
struct StreamLayout {
  std::vector<Refill> refills;           ///< of the steps as they were given
  std::vector<std::uint32_t> last;       ///< per refill: the last stretch that reads it
  std::vector<std::uint32_t> stretches;  ///< first steps, ascending; empty where nothing is streamed
  std::uint64_t bytes = 0;
  std::uint64_t staging_bytes = 0;
};

/// Cuts a run into stretches that need no more than the window, and gives every range that one needs a place from the
/// stretch before (where the host works ahead) to the last in a row that needs it. With `staged` the host writes to
/// staging, which a copy moves to the ring as the stretch begins. `uses` go by ascending step.
StreamLayout lay_out_streams(const std::vector<StreamUse>& uses, const Streaming& streaming, bool staged,
                             std::uint64_t alignment, std::uint64_t segment);

/// The stretch of a layout that a step belongs to.
std::uint32_t stretch_of(const StreamLayout& layout, std::uint32_t step);

/// Whether streamed values pass through staging on this device.
inline bool stages_streams(const gpu::Caps& caps) { return !caps.unified_memory; }

}  // namespace graft
