// Reshapes and transposes in a row, as exporters and rules leave them.
#include <algorithm>

#include "platform/base/stable_sort.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Whether a transpose moves only axes of size 1, so that the elements stay in their order.
bool keeps_order(const Shape& x, const Ints& perm) {
  std::int64_t last = -1;
  for (const std::int64_t axis : perm) {
    if (x[static_cast<std::size_t>(axis)] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

/// Element by element, of one operand: the shape does not matter to it.
bool is_activation(Op op) {
  switch (op) {
    case Op::relu:
    case Op::leaky_relu:
    case Op::elu:
    case Op::gelu:
    case Op::silu:
    case Op::sigmoid:
    case Op::tanh:
    case Op::hard_sigmoid:
    case Op::hard_swish:
    case Op::mish:
    case Op::softplus:
    case Op::affine:
    case Op::clip: return true;
    default: return false;
  }
}

/// What a chain of reshapes and transposes does to a tensor: its axes parted into pieces, and the order they end up in.
class Chain {
 public:
  explicit Chain(const Shape& shape) {
    for (const Dim& dim : shape) axes_.push_back(dim == Dim(1) ? Pieces{} : Pieces{piece(dim.value())});
  }

  void transpose(const Ints& perm) {
    std::vector<Pieces> moved;
    for (const std::int64_t axis : perm) moved.push_back(axes_[static_cast<std::size_t>(axis)]);
    axes_ = std::move(moved);
  }

  /// False where an axis of the new shape would take parts of pieces that do not divide.
  bool reshape(const Shape& shape) {
    Pieces flat;
    for (const Pieces& axis : axes_) flat.insert(flat.end(), axis.begin(), axis.end());
    axes_.clear();
    std::size_t next = 0;
    for (const Dim& dim : shape) {
      axes_.emplace_back();
      for (std::int64_t open = dim.value(); open > 1; ++next) {
        if (next == flat.size()) return false;
        const std::size_t whole = flat[next];
        if (open % sizes_[whole] != 0) {
          if (sizes_[whole] % open != 0) return false;
          flat.insert(flat.begin() + static_cast<std::ptrdiff_t>(next) + 1, part(whole, open));
        }
        open /= sizes_[whole];
        axes_.back().push_back(whole);
      }
    }
    return next == flat.size();
  }

  /// The chain as one transpose of a view: the view's shape, and the order. Pieces that stay together are one axis.
  std::pair<Shape, Ints> view_and_order() const {
    std::vector<std::size_t> place(sizes_.size());  // of a piece in the source
    for (std::size_t i = 0; i < order_.size(); ++i) place[order_[i]] = i;
    std::vector<std::pair<std::size_t, std::int64_t>> runs;  // by first place, with the size, in their final order
    std::size_t last = order_.size();
    for (const Pieces& axis : axes_) {
      for (const std::size_t one : axis) {
        if (!runs.empty() && place[one] == last + 1) {
          runs.back().second *= sizes_[one];
        } else {
          runs.emplace_back(place[one], sizes_[one]);
        }
        last = place[one];
      }
    }
    auto sorted = runs;
    graft::stable_sort(sorted);
    std::vector<Dim> dims;
    for (const auto& run : sorted) dims.emplace_back(run.second);
    Ints perm;
    for (const auto& run : runs) perm.push_back(std::ranges::find(sorted, run) - sorted.begin());
    return {Shape(std::move(dims)), perm};
  }

 private:
  using Pieces = std::vector<std::size_t>;

  std::size_t piece(std::int64_t size) {
    sizes_.push_back(size);
    order_.push_back(sizes_.size() - 1);
    return sizes_.size() - 1;
  }

  /// Leaves `size` of a piece, and gives the rest, which stands behind it.
  std::size_t part(std::size_t whole, std::int64_t size) {
    sizes_.push_back(sizes_[whole] / size);
    sizes_[whole] = size;
    order_.insert(std::ranges::find(order_, whole) + 1, sizes_.size() - 1);
    return sizes_.size() - 1;
  }

  std::vector<std::int64_t> sizes_;  // by piece
  Pieces order_;                     // in the source
  std::vector<Pieces> axes_;         // now
};

class MoveMerger {
 public:
  explicit MoveMerger(const PassGraph& in) : rewriter_(in) {}

  Result<PassGraph> run() {
    for (const Node& node : rewriter_.source().nodes()) {
      const bool move = node.op == Op::reshape || node.op == Op::transpose;
      if (!move || rewriter_.is_pinned(node.outputs[0])) {
        GRAFT_TRY(rewriter_.copy(node));
      } else {
        GRAFT_TRY(node.op == Op::reshape ? reshape(node) : transpose(node));
      }
    }
    return rewriter_.finish();
  }

 private:
  /// The node behind input 0 in the copy, where it is of this op and may be passed by.
  const Node* before(const Node& node, Op op) {
    if (rewriter_.is_pinned(node.inputs[0])) return nullptr;
    const NodeId producer = rewriter_.graph().value(rewriter_.at(node.inputs[0])).producer;
    if (!producer.valid() || rewriter_.graph().node(producer).op != op) return nullptr;
    return &rewriter_.graph().node(producer);
  }

  /// A view of an activation of a view, as of gates between convolutions of one pixel: the activation alone, where the
  /// second view undoes the first.
  Result<bool> around_activation(const Node& node) {
    const Node* activation = rewriter_.is_inner(node.inputs[0]) ? rewriter_.producer(node.inputs[0]) : nullptr;
    if (activation == nullptr || !is_activation(activation->op)) return false;
    if (!rewriter_.is_inner(activation->inputs[0])) return false;
    const Node* first = before(*activation, Op::reshape);
    const ValueId y = node.outputs[0];
    if (first == nullptr || rewriter_.graph().value(first->inputs[0]).shape != rewriter_.value(y).shape) return false;
    GRAFT_TRY(rewriter_.replace(y, activation->op, {first->inputs[0]}, activation->attrs));
    return true;
  }

  /// The result is `x`, reshaped where need be. An output stays a value of its own: it may be an input's name
  /// otherwise.
  Status reshaped(const Node& node, ValueId x) {
    GRAFT_TRY_ASSIGN(const bool done, around_activation(node));
    if (done) return {};
    const ValueId y = node.outputs[0];
    const Shape shape = rewriter_.value(y).shape;
    const bool own = rewriter_.is_output(y) && !rewriter_.graph().value(x).producer.valid();
    if (rewriter_.graph().value(x).shape == shape && !own) {
      rewriter_.replace(y, x);
      return {};
    }
    return rewriter_.replace(y, Op::reshape, {x}, {{"shape", shape}});
  }

  Status reshape(const Node& node) {
    const Node* view = before(node, Op::reshape);
    return reshaped(node, view != nullptr ? view->inputs[0] : rewriter_.at(node.inputs[0]));
  }

  /// A transpose of a view of a transpose is one of the two at most.
  Result<bool> transpose_around(const Node& node) {
    const Node* view = before(node, Op::reshape);
    const NodeId behind = view != nullptr ? rewriter_.graph().value(view->inputs[0]).producer : kNoNode;
    if (!behind.valid() || rewriter_.graph().node(behind).op != Op::transpose || pinned_copy(view->inputs[0])) {
      return false;
    }
    const Node& first = rewriter_.graph().node(behind);
    const ValueId x = first.inputs[0];
    const Shape wanted = rewriter_.value(node.outputs[0]).shape;
    Chain chain(rewriter_.graph().value(x).shape);
    chain.transpose(first.attrs.integers("perm"));
    if (wanted.elements() == 0 || !chain.reshape(rewriter_.graph().value(view->outputs[0]).shape)) return false;
    chain.transpose(node.attrs.integers("perm"));
    auto [shape, perm] = chain.view_and_order();
    Builder& b = rewriter_.builder();
    ValueId y = x;
    if (!std::ranges::is_sorted(perm)) y = b.transpose(b.reshape(x, std::move(shape)), std::move(perm));
    GRAFT_TRY(b.status());
    GRAFT_TRY(reshaped(node, y));
    return true;
  }

  /// Whether a value of the copy stands for a pinned one.
  bool pinned_copy(ValueId v) {
    const ValueId source = rewriter_.source().find_value(rewriter_.graph().value(v).name);
    return source.valid() && rewriter_.is_pinned(source);
  }

  Status transpose(const Node& node) {
    GRAFT_TRY_ASSIGN(const bool done, transpose_around(node));
    if (done) return {};
    Ints perm = node.attrs.integers("perm");
    ValueId x = rewriter_.at(node.inputs[0]);
    if (const Node* first = before(node, Op::transpose)) {
      const Ints inner = first->attrs.integers("perm");
      for (std::int64_t& axis : perm) axis = inner[static_cast<std::size_t>(axis)];
      x = first->inputs[0];
    }
    const Shape shape = rewriter_.graph().value(x).shape;
    if (!keeps_order(shape, perm)) return rewriter_.replace(node.outputs[0], Op::transpose, {x}, {{"perm", perm}});
    if (const Node* view = before(node, Op::reshape); view != nullptr && x == rewriter_.at(node.inputs[0])) {
      x = view->inputs[0];
    }
    return reshaped(node, x);
  }

  Rewriter rewriter_;
};

}  // namespace

Result<PassGraph> merge_moves(const PassGraph& graph, const PrepareOptions&) { return MoveMerger(graph).run(); }

}  // namespace graft::passes
