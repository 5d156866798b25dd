// Which residents to stream so that those that stay, and the ring, keep to a limit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/streaming.h"

namespace graft {

class StreamChoice {
 public:
  /// `plans` are all that will run over these residents, none of which is streamed yet. Only what no plan writes can
  /// be streamed: constants, and with `parameters` those too.
  StreamChoice(const Residents& residents, const gpu::Caps& caps, std::span<const Plan* const> plans, bool parameters);

  /// The residents that stay and the ring of the others, of which there are as few as can be, in at most `bytes`: small
  /// ones go first, since the ring grows with the largest. nullopt where that cannot be.
  std::optional<Streaming> within(std::uint64_t bytes) const;
  /// The least that there is.
  Streaming least() const;
  /// Whether there is anything to stream.
  bool any() const { return !candidates_.empty(); }
  /// Of residents that stay, ring and staging of the ring.
  std::uint64_t bytes(const Streaming& streaming) const;
  /// What each run of the first plan brings to the device.
  std::uint64_t brought(const Streaming& streaming) const;

 private:
  struct Candidate {
    std::uint32_t resident = 0;
    std::uint64_t unit = 0;  ///< bytes of the largest range that a step reads
  };

  void find_uses(const Plan& plan);
  std::uint32_t resident_at(std::uint64_t offset) const;
  StreamLayout layout(const std::vector<StreamUse>& uses, const Streaming& streaming) const;
  Streaming first(std::size_t count, bool ahead) const;
  /// `streaming` with the widest window that stays within `bytes`: fewer stretches.
  Streaming widened(Streaming streaming, std::uint64_t bytes) const;

  const Residents& residents_;
  bool staged_;
  std::vector<std::vector<StreamUse>> uses_;  ///< per plan
  std::vector<char> written_;                 ///< per resident
  std::vector<Candidate> candidates_;         ///< in the order in which they are streamed
};

/// Residents of graphs that share them, all of whose constants and parameters may be streamed where no graph changes
/// them. Of what keeps to the budget of `options` it takes, in this order: all as it comes; less staging; streaming of
/// as few as will do. Where nothing does, the least there is: make_plan() then says so.
Result<Residents> residents_within(const gpu::Target& target, std::span<const Graph* const> graphs,
                                   const PlanOptions& options);

/// Device and staging memory of plans that share residents, arena and staging.
std::uint64_t bytes_together(const Residents& residents, std::span<const Plan* const> plans);

/// Staging of residents where memory is short.
inline constexpr std::uint64_t kLeastTransferBytes = std::uint64_t{64} << 10;
/// Streaming::range for plans that a StreamChoice is to look at.
inline constexpr std::uint64_t kStreamRange = std::uint64_t{8} << 20;

/// FLOPs that a byte brought to the device is worth. Where the host copies within one memory: as many as the device
/// does meanwhile, at the rate of large models' steps on CPUs. A bus takes longer, and devices that have one do more.
inline std::uint64_t work_of_streamed_byte(const gpu::Caps& caps) { return caps.unified_memory ? 16 : 256; }

/// A sentence: how many are streamed, through how large a ring, and what each run of the first plan brings. Empty where
/// nothing is streamed.
std::string streaming_text(const Residents& residents, std::span<const Plan* const> plans);

}  // namespace graft
