#include "runtime/plan/hazards.h"

#include <algorithm>
#include <map>
#include <set>

#include "platform/base/checked.h"

namespace graft {
namespace {

bool overlap(std::uint64_t a, std::uint64_t a_size, std::uint64_t b, std::uint64_t b_size) {
  return a < b + b_size && b < a + a_size;
}

std::string step_name(const Plan& plan, std::size_t s) {
  const Step& step = plan.steps[s];
  static constexpr std::string_view kKinds[] = {"upload", "dispatch", "readback", "refill"};
  std::string text = cat("step ", s, " (", kKinds[static_cast<std::size_t>(step.kind)]);
  if (step.node != kNoIndex) text += cat(" of \"", plan.nodes[step.node].name, "\"");
  return text + ")";
}

/// One access by one step, with the number of barriers that came before.
struct Touch {
  std::size_t step;
  std::uint32_t epoch;
  const PlanBinding* binding;
};

Status check_pair(const Plan& plan, const Touch& a, const Touch& b) {
  const bool write = a.binding->access != Access::read || b.binding->access != Access::read;
  if (a.step == b.step || a.epoch != b.epoch || !write) return ok_status();
  if (!overlap(a.binding->offset, a.binding->size, b.binding->offset, b.binding->size)) return ok_status();
  return internal_error("No barrier stands between ", step_name(plan, a.step), " and ", step_name(plan, b.step),
                        ", which both touch ", space_name(a.binding->space), " memory at byte ",
                        std::max(a.binding->offset, b.binding->offset), ".");
}

/// What was written last, as ranges that do not overlap: start -> (end, identity).
class LastWritten {
 public:
  void write(std::uint64_t begin, std::uint64_t end, std::uint64_t identity) {
    split(begin);
    split(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
    ranges_[begin] = {end, identity};
  }

  /// True when every byte of the range was last written under this identity.
  bool holds(std::uint64_t begin, std::uint64_t end, std::uint64_t identity) const {
    auto it = ranges_.upper_bound(begin);
    if (it == ranges_.begin()) return false;
    --it;
    std::uint64_t at = begin;
    for (; it != ranges_.end() && at < end; ++it) {
      if (it->first > at || it->second.end <= at || it->second.identity != identity) return false;
      at = it->second.end;
    }
    return at >= end;
  }

 private:
  struct Range {
    std::uint64_t end;
    std::uint64_t identity;
  };
  void split(std::uint64_t at) {
    auto it = ranges_.lower_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->second.end <= at) return;
    ranges_[at] = it->second;
    it->second.end = at;
  }
  std::map<std::uint64_t, Range> ranges_;
};

Status check_place(const Plan& plan, std::size_t s, const PlanBinding& b) {
  const std::uint64_t totals[kSpaces] = {plan.resident_bytes,      plan.transient_bytes, plan.step_state_bytes(),
                                         plan.upload_bytes,        plan.readback_bytes,  plan.stream_bytes,
                                         plan.stream_staging_bytes};
  const std::uint64_t total = totals[static_cast<std::size_t>(b.space)];
  if (b.size == 0 || !in_bounds(b.offset, b.size, total)) {
    return internal_error("In ", step_name(plan, s), " bytes ", b.offset, " + ", b.size, " lie outside the ",
                          space_name(b.space), " memory of ", total, " bytes.");
  }
  const bool segmented = b.space == Space::resident || b.space == Space::transient || b.space == Space::stream;
  if (segmented && b.offset / plan.segment_bytes != (b.offset + b.size - 1) / plan.segment_bytes) {
    return internal_error("In ", step_name(plan, s), " bytes ", b.offset, " + ", b.size, " cross a segment of ",
                          plan.segment_bytes, " bytes.");
  }
  if (segmented && b.offset % plan.alignment != 0) {
    return internal_error("In ", step_name(plan, s), " byte ", b.offset, " is no multiple of ", plan.alignment, ".");
  }
  return ok_status();
}

Status check_lifetimes(const Plan& plan) {
  for (std::size_t i = 0; i < plan.values.size(); ++i) {
    const PlanValue& a = plan.values[i];
    if (a.space == Space::stream) continue;  // it has no place of its own: see check_refills
    for (std::size_t j = i + 1; j < plan.values.size(); ++j) {
      const PlanValue& b = plan.values[j];
      if (a.space != b.space || a.root == b.root || !overlap(a.offset, a.bytes, b.offset, b.bytes)) continue;
      const std::uint32_t from = std::max(a.first, b.first);
      const std::uint32_t to = std::min(a.last, b.last);
      // A result may overwrite its operand: both live at that one position.
      if (to < from || (to == from && a.space == Space::transient && a.storage == b.storage)) continue;
      return internal_error("Values \"", a.name, "\" and \"", b.name, "\" overlap in ", space_name(a.space),
                            " memory while both are alive at position ", from, ".");
    }
  }
  return ok_status();
}

/// Every read of the ring finds what it asks for, and no refill overwrites what is still to be read.
Status check_refills(const Plan& plan, const std::map<std::uint32_t, std::uint32_t>& roots) {
  const bool staged = plan.stream_staging_bytes != 0;
  const Space written = staged ? Space::stream_staging : Space::stream;
  LastWritten holds;
  std::size_t next = 0;
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s) {
    for (; next < plan.refills.size() && plan.refills[next].first_step == s; ++next) {
      const Refill& refill = plan.refills[next];
      const std::uint64_t at = staged ? refill.staging : refill.offset;
      for (std::uint32_t earlier = refill.after_step; earlier < s; ++earlier) {
        for (const PlanBinding& b : plan.steps[earlier].bindings) {
          if (b.space != written || !overlap(b.offset, b.size, at, refill.bytes)) continue;
          return internal_error("A refill before step ", s, " overwrites what ", step_name(plan, earlier), " reads.");
        }
      }
      holds.write(at, at + refill.bytes, refill.value);
    }
    for (const PlanBinding& b : plan.steps[s].bindings) {
      if (b.space != written || holds.holds(b.offset, b.offset + b.size, roots.at(b.value))) continue;
      return internal_error("In ", step_name(plan, s), " bytes ", b.offset, " + ", b.size, " of ", space_name(b.space),
                            " memory do not hold what they are read as.");
    }
  }
  if (next == plan.refills.size()) return ok_status();
  return internal_error("Refill ", next, " comes before no step.");
}

}  // namespace

Status check_hazards(const Plan& plan) {
  std::vector<Touch> touches[kSpaces];
  std::uint32_t epoch = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (plan.steps[s].barrier_before) ++epoch;
    for (const PlanBinding& b : bound_by(plan.steps[s]))
      touches[static_cast<std::size_t>(b.space)].push_back({s, epoch, &b});
  }
  for (const auto& space : touches) {
    for (std::size_t i = 0; i < space.size(); ++i) {
      for (std::size_t j = i + 1; j < space.size(); ++j) GRAFT_TRY(check_pair(plan, space[i], space[j]));
    }
  }
  return ok_status();
}

Status check_memory(const Plan& plan) {
  GRAFT_TRY(check_lifetimes(plan));
  std::map<std::uint32_t, std::uint32_t> roots;
  std::set<std::uint32_t> empty;
  for (const PlanValue& value : plan.values) {
    roots[value.value] = value.root;
    if (value.empty) empty.insert(value.value);
  }
  // Scratch has the identity of its node, beyond those of values.
  const auto identity = [&](const PlanBinding& b) {
    return b.value != kNoIndex ? std::uint64_t{roots[b.value]} : (std::uint64_t{1} << 32) + b.scratch_of;
  };
  GRAFT_TRY(check_refills(plan, roots));
  LastWritten written;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    for (const PlanBinding& b : step.bindings) {
      GRAFT_TRY(check_place(plan, s, b));
      if (b.space != Space::transient || b.access == Access::write || empty.contains(b.value)) continue;
      if (written.holds(b.offset, b.offset + b.size, identity(b))) continue;
      return internal_error("In ", step_name(plan, s), " bytes ", b.offset, " + ", b.size,
                            " of transient memory are read before they are written as what they are read as.");
    }
    for (const PlanBinding& b : step.bindings) {
      if (b.space != Space::transient || b.access == Access::read) continue;
      written.write(b.offset, b.offset + b.size, identity(b));
    }
  }
  return ok_status();
}

}  // namespace graft
