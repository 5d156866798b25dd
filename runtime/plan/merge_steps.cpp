#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/ops/choice.h"
#include "runtime/plan/draft.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

constexpr std::uint64_t kMostWindow = std::uint64_t{128} << 20;  // bytes of a binding
constexpr std::size_t kBases = 7;                                // of a record: see shaders/common/push.h
constexpr std::size_t kTablePush = 2 * sizeof(std::uint32_t);    // bytes: TablePush of table.glsl
constexpr std::uint64_t kVector = 16;  // bytes: tables count words, and kernels read vectors of four

/// Of every byte, the last turn in which it was written and in which it was read. Ranges are split as need be.
class Turns {
 public:
  /// The first turn in which all that a step touches may be touched.
  std::uint32_t first(const Step& step) const {
    std::uint32_t turn = 0;
    for (const PlanBinding& b : step.bindings) {
      const auto& ranges = ranges_[static_cast<std::size_t>(b.space)];
      auto it = ranges.upper_bound(b.offset);
      if (it != ranges.begin()) --it;
      for (; it != ranges.end() && it->first < b.offset + b.size; ++it) {
        if (it->second.end <= b.offset) continue;
        turn = std::max(turn, it->second.written);
        if (b.access != Access::read) turn = std::max(turn, it->second.read);
      }
    }
    return turn;
  }

  void touch(const Step& step, std::uint32_t turn) {
    for (const PlanBinding& b : step.bindings) touch(b, turn);
  }

 private:
  struct Range {
    std::uint64_t end = 0;
    std::uint32_t written = 0;  ///< the turn after
    std::uint32_t read = 0;
  };
  using Ranges = std::map<std::uint64_t, Range>;

  static void split(Ranges& ranges, std::uint64_t at) {
    auto it = ranges.lower_bound(at);
    if (it == ranges.begin()) return;
    --it;
    if (it->second.end <= at) return;
    const Range rest = it->second;
    it->second.end = at;
    ranges.emplace(at, rest);
  }

  void touch(const PlanBinding& b, std::uint32_t turn) {
    Ranges& ranges = ranges_[static_cast<std::size_t>(b.space)];
    const std::uint64_t end = b.offset + b.size;
    split(ranges, b.offset);
    split(ranges, end);
    std::uint64_t at = b.offset;
    for (auto it = ranges.lower_bound(b.offset); at < end; ++it) {
      if (it == ranges.end() || it->first > at) {  // a gap
        it = ranges.emplace(at, Range{it == ranges.end() ? end : std::min(end, it->first), 0, 0}).first;
      }
      Range& range = it->second;
      if (b.access != Access::read) range.written = std::max(range.written, turn + 1);
      if (b.access != Access::write) range.read = std::max(range.read, turn + 1);
      at = range.end;
    }
  }

  Ranges ranges_[kSpaces];
};

/// Dispatches of one kernel in one turn that become one.
struct Group {
  TableKernel kernel;
  std::uint32_t turn = 0;
  std::vector<std::uint32_t> members;
  std::vector<PlanBinding> windows;
};

class Merger {
 public:
  Merger(const gpu::Target& target, Plan& plan)
      : plan_(plan),
        range_(std::min<std::uint64_t>(target.caps.max_storage_buffer_range, kMostWindow)),
        target_(target) {}

  void run() {
    choose_turns();
    std::vector<std::uint32_t> order(plan_.steps.size());
    for (std::uint32_t s = 0; s < order.size(); ++s) order[s] = s;
    graft::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return turns_[a] < turns_[b]; });
    std::vector<std::uint32_t> first(plan_.steps.size(), kNoIndex);  // per step: the group that begins with it
    std::vector<char> gone(plan_.steps.size(), 0);
    for (std::uint32_t g = 0; g < groups_.size(); ++g) {
      auto& members = groups_[g].members;
      if (members.size() < 2) continue;
      graft::stable_sort(members);
      first[members[0]] = g;
      for (const std::uint32_t s : members) gone[s] = 1;
    }
    std::vector<Step> steps;
    for (const std::uint32_t s : order) {
      if (first[s] != kNoIndex) steps.push_back(merged(groups_[first[s]]));
      if (gone[s] == 0) steps.push_back(std::move(plan_.steps[s]));
    }
    plan_.steps = std::move(steps);
  }

 private:
  /// Every step as early as it can be. What can be merged is free to wait, and joins others of its kind.
  void choose_turns() {
    const auto n = static_cast<std::uint32_t>(plan_.steps.size());
    turns_.resize(n);
    Turns forwards;
    std::uint32_t last = 0;
    for (std::uint32_t s = 0; s < n; ++s) {
      turns_[s] = forwards.first(plan_.steps[s]);
      forwards.touch(plan_.steps[s], turns_[s]);
      last = std::max(last, turns_[s]);
    }
    Turns backwards;  // turns counted from the last one
    for (std::uint32_t s = n; s-- > 0;) {
      const std::uint32_t latest = last - backwards.first(plan_.steps[s]);
      if (const auto kernel = mergeable(plan_.steps[s])) turns_[s] = join(s, *kernel, latest);
      backwards.touch(plan_.steps[s], last - turns_[s]);
    }
  }

  std::optional<TableKernel> mergeable(const Step& step) const {
    const PlanKernel& kernel = plan_.kernels[step.kernel];
    const auto table = table_kernel(kernel.id);
    const bool plain =
        kernel.storage == 0 && kernel.specialization.empty() && step.groups[1] == 1 && step.groups[2] == 1;
    // Tables count words: elements of 16 bits are none.
    if (!table || !plain || kernel.storage != 0 || kernel.bindings > kBases) return std::nullopt;
    return is_avoided(target_, table->id) ? std::nullopt : table;
  }

  /// The turn of step s, which may run from its own turn on to `latest`.
  std::uint32_t join(std::uint32_t s, const TableKernel& kernel, std::uint32_t latest) {
    for (Group& group : groups_) {
      if (group.kernel.id != kernel.id || group.turn < turns_[s] || group.turn > latest) continue;
      if (!widen(group, plan_.steps[s])) continue;
      group.members.push_back(s);
      return group.turn;
    }
    groups_.push_back({kernel, latest, {s}, plan_.steps[s].bindings});
    return latest;
  }

  /// False, and no change, where the step's bindings do not fit the group's windows.
  bool widen(Group& group, const Step& step) const {
    std::vector<PlanBinding> windows = group.windows;
    for (std::size_t k = 0; k < windows.size(); ++k) {
      PlanBinding& w = windows[k];
      const PlanBinding& b = step.bindings[k];
      if (w.space != b.space) return false;
      // A window that is written must not lie over what others use: in the arena only the same node's scratch may.
      if (b.access != Access::read && b.space == Space::transient &&
          (b.scratch_of == kNoIndex || b.scratch_of != w.scratch_of)) {
        return false;
      }
      if ((group.kernel.moving >> k & 1) == 0) {
        if (w.offset != b.offset || w.size != b.size) return false;
        continue;
      }
      const std::uint64_t end = std::max(w.offset + w.size, b.offset + b.size);
      w.offset = std::min(w.offset, b.offset);
      w.size = end - w.offset;
      if (w.size > range_ || w.offset / plan_.segment_bytes != (end - 1) / plan_.segment_bytes) return false;
      if (w.offset % kVector != 0 || b.offset % kVector != 0) return false;
    }
    std::vector<PlanBinding> bound = windows;
    bound.push_back({Space::step_state, Access::read, kNoIndex, plan_.table_offset(), sizeof(std::uint32_t)});
    if (!fits_buffers(target_.caps, plan_.segment_bytes, bound, kTablePush)) return false;
    group.windows = std::move(windows);
    return true;
  }

  Step merged(const Group& group) {
    const Step& like = plan_.steps[group.members[0]];
    const std::size_t push_words = like.push.size() / 4;
    const std::size_t record_words = 1 + kBases + push_words;
    std::vector<std::uint32_t> table(group.members.size() * record_words, 0);
    std::vector<std::uint32_t> map;  // record of each workgroup
    Step out;
    out.node = like.node;
    out.merged = 0;
    out.windows = group.windows;
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const Step& step = plan_.steps[group.members[i]];
      std::uint32_t* record = &table[i * record_words];
      record[0] = static_cast<std::uint32_t>(map.size());
      for (std::size_t k = 0; k < step.bindings.size(); ++k) {
        record[1 + k] = static_cast<std::uint32_t>((step.bindings[k].offset - group.windows[k].offset) / 4);
      }
      std::memcpy(record + 1 + kBases, step.push.data(), step.push.size());
      map.insert(map.end(), step.groups[0], static_cast<std::uint32_t>(i));
      out.bindings.insert(out.bindings.end(), step.bindings.begin(), step.bindings.end());
      out.flops += step.flops;
      out.bytes += step.bytes;
      out.merged += step.merged;
      if (step.node != out.node) plan_.nodes[step.node].merged_into = out.node;
    }
    for (std::size_t k = 0; k < out.windows.size(); ++k) {
      if ((group.kernel.moving >> k & 1) != 0) out.windows[k].value = kNoIndex;
    }
    add_table(out, std::move(table), map, group.kernel.id);
    return out;
  }

  void add_table(Step& step, std::vector<std::uint32_t> table, const std::vector<std::uint32_t>& map,
                 shaders::KernelId id) {
    const std::uint32_t push[2] = {static_cast<std::uint32_t>(map.size()), static_cast<std::uint32_t>(table.size())};
    table.insert(table.end(), map.begin(), map.end());
    plan_.tables.resize(align_up(4 * plan_.tables.size(), plan_.alignment) / 4, 0);
    const PlanBinding binding{Space::step_state, Access::read, kNoIndex, plan_.table_offset() + 4 * plan_.tables.size(),
                              4 * table.size()};
    plan_.tables.insert(plan_.tables.end(), table.begin(), table.end());
    step.bindings.push_back(binding);
    step.windows.push_back(binding);
    step.push.resize(sizeof(push));
    std::memcpy(step.push.data(), push, sizeof(push));
    step.groups = spread_workgroups(target_.caps, map.size());
    const PlanKernel kernel{id, {}, static_cast<std::uint32_t>(step.windows.size()), sizeof(push)};
    step.kernel = static_cast<std::uint32_t>(std::find(plan_.kernels.begin(), plan_.kernels.end(), kernel) -
                                             plan_.kernels.begin());
    if (step.kernel == plan_.kernels.size()) plan_.kernels.push_back(kernel);
  }

  Plan& plan_;
  std::uint64_t range_;
  const gpu::Target& target_;
  std::vector<std::uint32_t> turns_;  // per step
  std::vector<Group> groups_;
};

}  // namespace

std::optional<TableKernel> table_kernel(shaders::KernelId kernel) {
  using shaders::KernelId;
  switch (kernel) {
    case KernelId::adam_step__f32: return TableKernel{KernelId::adam_step__f32_table, 0b1111};
    case KernelId::sgd_step__f32: return TableKernel{KernelId::sgd_step__f32_table, 0b111};
    case KernelId::lion_step__f32: return TableKernel{KernelId::lion_step__f32_table, 0b111};
    case KernelId::rmsprop_step__f32: return TableKernel{KernelId::rmsprop_step__f32_table, 0b11111};
    case KernelId::adagrad_step__f32: return TableKernel{KernelId::adagrad_step__f32_table, 0b111};
    case KernelId::moment_update__f32: return TableKernel{KernelId::moment_update__f32_table, 0b11};
    case KernelId::accumulate__f32: return TableKernel{KernelId::accumulate__f32_table, 0b11};
    case KernelId::fill_words__w32: return TableKernel{KernelId::fill_words__w32_table, 0b1};
    case KernelId::squared_norm__f32: return TableKernel{KernelId::squared_norm__f32_table, 0b11};
    case KernelId::squared_norm__f32_overflow: return TableKernel{KernelId::squared_norm__f32_overflow_table, 0b11};
    case KernelId::state_hash__f32: return TableKernel{KernelId::state_hash__f32_table, 0b11};
    default: return std::nullopt;
  }
}

void merge_steps(const gpu::Target& target, Plan& plan) { Merger(target, plan).run(); }

std::uint64_t Plan::table_offset() const { return align_up(sizeof(StepState), std::max<std::uint64_t>(alignment, 4)); }

std::uint64_t Plan::step_state_bytes() const {
  if (!tables.empty()) return table_offset() + 4 * tables.size();
  return uses_step_state ? sizeof(StepState) : 0;
}

}  // namespace graft
