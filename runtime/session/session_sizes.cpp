// Sessions whose sizes change within a bound: one memory, a program for each set of sizes.
#include <algorithm>
#include <map>

#include "runtime/core/graph_text.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/kernels/kernel_proof.h"
#include "runtime/session/session.h"

namespace graft {
namespace {

using ConstantTexts = std::map<std::string, std::string, std::less<>>;

ConstantTexts texts_of(std::span<const passes::FoldedConstant> constants) {
  ConstantTexts texts;
  for (const passes::FoldedConstant& constant : constants) texts[constant.name] = graph_text(constant.graph);
  return texts;
}

/// Only constants that are the same in both.
passes::MayFold only(const ConstantTexts& texts) {
  return [&texts](const passes::FoldedConstant& constant) {
    const auto found = texts.find(constant.name);
    return found != texts.end() && found->second == graph_text(constant.graph);
  };
}

}  // namespace

Result<SessionGraph> Session::graph_of(const Model& model, const SessionOptions& options, const Bindings& bindings,
                                       const passes::MayFold& may_fold) {
  GRAFT_TRY_ASSIGN(SessionGraph made, session_graph(model, bindings, options.gradients, options.precision,
                                                    options.keep_outputs, may_fold));
  if (options.allow_non_finite) {
    std::erase_if(made.rules, [](const passes::InputRule& rule) { return rule.dtype == DType::f32; });
  }
  return made;
}

/// The graph at the largest sizes.
Result<SessionGraph> Session::bound_graph(const Model& model, const SessionOptions& options) {
  if (!options.resizable) return graph_of(model, options, options.bindings, {});
  // What is folded must be so at all sizes: it is what two of them have in common.
  Bindings halved = options.bindings;
  for (auto& [name, size] : halved) size = std::max<std::int64_t>(size / 2, 1);
  ConstantTexts smaller;
  const auto probe = graph_of(model, options, halved, {});
  if (halved != options.bindings && probe.ok()) smaller = texts_of(probe->constants);
  return graph_of(model, options, options.bindings, only(smaller));
}

Result<Bindings> Session::within_bound(const Bindings& sizes) const {
  if (!options_.resizable) return invalid("This session was not made to be resized.");
  Bindings all = now_->bindings;
  for (const auto& [name, size] : sizes) {
    const auto bound = options_.bindings.find(name);
    if (bound == options_.bindings.end()) {
      return error(Code::not_found, "This session was made with no size for a dimension \"", name, "\".");
    }
    if (size < 1 || size > bound->second) {
      return invalid("The dimension \"", name, "\" is to be ", size, "; this session was made for 1 to ", bound->second,
                     ".");
    }
    all[name] = size;
  }
  return all;
}

Result<std::unique_ptr<Session::Sized>> Session::make_sized(const Bindings& bindings) {
  auto sized = std::make_unique<Sized>();
  sized->bindings = bindings;
  const ConstantTexts texts = texts_of(constants_);
  GRAFT_TRY_ASSIGN(SessionGraph made, graph_of(*model_, options_, bindings, only(texts)));
  sized->graph = std::move(made.graph);
  sized->rules = std::move(made.rules);
  GRAFT_TRY_ASSIGN(sized->wide, wide_integers(bindings));
  if (made.constants.size() != constants_.size()) {
    return unsupported("At these sizes the model needs other constants than at the largest: make a session for them.");
  }
  Plan plan;
  const Plan* plans[] = {&plan};
  const auto make = [&]() -> Status {
    GRAFT_TRY_ASSIGN(plan, plan_fused(sized->graph, target(), memory_->residents(), options_.plan));
    return ok_status();
  };
  GRAFT_TRY(make_proven(options_.program.proof, *device_, make, [&] { return std::span<const Plan* const>(plans); }));
  if (!memory_->covers(plan)) {
    return unsupported("At these sizes the model needs more memory than at the largest: make a session for them.");
  }
  GRAFT_TRY_ASSIGN(sized->program, Program::create(*memory_, std::move(plan), options_.program));
  return sized;
}

Status Session::resize(const Bindings& sizes) {
  GRAFT_TRY_ASSIGN(const Bindings bindings, within_bound(sizes));
  if (bindings == now_->bindings) return ok_status();
  return on_device([&] { return try_resize(bindings); });
}

Status Session::try_resize(const Bindings& bindings) {
  GRAFT_TRY(try_resume());
  GRAFT_TRY(now_->program->settle());
  GRAFT_TRY(unbind_all());
  auto at = std::ranges::find(sizes_, bindings, [](const auto& sized) -> const Bindings& { return sized->bindings; });
  if (at == sizes_.end()) {
    GRAFT_TRY_ASSIGN(auto made, make_sized(bindings));
    constexpr std::size_t kMostSizes = 32;  // each holds its commands, on the host and in the driver
    if (sizes_.size() == kMostSizes) sizes_.erase(sizes_.begin() + (sizes_[1].get() == now_ ? 2 : 1));
    at = sizes_.insert(sizes_.end(), std::move(made));
  }
  now_ = at->get();
  given_.assign(plan().inputs.size(), false);  // they share the place of their bytes
  copies_.clear();
  return ok_status();
}

}  // namespace graft
