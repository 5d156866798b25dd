// Devices with few storage buffers: bindings that lie near each other in memory share one.
//
// Vulkan guarantees four storage buffers per stage. The memory of a plan is few allocations, so that most of what a
// dispatch binds lies in two or three of them: one buffer around several bindings takes their place, and push constants
// say where in it each begins. share_kernel() (runtime/exec) changes the kernel to match.
#include <algorithm>
#include <optional>

#include "platform/base/stable_sort.h"
#include "runtime/plan/draft.h"

namespace graft {
namespace {

/// Bindings that begin at one address. What they touch is theirs together.
struct Place {
  PlanBinding range;
  bool first_of_buffer = true;
  std::size_t buffer = 0;  ///< in the order of addresses
  std::uint8_t word = Share::kAtStart;
};

struct Sharing {
  std::vector<PlanBinding> buffers;
  std::vector<Share> shares;  ///< per binding
  std::vector<std::uint32_t> words;
};

/// Records of tables and the step state are no arrays of numbers, so they must begin where their buffer does. Where the
/// ring holds a value is known only later.
bool shareable(Space space) { return space != Space::step_state && space != Space::stream; }

bool same_place(const PlanBinding& a, const PlanBinding& b) {
  return a.space == b.space && a.offset == b.offset && (a.space != Space::stream || a.value == b.value);
}

bool before(const PlanBinding& a, const PlanBinding& b) {
  if (a.space != b.space) return a.space < b.space;
  return a.offset != b.offset ? a.offset < b.offset : a.space == Space::stream && a.value < b.value;
}

/// `range` with what `other` touches.
void unite(PlanBinding& range, const PlanBinding& other) {
  if (range.access != other.access) range.access = Access::read_write;
  range.size = std::max(range.offset + range.size, other.offset + other.size) - range.offset;
}

std::vector<Place> places_of(const std::vector<PlanBinding>& bound) {
  std::vector<PlanBinding> sorted = bound;
  graft::stable_sort(sorted.begin(), sorted.end(), before);
  std::vector<Place> places;
  for (const PlanBinding& binding : sorted) {
    if (!places.empty() && same_place(places.back().range, binding)) {
      unite(places.back().range, binding);
    } else {
      places.push_back({binding});
    }
  }
  return places;
}

class Sharer {
 public:
  Sharer(const gpu::Caps& caps, std::uint64_t segment_bytes, const std::vector<PlanBinding>& bound,
         std::size_t push_bytes)
      : bound_(bound),
        places_(places_of(bound)),
        segment_bytes_(segment_bytes),
        range_(caps.max_storage_buffer_range),
        buffers_(caps.max_storage_buffers_per_stage),
        words_(caps.max_push_constants > push_bytes ? (caps.max_push_constants - push_bytes) / 4 : 0) {}

  /// Nothing where the buffers or the push constants do not suffice.
  std::optional<Sharing> run() {
    if (places_.size() <= buffers_) return result();
    gather();
    if (count() > buffers_) return std::nullopt;
    // It is best if the kernel alone decides which bindings have a word: one pipeline each. Otherwise as many buffers
    // as are allowed, and no word for what stands first in its buffer.
    bool always = true;
    if (words(always) > words_) {
      for (std::size_t i = places_.size(); i-- > 0 && count() < buffers_;) places_[i].first_of_buffer = true;
      always = false;
    }
    if (words(always) > words_) return std::nullopt;
    return result(always);
  }

 private:
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(places_.begin(), places_.end(), [](const Place& place) { return place.first_of_buffer; }));
  }

  /// As few buffers as the places can be in.
  void gather() {
    PlanBinding buffer = places_[0].range;
    for (std::size_t i = 1; i < places_.size(); ++i) {
      const PlanBinding& next = places_[i].range;
      PlanBinding both = buffer;
      unite(both, next);
      const bool joins = shareable(next.space) && next.space == buffer.space && both.size <= range_ &&
                         both.offset / segment_bytes_ == (both.offset + both.size - 1) / segment_bytes_ &&
                         (next.offset - both.offset) % Share::kUnit == 0;
      places_[i].first_of_buffer = !joins;
      buffer = joins ? both : next;
    }
  }

  bool alone(std::size_t i) const {
    return places_[i].first_of_buffer && (i + 1 == places_.size() || places_[i + 1].first_of_buffer);
  }
  bool has_word(std::size_t i, bool always) const { return always ? !alone(i) : !places_[i].first_of_buffer; }

  std::size_t words(bool always) const {
    std::size_t words = 0;
    for (std::size_t i = 0; i < places_.size(); ++i) words += has_word(i, always) ? 1 : 0;
    return words;
  }

  /// Buffers and words are numbered in the order of the bindings.
  Sharing result(bool always = false) {
    constexpr std::uint8_t kNone = 0xff;
    std::vector<PlanBinding> ranges;  // of buffers in the order of addresses
    for (Place& place : places_) {
      if (place.first_of_buffer) {
        ranges.push_back(place.range);
      } else {
        unite(ranges.back(), place.range);
        ranges.back().value = ranges.back().scratch_of = kNoIndex;
      }
      place.buffer = ranges.size() - 1;
    }
    Sharing sharing;
    std::vector<std::uint8_t> number(ranges.size(), kNone);
    for (const PlanBinding& binding : bound_) {
      const auto at = std::find_if(places_.begin(), places_.end(),
                                   [&](const Place& place) { return same_place(place.range, binding); });
      if (number[at->buffer] == kNone) {
        number[at->buffer] = static_cast<std::uint8_t>(sharing.buffers.size());
        sharing.buffers.push_back(ranges[at->buffer]);
      }
      if (at->word == Share::kAtStart && has_word(static_cast<std::size_t>(at - places_.begin()), always)) {
        at->word = static_cast<std::uint8_t>(sharing.words.size());
        sharing.words.push_back(
            static_cast<std::uint32_t>((binding.offset - ranges[at->buffer].offset) / Share::kUnit));
      }
      sharing.shares.push_back({number[at->buffer], at->word});
    }
    return sharing;
  }

  const std::vector<PlanBinding>& bound_;
  std::vector<Place> places_;
  std::uint64_t segment_bytes_;
  std::uint64_t range_;
  std::size_t buffers_;
  std::size_t words_;
};

}  // namespace

bool fits_buffers(const gpu::Caps& caps, std::uint64_t segment_bytes, const std::vector<PlanBinding>& bound,
                  std::size_t push_bytes) {
  return bound.size() <= caps.max_storage_buffers_per_stage ||
         Sharer(caps, segment_bytes, bound, push_bytes).run().has_value();
}

Status share_buffers(const Draft& draft, Plan& plan) {
  const gpu::Caps& caps = draft.target.caps;
  for (Step& step : plan.steps) {
    const std::vector<PlanBinding>& bound = bound_by(step);
    if (step.kind != StepKind::dispatch || bound.size() <= caps.max_storage_buffers_per_stage) continue;
    auto sharing = Sharer(caps, plan.segment_bytes, bound, step.push.size()).run();
    PlanKernel kernel = plan.kernels[step.kernel];
    if (!sharing) {
      const PlanNode& node = plan.nodes[step.node];
      return unsupported("Kernel ", shaders::kernel_info(kernel.id).name, " binds ", bound.size(),
                         " buffers, but this device allows ", caps.max_storage_buffers_per_stage,
                         ", and what they hold lies too far apart to share them. A smaller batch may fit.")
          .with_context(cat("While planning node \"", node.name, "\" (", node.op, ")"));
    }
    const auto words = std::as_bytes(std::span(sharing->words));
    step.push.insert(step.push.end(), words.begin(), words.end());
    kernel.bindings = static_cast<std::uint32_t>(sharing->buffers.size());
    kernel.push_bytes = static_cast<std::uint32_t>(step.push.size());
    kernel.shares = std::move(sharing->shares);
    step.windows = std::move(sharing->buffers);
    step.kernel =
        static_cast<std::uint32_t>(std::find(plan.kernels.begin(), plan.kernels.end(), kernel) - plan.kernels.begin());
    if (step.kernel == plan.kernels.size()) plan.kernels.push_back(std::move(kernel));
  }
  return ok_status();
}

}  // namespace graft
