// Residents: values that stay on the device from run to run, laid out once and shared by every plan of a session.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/core/graph.h"

namespace graft {

/// What device memory is for: the classes that every byte is counted under, planned and measured.
enum class MemoryClass : std::uint8_t {
  weights,      ///< frozen weights and folded constants
  parameters,   ///< trained, and statistics that belong to the model
  gradients,    ///< results of the backward pass that an optimizer or the caller reads; accumulators
  optimizer,    ///< state of optimizers and all other state
  activations,  ///< inputs, results of nodes, and gaps between them
  workspace,    ///< scratch memory of a node
  staging,      ///< host-visible copies of inputs and outputs
  step_state,   ///< the block of numbers that change from step to step
};
inline constexpr std::size_t kMemoryClasses = 8;
std::string_view memory_class_name(MemoryClass c);  ///< "weights"

/// Bytes of each class.
struct MemoryByClass {
  std::array<std::uint64_t, kMemoryClasses> bytes = {};
  std::uint64_t& operator[](MemoryClass c) { return bytes[static_cast<std::size_t>(c)]; }
  std::uint64_t operator[](MemoryClass c) const { return bytes[static_cast<std::size_t>(c)]; }
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t b : bytes) sum += b;
    return sum;
  }
  friend bool operator==(const MemoryByClass&, const MemoryByClass&) = default;
};

struct Resident {
  std::string name;
  MemoryClass memory_class{};
  ValueKind kind{};
  DType dtype = DType::f32;
  DType stored = DType::f32;  ///< on the device: an f32 value may be kept as f16 or bf16
  Shape shape;
  std::uint64_t offset = 0;        ///< in Space::resident; nothing where it is streamed
  std::uint64_t bytes = 0;         ///< elements times their size: what the host reads and writes
  std::uint64_t device_bytes = 0;  ///< as stored, in whole words
  bool streamed = false;           ///< it stays with the host: see Streaming

  bool low_precision() const { return stored != dtype; }
};

/// Which values are brought to the device anew for each of their uses, through a ring of memory that they share,
/// instead of staying there.
struct Streaming {
  std::set<std::string, std::less<>> names;  ///< of constants and parameters that no graph changes
  std::uint64_t window = 0;  ///< bytes of them that one stretch of a run works with; at least what one dispatch reads
  std::uint64_t range = 0;   ///< bytes of a table that one dispatch of a gather binds; 0: as many as the device can
  bool ahead = true;         ///< while the device works on a stretch, the host brings what the next one needs
};

struct ResidentOptions {
  /// Largest staging that moves residents to and from the device, piece by piece. A multiple of 4.
  std::uint64_t transfer_bytes = std::uint64_t{4} << 20;
  Streaming streaming = {};
};

/// The layout, keyed by name. Graphs that share a name share the memory; add the training graph first, since the first
/// graph to name a value decides its class.
class Residents {
 public:
  explicit Residents(const gpu::Caps& caps, ResidentOptions options = {});

  /// Adds every constant, parameter and state of a bound graph that is not yet there.
  /// invalid_argument where a value of the same name has another dtype, shape or storage; out_of_memory for a value
  /// larger than one allocation of the device. After an error the layout is as it was.
  Status add(const Graph& graph);

  /// nullptr when there is none of this name. The pointer holds until the next add().
  const Resident* find(std::string_view name) const;
  /// In the order of their offsets; those that are streamed stand where they were added.
  const std::vector<Resident>& entries() const { return entries_; }
  std::uint64_t bytes() const { return bytes_; }                  ///< of the whole space
  const MemoryByClass& memory() const { return memory_; }         ///< the same by class
  std::uint64_t segment_bytes() const { return segment_bytes_; }  ///< see Space
  /// Staging that moves residents to and from the device, piece by piece.
  std::uint64_t transfer_bytes() const { return transfer_bytes_; }
  const Streaming& streaming() const { return options_.streaming; }
  /// The same values with others of them streamed.
  Residents streamed(Streaming streaming) const;
  std::uint64_t alignment() const { return alignment_; }

 private:
  Status place(Resident resident);

  ResidentOptions options_;
  std::vector<Resident> entries_;
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
  std::uint64_t bytes_ = 0;
  std::uint64_t transfer_bytes_ = 0;
  MemoryByClass memory_;
  std::uint64_t segment_bytes_ = 0;
  std::uint64_t alignment_ = 0;
  bool side_by_side_ = false;
};

/// Bytes of one segment of a space on this device: no more than one allocation.
std::uint64_t segment_bytes_of(const gpu::Caps& caps);

/// What the offset of every resident and every block of the arena is a multiple of.
std::uint64_t block_alignment_of(const gpu::Caps& caps);

/// The least offset >= `offset` where `bytes` lie within one segment. Requires bytes <= segment.
std::uint64_t fit_segment(std::uint64_t offset, std::uint64_t bytes, std::uint64_t segment);

}  // namespace graft
