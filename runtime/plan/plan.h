// The plan: everything that one run of a graph does on a device, decided before the first dispatch.
//
// A Plan is plain data: no pointers, no device objects. The same graph, capabilities, residents and options give the
// same plan, to the byte. It may be made on any thread, for a device that is not there.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/core/graph.h"
#include "runtime/ops/emitter.h"
#include "runtime/plan/residents.h"
#include "shaders/common/step_state.h"

namespace graft {

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

/// Where bytes live. resident and transient are split into segments of Plan::segment_bytes: byte `offset` of the space
/// is byte offset % segment_bytes of its segment offset / segment_bytes. No block crosses a segment.
/// stream is the ring that streamed values share, cut into such segments too; stream_staging is the host's side of it
/// on a device whose memory the host does not see.
enum class Space : std::uint8_t { resident, transient, step_state, upload, readback, stream, stream_staging };
inline constexpr std::size_t kSpaces = 7;
std::string_view space_name(Space space);

/// A binding with its memory. For a copy, bindings[0] is read and bindings[1] written.
struct PlanBinding {
  Space space{};
  Access access{};
  std::uint32_t value = kNoIndex;       ///< index into the graph's values; kNoIndex for scratch, step state and staging
  std::uint64_t offset = 0;             ///< bytes from the start of the space
  std::uint64_t size = 0;               ///< bytes
  std::uint32_t scratch_of = kNoIndex;  ///< of scratch: its node's position in Plan::nodes
};

enum class StepKind : std::uint8_t { upload, dispatch, readback, refill };

struct Step {
  StepKind kind = StepKind::dispatch;
  bool barrier_before = false;      ///< all earlier steps must be complete and visible
  std::uint32_t node = kNoIndex;    ///< index into Plan::nodes; kNoIndex for copies
  std::uint32_t kernel = kNoIndex;  ///< index into Plan::kernels
  std::array<std::uint32_t, 3> groups = {0, 0, 0};
  std::vector<PlanBinding> bindings;  ///< what it touches
  /// What is bound where that is more: of a merged dispatch, the memory around its tensors; of one whose bindings share
  /// buffers, what lies between them as well. Else empty.
  std::vector<PlanBinding> windows;
  std::uint32_t merged = 1;  ///< dispatches of the ops that this one stands for
  std::vector<std::byte> push;
  std::uint64_t flops = 0;  ///< the nodes', shared evenly by their dispatches
  std::uint64_t bytes = 0;  ///< bound for reading plus bound for writing
};

/// In which storage buffer a binding of a kernel lies, where the device has too few for each to have its own.
struct Share {
  static constexpr std::uint8_t kAtStart = 0xff;
  static constexpr std::uint64_t kUnit = 16;  ///< bytes; the largest elements of bindings
  std::uint8_t buffer = 0;
  /// Which of the words behind the kernel's own push constants says where in the buffer it begins, in units.
  std::uint8_t word = kAtStart;
  friend auto operator<=>(const Share&, const Share&) = default;
};

struct PlanKernel {
  shaders::KernelId id{};
  std::vector<std::uint32_t> specialization;
  std::uint32_t bindings = 0;  ///< storage buffers
  std::uint32_t push_bytes = 0;
  BindingStorage storage = 0;  ///< bindings that hold 16-bit elements
  std::vector<Share> shares;   ///< of each binding that the kernel declares; empty: each is a buffer of its own
  friend bool operator==(const PlanKernel&, const PlanKernel&) = default;
};

/// A choice among variants of a kernel; see runtime/ops/choice.h.
struct PlanChoice {
  std::string key;
  std::string variant;
  std::string why;
  ChoiceShape shape = {};  ///< of the problem, where the key has powers of two
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

/// A live node, in the order that memory is planned for. Views stand here too, without steps. Dispatches run in the
/// order of Plan::steps, which brings together those that need no barrier between them.
struct PlanNode {
  std::uint32_t node = kNoIndex;  ///< index into the graph's nodes
  std::string name;
  std::string op;
  std::uint32_t parts = 1;               ///< nodes of the network that this one is: more where it was fused
  bool backward = false;                 ///< it serves a forward node (Node::forward_of)
  std::uint32_t forward_of = kNoIndex;   ///< that node, as an index into the graph's nodes
  bool recomputed = false;               ///< it repeats a forward node; `node` is then beyond the graph's nodes
  std::uint32_t steps = 0;               ///< dispatches; 0 where another node's do its work as well
  std::uint32_t merged_into = kNoIndex;  ///< that node, as a position in Plan::nodes
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;
  std::uint64_t scratch_bytes = 0;
  std::uint64_t whole_scratch_bytes = 0;  ///< what it would be with everything at once: see PlanOptions::tile_workspace
  std::uint64_t live_bytes = 0;           ///< transient memory in use while it runs: values and scratch, unaligned
  std::vector<PlanChoice> choices;
};

/// A value that has memory in this plan. Times are positions in Plan::nodes.
struct PlanValue {
  std::uint32_t value = kNoIndex;  ///< index into the graph's values
  std::string name;
  MemoryClass memory_class{};
  Space space{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t first = 0;           ///< first position that needs the memory
  std::uint32_t last = 0;            ///< last position that does; nodes.size() when it is kept to the end
  std::uint32_t root = kNoIndex;     ///< the value of which this is a view; itself where it is none
  bool empty = false;                ///< no elements: its memory is never written
  std::uint32_t storage = kNoIndex;  ///< transient values with the same number share memory: views, in-place results
};

/// Bytes of a streamed value that the host puts into the ring in the course of a run.
struct Refill {
  std::uint32_t value = kNoIndex;     ///< index into the graph's values
  std::uint32_t resident = kNoIndex;  ///< index into Residents::entries()
  std::uint64_t from = 0;             ///< first byte of the value
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;      ///< in Space::stream
  std::uint64_t staging = 0;     ///< in Space::stream_staging, where there is such
  std::uint32_t first_step = 0;  ///< to be done before this step is submitted; a stretch of steps begins there
  std::uint32_t after_step = 0;  ///< not to be done before all steps before this one are complete
};

/// Input or output of a run.
struct PlanPort {
  std::string name;
  std::uint32_t value = kNoIndex;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t bytes = 0;           ///< what the host gives or gets: elements times their size
  std::uint64_t staging_offset = 0;  ///< in Space::upload or Space::readback
  bool used = true;                  ///< an input that no live node reads has no memory
};

/// A value that outlives the forward pass because a backward node reads it.
struct SavedValue {
  std::uint32_t value = kNoIndex;
  std::string name;
  std::uint64_t bytes = 0;
  std::string producer;
  std::vector<std::string> readers;  ///< backward nodes, in order; readers of views of it included
};

/// A forward result that is computed again in the backward pass instead of being saved.
struct RecomputedValue {
  std::uint32_t value = kNoIndex;  ///< of the forward pass
  std::string name;
  std::uint64_t bytes = 0;
  std::string producer;
  std::uint64_t flops = 0;  ///< of running that node again
};

/// Ids of values and nodes are those of the graph that was planned. Where results are computed again, the nodes that
/// do so, and what they make, have ids beyond the graph's.
struct Plan {
  std::vector<PlanNode> nodes;
  std::vector<Step> steps;  ///< uploads, dispatches, readbacks
  std::vector<PlanKernel> kernels;
  std::vector<PlanValue> values;  ///< ordered by the graph's numbering
  std::vector<PlanPort> inputs;   ///< in the graph's order
  std::vector<PlanPort> outputs;
  std::vector<SavedValue> saved;
  std::vector<RecomputedValue> recomputed;
  std::vector<Refill> refills;  ///< by first_step

  std::uint64_t segment_bytes = 0;
  std::uint64_t alignment = 0;
  std::uint64_t resident_bytes = 0;   ///< of the whole Residents layout
  std::uint64_t transient_bytes = 0;  ///< the arena
  /// Staging for step state, inputs and, at the end, residents that are moved; the step state is at offset 0. Where the
  /// host sees the device's memory residents need none, and what there is for them overlaps the inputs.
  std::uint64_t upload_bytes = 0;
  std::uint64_t readback_bytes = 0;        ///< outputs and, at the end, residents
  std::uint64_t stream_bytes = 0;          ///< the ring of streamed values
  std::uint64_t stream_staging_bytes = 0;  ///< 0 where the host writes the ring itself
  bool uses_step_state = false;
  /// Words that stand behind the step state, from table_offset() on: the tensors of merged dispatches.
  std::vector<std::uint32_t> tables;
  std::uint64_t table_offset() const;      ///< bytes from the start of the step state
  std::uint64_t step_state_bytes() const;  ///< with the tables; 0 where neither is used

  /// Device and staging memory of a run. The arena is split as it is at its fullest moment: gradients and workspace by
  /// their live bytes then, activations all the rest.
  MemoryByClass memory;
  MemoryByClass residents_memory;      ///< the residents' share of it
  std::uint64_t lower_bound = 0;       ///< the largest sum of live transient bytes under this order
  std::uint32_t peak_node = kNoIndex;  ///< position in nodes where that is; kNoIndex when nothing is transient
  std::uint64_t flops = 0;
  std::uint64_t recomputed_flops = 0;  ///< how many more than if nothing were computed again
  std::uint32_t barriers = 0;
};

/// What a step holds bound: its windows, or else what it touches.
inline const std::vector<PlanBinding>& bound_by(const Step& step) {
  return step.windows.empty() ? step.bindings : step.windows;
}

struct PlanOptions {
  /// Largest total (Plan::memory) allowed, in bytes; 0: no limit.
  std::uint64_t budget = 0;
  /// Largest arena (Plan::transient_bytes) allowed; 0: what the budget leaves.
  std::uint64_t arena_limit = 0;
  /// Where a limit asks for it, ops with partial sums compute some at a time, in less workspace, and keep the sum so
  /// far. The same bits. Comes before what costs more work.
  bool tile_workspace = true;
  /// Computes forward results again in the backward pass where a limit asks for it: the fewest FLOPs found that do.
  /// The results are the same bits.
  bool recompute = true;
  /// Takes the smallest arena that can be found, whatever it costs, instead of the first that fits.
  bool least_memory = false;
  /// Streams frozen weights where a budget asks for it; not by make_plan(), which takes the residents as they are, but
  /// by those who make the residents for it. The results are the same bits.
  bool stream = true;
  /// Tries other orders of execution and keeps the one that needs the least memory.
  bool reorder = true;
  /// Lets elementwise results overwrite operands that are not used again.
  bool in_place = true;
  /// Does the same step for many tensors (optimizers, accumulation, norms, hashes) in one dispatch, and brings together
  /// what needs no barrier between. The same bits; gradients wait for others as long as that raises no peak.
  bool merge = true;
  /// Plans the graph that passes::fuse() makes of it: not make_plan(), which takes the graph as it is, but those who
  /// call it. The same bits, as far as a driver compiles the same arithmetic to the same instructions.
  bool fuse = true;
};

/// Plans one run of `graph`, whose shapes must be constant.
///
/// A run uploads the inputs, executes every node that an output or a mutation needs, and reads the outputs back.
/// An output that is a parameter or state (or a view of one) gives its bytes after all mutations.
/// `residents` must hold every constant, parameter and state of the graph (Residents::add).
///
/// Errors: invalid_argument (symbols unbound, a mutation that cannot be ordered, a resident that is absent or differs),
/// unsupported (a limit of the device: binding range, workgroup counts, push constants, storage buffers),
/// out_of_memory (a value above the largest allocation, or the budget), internal (an op broke its contract).
Result<Plan> make_plan(const Graph& graph, const gpu::Target& target, const Residents& residents,
                       const PlanOptions& options = {});

/// A trade between memory and work: what one plan of the graph could be.
struct RecomputePoint {
  std::uint64_t peak = 0;  ///< largest sum of live transient bytes; the arena is at least that
  std::uint64_t extra_flops = 0;
  std::uint64_t extra_bytes = 0;  ///< read and written
  std::uint32_t recomputed = 0;   ///< forward results computed again
};

/// The trades that make_plan() would choose from, by falling peak; the first computes nothing again.
Result<std::vector<RecomputePoint>> recompute_curve(const Graph& graph, const gpu::Target& target,
                                                    const Residents& residents, const PlanOptions& options = {});
/// The same under one order only: of others, which take most of its time, peaks may be lower.
Result<std::vector<RecomputePoint>> recompute_estimate(const Graph& graph, const gpu::Target& target,
                                                       const Residents& residents, const PlanOptions& options);

}  // namespace graft
