#include <algorithm>
#include <map>
#include <set>

#include "runtime/ops/choice.h"
#include "runtime/plan/chain.h"
#include "runtime/plan/draft.h"
#include "shaders/binary/binary_fn.h"
#include "shaders/chain/chain_fn.h"
#include "shaders/kernels.gen.h"

namespace graft {
namespace {

constexpr std::size_t kReach = 256;  // dispatches over which a producer is moved to its reader

bool overlap(const PlanBinding& a, const PlanBinding& b) {
  return a.space == b.space && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

bool same_range(const PlanBinding& a, const PlanBinding& b) {
  return a.space == b.space && a.offset == b.offset && a.size == b.size;
}

class Fuser {
 public:
  Fuser(const Draft& draft, Plan& plan) : d_(draft), plan_(plan), ends_(ends_with_chains(draft.caps)) {}

  void run() {
    const auto n = static_cast<std::uint32_t>(plan_.steps.size());
    chains_.resize(n);
    gone_.assign(n, 0);
    joined_.assign(n, 0);
    for (std::uint32_t s = 0; s < n; ++s) {
      note_chain(s);
      note_readers(s);
    }
    for (const Output& output : d_.graph.outputs()) given_.insert(d_.roots[output.value.index]);
    for (std::uint32_t s = 0; s < n; ++s) {
      if (chains_[s]) absorb_product(s);
    }
    // Chains first: what lies within them takes no memory then that a product reads.
    for (const bool with_sources : {false, true}) {
      with_sources_ = with_sources;
      for (std::uint32_t s = 0; s < n; ++s) {
        while (chains_[s] && absorb_any(s)) {
        }
      }
    }
    for (std::uint32_t s = 0; s < n; ++s) absorb_sum(s);
    finish();
  }

 private:
  void note_chain(std::uint32_t s) {
    const Step& step = plan_.steps[s];
    const PlanKernel& kernel = plan_.kernels[step.kernel];
    chains_[s] = chain_of(step, kernel);
    if (!chains_[s] && ends_) chains_[s] = chain_from(d_.caps, step, kernel, plan_.nodes[step.node].choices);
    if (chains_[s] && chains_[s]->outputs[0].binding.value == kNoIndex) chains_[s].reset();  // scratch
  }

  void note_readers(std::uint32_t s) {
    for (const PlanBinding& b : plan_.steps[s].bindings) {
      if (b.value != kNoIndex && b.access != Access::write) readers_[d_.roots[b.value]].insert(s);
    }
  }

  /// Takes one producer into step s; false where there is none that may be.
  bool absorb_any(std::uint32_t s) {
    for (const ChainInput& input : chains_[s]->inputs) {
      if (input.reach.mode != chain_fn::same || input.binding.value == kNoIndex) continue;
      const std::uint32_t first = s > kReach ? s - kReach : 0;
      for (std::uint32_t p = s; p-- > first;) {
        if (gone_[p] != 0 || !writes(p, input.binding)) continue;
        if (chains_[p] && absorb(p, s, input.binding)) return true;
        break;  // the last that wrote it, whoever that is
      }
    }
    return false;
  }

  /// Where step s adds a bias to a product, the product does.
  void absorb_product(std::uint32_t s) {
    const Chain& chain = *chains_[s];
    const ChainStep& step = chain.steps[0];
    if (step.kind != chain_fn::binary || step.fn != binary_fn::add || chain.inputs.size() != 2) return;
    for (const std::size_t product : {0, 1}) {
      const ChainInput& sum = chain.inputs[product];
      const ChainInput& bias = chain.inputs[1 - product];
      const bool row = (bias.reach.mode == chain_fn::row || bias.reach.mode == chain_fn::any) && bias.reach.div == 1;
      if (sum.reach.mode != chain_fn::same || !row || sum.binding.value == kNoIndex) continue;
      const std::uint32_t first = s > kReach ? s - kReach : 0;
      for (std::uint32_t p = s; p-- > first;) {
        if (gone_[p] != 0 || !writes(p, sum.binding)) continue;
        if (give_bias(p, s, sum.binding, bias)) return;
        break;
      }
    }
  }

  /// Runs product p in the place of step s, with the bias that s would add.
  bool give_bias(std::uint32_t p, std::uint32_t s, const PlanBinding& sum, const ChainInput& bias) {
    const Step& from = plan_.steps[p];
    const PlanBinding& out = from.bindings.back();
    if ((chains_[p] && !chains_[p]->source) || !same_range(out, sum) || out.value == kNoIndex || wanted(out, s))
      return false;
    const PlanBinding to = chains_[s]->outputs[0].binding;
    for (const PlanBinding& b : from.bindings) {
      if (b.access != Access::read) continue;
      if (overlap(b, to) || overlap(b, bias.binding)) return false;
      for (std::uint32_t i = p + 1; i < s; ++i) {
        if (gone_[i] == 0 && writes(i, b)) return false;
      }
    }
    if (overlap(to, bias.binding)) return false;
    if (plan_.kernels[from.kernel].storage != 0) return false;  // says of each binding how it is stored
    Step product = from;
    if (!take_bias(product, plan_.kernels[from.kernel], bias.binding, bias.reach.mod, to) || !fits(product))
      return false;
    product.flops += plan_.steps[s].flops;
    product.bytes = from.bytes + bias.binding.size;
    product.merged += plan_.steps[s].merged;
    if (product.node != plan_.steps[s].node) plan_.nodes[plan_.steps[s].node].merged_into = product.node;
    for (auto& [root, steps] : readers_) {
      steps.erase(p);
      steps.erase(s);
    }
    plan_.steps[s] = std::move(product);
    gone_[p] = 1;
    chains_[p].reset();
    note_chain(s);
    note_readers(s);
    return true;
  }

  bool writes(std::uint32_t s, const PlanBinding& range) const {
    return std::any_of(plan_.steps[s].bindings.begin(), plan_.steps[s].bindings.end(),
                       [&](const PlanBinding& b) { return b.access != Access::read && overlap(b, range); });
  }

  bool touches(std::uint32_t s, const PlanBinding& range) const {
    return std::any_of(plan_.steps[s].bindings.begin(), plan_.steps[s].bindings.end(),
                       [&](const PlanBinding& b) { return overlap(b, range); });
  }

  /// Whether anybody but step s wants what step p wrote there.
  bool wanted(const PlanBinding& output, std::uint32_t s) const {
    const std::uint32_t root = d_.roots[output.value];
    if (given_.contains(root)) return true;
    const auto readers = readers_.find(root);
    return readers != readers_.end() &&
           std::any_of(readers->second.begin(), readers->second.end(), [&](std::uint32_t r) { return r != s; });
  }

  bool absorb(std::uint32_t p, std::uint32_t s, const PlanBinding& between) {
    const Chain& first = *chains_[p];
    const Chain& second = *chains_[s];
    if (first.count != second.count || second.source || (first.source && !with_sources_)) return false;
    const auto at = std::find_if(first.outputs.begin(), first.outputs.end(),
                                 [&](const ChainOutput& o) { return same_range(o.binding, between); });
    if (at == first.outputs.end() || d_.roots[at->binding.value] != d_.roots[between.value]) return false;
    // What the second reads of the first must be whole, element by element.
    for (const ChainInput& input : second.inputs) {
      for (const ChainOutput& output : first.outputs) {
        if (!overlap(input.binding, output.binding)) continue;
        const bool whole = same_range(input.binding, output.binding) && input.reach.mode == chain_fn::same;
        if (!whole || input.binding.value == kNoIndex ||
            d_.roots[input.binding.value] != d_.roots[output.binding.value])
          return false;
      }
    }
    std::vector<char> kept;
    for (const ChainOutput& output : first.outputs) {
      kept.push_back(static_cast<char>(wanted(output.binding, s)));
    }
    auto joined = join_chains(first, kept, second);
    if (joined && !joined->source && is_avoided(d_.caps, shaders::KernelId::chain__f32)) return false;
    if (!joined || !may_move(p, s, *joined) || !may_overwrite(*joined) || !fits(*joined)) return false;
    take(p, s, std::move(*joined));
    return true;
  }

  bool fits(const Step& step) const {
    return fits_buffers(d_.caps, plan_.segment_bytes, step.bindings, step.push.size());
  }

  bool fits(const Chain& chain) const {
    constexpr std::size_t kMost = 16;  // buffers of any kernel
    if (d_.caps.max_storage_buffers_per_stage >= kMost) return true;
    Step step;
    chain.source ? epilogue_dispatch(chain, step) : chain_dispatch(d_.caps, chain, step);
    return fits(step);
  }

  /// What p reads must still be there at s, and what it still writes must not be asked for before.
  bool may_move(std::uint32_t p, std::uint32_t s, const Chain& joined) const {
    for (std::uint32_t i = p + 1; i < s; ++i) {
      if (gone_[i] != 0) continue;
      for (const PlanBinding& b : of_source(joined)) {
        if (b.access == Access::read ? writes(i, b) : touches(i, b)) return false;
      }
      for (const ChainInput& input : chains_[p]->inputs) {
        if (writes(i, input.binding)) return false;
      }
      for (const ChainOutput& output : chains_[p]->outputs) {
        const bool stored = std::any_of(joined.outputs.begin(), joined.outputs.end(), [&](const ChainOutput& o) {
          return same_range(o.binding, output.binding) && o.binding.value == output.binding.value;
        });
        if (stored && touches(i, output.binding)) return false;
      }
    }
    return true;
  }

  /// What a chain's source touches beside its outputs.
  static std::vector<PlanBinding> of_source(const Chain& chain) {
    std::vector<PlanBinding> bindings;
    if (!chain.source) return bindings;
    bindings = chain.source->step.bindings;
    bindings.erase(bindings.begin() + static_cast<std::ptrdiff_t>(chain.source->out));
    return bindings;
  }

  /// An output may stand in the place of an input that is read at the very element that is written.
  static bool may_overwrite(const Chain& joined) {
    const std::vector<PlanBinding> of_source_too = of_source(joined);
    for (const PlanBinding& b : of_source_too) {
      for (const ChainInput& input : joined.inputs) {
        if (b.access != Access::read && overlap(b, input.binding)) return false;
      }
    }
    for (std::size_t o = 0; o < joined.outputs.size(); ++o) {
      const PlanBinding& output = joined.outputs[o].binding;
      for (const PlanBinding& b : of_source_too) {
        if (overlap(b, output)) return false;
      }
      for (const ChainInput& input : joined.inputs) {
        const bool in_place = same_range(input.binding, output) && input.reach.mode == chain_fn::same;
        if (overlap(input.binding, output) && !in_place) return false;
      }
      for (std::size_t other = 0; other < o; ++other) {
        if (overlap(joined.outputs[other].binding, output)) return false;
      }
    }
    return true;
  }

  void take(std::uint32_t p, std::uint32_t s, Chain joined) {
    Step& from = plan_.steps[p];
    Step& to = plan_.steps[s];
    for (auto& [root, steps] : readers_) steps.erase(p);
    to.flops += from.flops;
    to.merged += from.merged;
    if (from.node != to.node) {  // the work is the source's, what follows it comes along
      if (joined.source) std::swap(from.node, to.node);
      plan_.nodes[from.node].merged_into = to.node;
    }
    chains_[s] = std::move(joined);
    to.bindings = chain_bindings(*chains_[s]);
    note_readers(s);
    forget_readings(s);
    gone_[p] = 1;
    joined_[s] = 1;
    chains_[p].reset();
  }

  /// Where step s is a norm of a sum that no product has taken, it adds up itself.
  void absorb_sum(std::uint32_t s) {
    if (gone_[s] != 0 || chains_[s]) return;
    const PlanBinding x = plan_.steps[s].bindings[0];
    if (x.value == kNoIndex || x.access != Access::read) return;
    const std::uint32_t first = s > kReach ? s - kReach : 0;
    for (std::uint32_t p = s; p-- > first;) {
      if (gone_[p] != 0 || !writes(p, x)) continue;
      if (chains_[p]) give_sum(p, s);
      return;
    }
  }

  void give_sum(std::uint32_t p, std::uint32_t s) {
    const Chain& sum = *chains_[p];
    const PlanBinding& total = sum.outputs[0].binding;
    Step norm = plan_.steps[s];
    if (!same_range(total, norm.bindings[0]) || d_.roots[total.value] != d_.roots[norm.bindings[0].value]) return;
    for (const PlanBinding& b : norm.bindings) {
      if (same_range(b, total) && b.access == Access::read) continue;
      if (overlap(b, total)) return;
      for (const ChainInput& input : sum.inputs) {
        // As long as it writes nothing but what the very invocation has read.
        if (b.access != Access::read && overlap(b, input.binding) && !same_range(b, input.binding)) return;
      }
    }
    const auto kernel = take_sum(d_.caps, norm, plan_.kernels[norm.kernel], sum);
    if (!kernel || !may_move(p, s, sum) || !may_overwrite(sum) || !fits(norm)) return;
    norm.kernel = kernel_index(*kernel);
    norm.flops += plan_.steps[p].flops;
    norm.bytes = bytes_of(norm.bindings);
    norm.merged += plan_.steps[p].merged;
    if (plan_.steps[p].node != norm.node) plan_.nodes[plan_.steps[p].node].merged_into = norm.node;
    plan_.steps[s] = std::move(norm);
    gone_[p] = 1;
  }

  std::uint32_t kernel_index(const PlanKernel& kernel) {
    const auto at = std::find(plan_.kernels.begin(), plan_.kernels.end(), kernel);
    const auto index = static_cast<std::uint32_t>(at - plan_.kernels.begin());
    if (at == plan_.kernels.end()) plan_.kernels.push_back(kernel);
    return index;
  }

  static std::uint64_t bytes_of(const std::vector<PlanBinding>& bindings) {
    std::uint64_t bytes = 0;
    for (const PlanBinding& b : bindings) bytes += b.size;
    return bytes;
  }

  /// Step s no longer reads what now stays within it.
  void forget_readings(std::uint32_t s) {
    std::set<std::uint32_t> read;
    for (const PlanBinding& b : of_source(*chains_[s])) {
      if (b.value != kNoIndex && b.access != Access::write) read.insert(d_.roots[b.value]);
    }
    for (const ChainInput& input : chains_[s]->inputs) {
      if (input.binding.value != kNoIndex) read.insert(d_.roots[input.binding.value]);
    }
    for (auto& [root, steps] : readers_) {
      if (!read.contains(root)) steps.erase(s);
    }
  }

  void finish() {
    std::vector<Step> steps;
    for (std::uint32_t s = 0; s < plan_.steps.size(); ++s) {
      if (gone_[s] != 0) continue;
      Step& step = plan_.steps[s];
      if (joined_[s] != 0) {
        const PlanKernel kernel =
            chains_[s]->source ? epilogue_dispatch(*chains_[s], step) : chain_dispatch(d_.caps, *chains_[s], step);
        step.kernel = kernel_index(kernel);
        step.bytes = bytes_of(chain_bindings(*chains_[s]));
      }
      steps.push_back(std::move(step));
    }
    plan_.steps = std::move(steps);
  }

  const Draft& d_;
  Plan& plan_;
  const bool ends_;
  bool with_sources_ = false;
  std::vector<std::optional<Chain>> chains_;                  // per step
  std::vector<char> gone_;                                    // per step: another does its work
  std::vector<char> joined_;                                  // per step: it does another's as well
  std::map<std::uint32_t, std::set<std::uint32_t>> readers_;  // steps per root
  std::set<std::uint32_t> given_;                             // roots of the graph's outputs
};

}  // namespace

void fuse_steps(const Draft& draft, Plan& plan) { Fuser(draft, plan).run(); }

}  // namespace graft
