#include "runtime/plan/streaming.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/core/features.h"
#include "runtime/plan/arena.h"
#include "runtime/plan/draft.h"

namespace graft {
namespace {

/// A range of a resident, wherever it is read.
struct Unit {
  std::uint32_t resident = 0;
  std::uint64_t from = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> stretches;  ///< that read it, ascending
};

class Cutter {
 public:
  Cutter(std::uint64_t window, std::uint64_t alignment) : window_(window), alignment_(alignment) {}

  void run(const std::vector<StreamUse>& uses) {
    for (std::size_t i = 0; i < uses.size();) {
      const std::uint32_t step = uses[i].step;
      wanted_.clear();
      for (; i < uses.size() && uses[i].step == step; ++i) wanted_.push_back(unit_of(uses[i]));
      graft::stable_sort(wanted_);
      wanted_.erase(std::unique(wanted_.begin(), wanted_.end()), wanted_.end());
      serve(step);
    }
  }

  std::vector<Unit>& units() { return units_; }
  std::vector<std::uint32_t>& stretches() { return stretches_; }

 private:
  std::size_t unit_of(const StreamUse& use) {
    const auto [at, fresh] = ids_.try_emplace({use.resident, use.from, use.bytes}, units_.size());
    if (fresh) units_.push_back({use.resident, use.from, use.bytes, {}});
    return at->second;
  }

  bool here(std::size_t unit) const {
    return !units_[unit].stretches.empty() && units_[unit].stretches.back() + 1 == stretches_.size();
  }

  std::uint64_t missing() const {
    std::uint64_t bytes = 0;
    for (const std::size_t unit : wanted_) bytes += here(unit) ? 0 : align_up(units_[unit].bytes, alignment_);
    return bytes;
  }

  void serve(std::uint32_t step) {
    const bool full = !stretches_.empty() && filled_ != 0 && filled_ + missing() > window_;
    if (stretches_.empty() || full) {
      stretches_.push_back(stretches_.empty() ? 0 : step);
      filled_ = 0;
    }
    filled_ += missing();
    for (const std::size_t unit : wanted_) {
      if (!here(unit)) units_[unit].stretches.push_back(static_cast<std::uint32_t>(stretches_.size()) - 1);
    }
  }

  std::uint64_t window_;
  std::uint64_t alignment_;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::size_t> ids_;
  std::vector<Unit> units_;
  std::vector<std::uint32_t> stretches_;
  std::vector<std::size_t> wanted_;
  std::uint64_t filled_ = 0;
};

/// Thorough where that costs little; many ranges of like sizes fit well at the first try.
ArenaLayout place(const std::vector<Block>& blocks, std::uint64_t alignment, std::uint64_t segment) {
  constexpr std::size_t kFew = 64;
  return assign_offsets(blocks, alignment, segment, blocks.size() <= kFew ? 0 : std::uint64_t{1} << 62);
}

/// Refills in the order of their stretches.
void add_units(const std::vector<Unit>& units, const Streaming& streaming, bool staged, StreamLayout& layout) {
  // A place that is written ahead is taken from the stretch before on, so to keep it through one stretch without a
  // reader costs nothing.
  const std::uint32_t reach = streaming.ahead && !staged ? 2 : 1;
  std::vector<std::pair<std::uint32_t, Refill>> refills;
  std::vector<std::uint32_t> last;
  for (const Unit& unit : units) {
    for (std::size_t i = 0; i < unit.stretches.size();) {
      std::size_t end = i + 1;
      while (end < unit.stretches.size() && unit.stretches[end] <= unit.stretches[end - 1] + reach) ++end;
      Refill refill;
      refill.resident = unit.resident;
      refill.from = unit.from;
      refill.bytes = unit.bytes;
      refill.first_step = unit.stretches[i];  // the stretch, for now
      refills.emplace_back(unit.stretches[end - 1], refill);
      i = end;
    }
  }
  graft::stable_sort(refills.begin(), refills.end(),
                     [](const auto& a, const auto& b) { return a.second.first_step < b.second.first_step; });
  for (const auto& [end, refill] : refills) {
    layout.refills.push_back(refill);
    layout.last.push_back(end);
  }
}

}  // namespace

StreamLayout lay_out_streams(const std::vector<StreamUse>& uses, const Streaming& streaming, bool staged,
                             std::uint64_t alignment, std::uint64_t segment) {
  StreamLayout layout;
  if (uses.empty()) return layout;
  Cutter cutter(streaming.window, alignment);
  cutter.run(uses);
  layout.stretches = std::move(cutter.stretches());
  add_units(cutter.units(), streaming, staged, layout);
  // Times are stretches, one later: the first may be prepared for before it begins.
  const std::uint32_t lead = streaming.ahead ? 1 : 0;
  std::vector<Block> ring;
  std::vector<Block> staging;
  for (std::size_t i = 0; i < layout.refills.size(); ++i) {
    const Refill& refill = layout.refills[i];
    const std::uint32_t begins = refill.first_step + 1;
    ring.push_back({refill.bytes, staged ? begins : begins - lead, layout.last[i] + 1});
    staging.push_back({refill.bytes, begins - lead, begins});
  }
  const ArenaLayout in_ring = place(ring, alignment, segment);
  layout.bytes = in_ring.bytes;
  const ArenaLayout in_staging = staged ? place(staging, alignment, segment) : ArenaLayout{};
  layout.staging_bytes = in_staging.bytes;
  for (std::size_t i = 0; i < layout.refills.size(); ++i) {
    Refill& refill = layout.refills[i];
    const std::uint32_t stretch = refill.first_step;
    refill.offset = in_ring.offsets[i];
    if (staged) refill.staging = in_staging.offsets[i];
    refill.first_step = layout.stretches[stretch];
    refill.after_step = stretch >= lead ? layout.stretches[stretch - lead] : 0;
  }
  return layout;
}

std::uint32_t stretch_of(const StreamLayout& layout, std::uint32_t step) {
  const auto next = std::upper_bound(layout.stretches.begin(), layout.stretches.end(), step);
  return static_cast<std::uint32_t>(next - layout.stretches.begin()) - 1;
}

namespace {

/// The refills' copies from staging, before the steps of their stretches; all numbers of steps follow.
void insert_copies(StreamLayout& layout, Plan& plan) {
  std::vector<Step> steps;
  std::size_t next = 0;
  const auto old_steps = static_cast<std::uint32_t>(plan.steps.size());
  std::vector<std::uint32_t> begins;  // per stretch
  for (std::uint32_t s = 0; s < old_steps; ++s) {
    if (begins.size() < layout.stretches.size() && layout.stretches[begins.size()] == s) {
      begins.push_back(static_cast<std::uint32_t>(steps.size()));
    }
    for (; next < layout.refills.size() && layout.refills[next].first_step == s; ++next) {
      const Refill& refill = layout.refills[next];
      Step copy;
      copy.kind = StepKind::refill;
      copy.bindings = {{Space::stream_staging, Access::read, refill.value, refill.staging, refill.bytes},
                       {Space::stream, Access::write, refill.value, refill.offset, refill.bytes}};
      copy.bytes = 2 * refill.bytes;
      steps.push_back(std::move(copy));
    }
    steps.push_back(std::move(plan.steps[s]));
  }
  plan.steps = std::move(steps);
  const auto begin_of = [&](std::uint32_t step) { return step == 0 ? 0 : begins[stretch_of(layout, step)]; };
  for (Refill& refill : layout.refills) {
    refill.after_step = begin_of(refill.after_step);
    refill.first_step = begin_of(refill.first_step);
  }
}

}  // namespace

Status add_refills(const Draft& d, Plan& plan) {
  if constexpr (!kHasBudgets) return ok_status();  // nothing is streamed
  struct Reader {
    PlanBinding* binding;
    StreamUse use;
  };
  std::vector<Reader> readers;
  std::vector<StreamUse> uses;
  std::vector<std::uint32_t> value_of(d.residents.entries().size(), kNoIndex);
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s) {
    for (PlanBinding& b : plan.steps[s].bindings) {
      if (b.space != Space::stream) continue;
      const std::uint32_t root = d.roots[b.value];
      const Resident* const resident = d.residents.find(d.graph.values()[root].name);
      if (b.access != Access::read) {
        return invalid("The value \"", resident->name, "\" is streamed, but the graph changes it.");
      }
      const auto index = static_cast<std::uint32_t>(resident - d.residents.entries().data());
      value_of[index] = root;
      uses.push_back({s, index, b.offset, b.size});
      readers.push_back({&b, uses.back()});
    }
  }
  if (uses.empty()) return ok_status();
  const bool staged = stages_streams(d.target.caps);
  StreamLayout layout =
      lay_out_streams(uses, d.residents.streaming(), staged, d.residents.alignment(), d.residents.segment_bytes());
  for (Refill& refill : layout.refills) refill.value = value_of[refill.resident];
  for (const Reader& reader : readers) {
    const std::uint32_t stretch = stretch_of(layout, reader.use.step);
    const auto serves = [&](const Refill& refill) {
      const std::uint32_t last = layout.last[static_cast<std::size_t>(&refill - layout.refills.data())];
      return refill.resident == reader.use.resident && refill.from == reader.use.from &&
             refill.bytes == reader.use.bytes && stretch_of(layout, refill.first_step) <= stretch && stretch <= last;
    };
    const auto refill = std::find_if(layout.refills.begin(), layout.refills.end(), serves);
    if (refill == layout.refills.end()) return internal_error("A streamed value has no place in the ring.");
    reader.binding->offset = refill->offset;
  }
  if (staged) insert_copies(layout, plan);
  plan.stream_bytes = layout.bytes;
  plan.stream_staging_bytes = layout.staging_bytes;
  plan.refills = std::move(layout.refills);
  return ok_status();
}

}  // namespace graft
