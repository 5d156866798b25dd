#include "runtime/passes/match.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "platform/base/stable_sort.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::passes {
namespace {

constexpr int kMaxVisits = 64;        // of nodes in one formula: x * x of x * x of ... doubles at each step
constexpr std::size_t kMaxCone = 64;  // nodes of a pattern

bool is_whole(double power) { return power == std::trunc(power); }

template <typename T>
void read_words(std::span<const std::byte> bytes, std::vector<double>& out) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T word;
    std::memcpy(&word, bytes.data() + at, sizeof(T));
    out.push_back(static_cast<double>(word));
  }
}

}  // namespace

bool near(double value, double wanted) {
  // f32 rounds by 6e-8 of a number, and a factor may be a product of three; decimals are often cut after 8 digits.
  return std::abs(value - wanted) <= 5e-7 * std::abs(wanted);
}

ValueId Product::only(double power) const {
  ValueId found = kNoValue;
  for (const Factor& factor : factors) {
    if (factor.power != power) continue;
    if (found.valid()) return kNoValue;
    found = factor.value;
  }
  return found;
}

bool Product::is(std::initializer_list<Factor> wanted) const {
  if (factors.size() != wanted.size()) return false;
  return std::ranges::all_of(wanted, [&](const Factor& want) {
    return std::ranges::any_of(
        factors, [&](const Factor& factor) { return factor.value == want.value && factor.power == want.power; });
  });
}

double Sum::weight(ValueId value) const {
  for (const Term& term : terms) {
    if (term.value == value) return term.weight;
  }
  return 0;
}

bool Sum::is(double wanted_offset, std::initializer_list<Term> wanted) const {
  if (terms.size() != wanted.size() || (wanted_offset == 0 ? offset != 0 : !near(offset, wanted_offset))) return false;
  return std::ranges::all_of(wanted, [&](const Term& want) { return near(weight(want.value), want.weight); });
}

std::optional<double> Match::number(ValueId v) const {
  if (!v.valid()) return std::nullopt;
  if (const ValueId inner = argument(Op::expand, v); inner.valid()) v = inner;
  if (const Node* full = node(Op::full, v)) return full->attrs.number("value");
  if (!shape(v).is_constant() || shape(v).elements() != 1) return std::nullopt;
  const std::vector<double> all = contents(v);
  return all.size() == 1 ? std::optional(all[0]) : std::nullopt;
}

std::vector<double> Match::contents(ValueId v, std::uint64_t limit) const {
  const Value& value = rewriter_.value(v);
  if (value.kind != ValueKind::constant || value.contents.empty() || value.shape.elements() > limit) return {};
  std::vector<double> out;
  out.reserve(value.shape.elements());
  // Booleans are kept as words, as integers are.
  if (value.dtype == DType::f32) read_words<float>(value.contents, out);
  if (value.dtype == DType::i32 || value.dtype == DType::boolean) read_words<std::int32_t>(value.contents, out);
  return out.size() == value.shape.elements() ? out : std::vector<double>();
}

ValueId Match::argument(Op op, ValueId v) const {
  const Node* found = node(op, v);
  return found != nullptr && !found->inputs.empty() ? found->inputs[0] : kNoValue;
}

Product Match::product(ValueId v) const {
  Product out;
  int budget = kMaxVisits;
  multiply(v, 1, true, budget, out);
  return out;
}

void Match::multiply(ValueId v, double power, bool root, int& budget, Product& into) const {
  if (const auto known = number(v); known && is_whole(power) && *known != 0) {
    into.scale *= std::pow(*known, power);
    return;
  }
  const Node* made = root || rewriter_.is_inner(v) ? rewriter_.producer(v) : nullptr;
  const auto open = [&](std::size_t i, double times) { multiply(made->inputs[i], power * times, false, budget, into); };
  // A root of a product is not the product of roots where factors are negative: what is under it stays whole.
  const bool whole = is_whole(power);
  if (made != nullptr && value(v).dtype == DType::f32 && --budget > 0) {
    switch (made->op) {
      case Op::mul:
        if (!whole) break;
        open(0, 1);
        open(1, 1);
        return;
      case Op::div:
        if (!whole) break;
        open(0, 1);
        open(1, -1);
        return;
      case Op::affine:
        if (!whole || made->attrs.number("beta") != 0 || made->attrs.number("alpha") == 0) break;
        into.scale *= std::pow(made->attrs.number("alpha"), power);
        open(0, 1);
        return;
      case Op::neg:
        if (!whole) break;
        into.scale *= std::pow(-1.0, power);
        open(0, 1);
        return;
      case Op::reciprocal: return open(0, -1);
      case Op::square:
        if (!whole) break;
        return open(0, 2);
      case Op::sqrt: return open(0, 0.5);
      case Op::rsqrt: return open(0, -0.5);
      case Op::pow:
        if (const auto exponent = number(made->inputs[1]); exponent && whole) return open(0, *exponent);
        break;
      case Op::expand: return open(0, 1);
      default: break;
    }
  }
  for (Factor& factor : into.factors) {
    if (factor.value == v && whole && is_whole(factor.power)) {
      factor.power += power;
      std::erase_if(into.factors, [](const Factor& f) { return f.power == 0; });
      return;
    }
  }
  into.factors.push_back({v, power});
}

Sum Match::sum(ValueId v) const {
  Sum out;
  int budget = kMaxVisits;
  add(v, 1, true, budget, out);
  return out;
}

void Match::add(ValueId v, double weight, bool root, int& budget, Sum& into) const {
  if (const auto known = number(v); known && std::isfinite(*known)) {
    into.offset += weight * *known;
    return;
  }
  const Node* made = root || rewriter_.is_inner(v) ? rewriter_.producer(v) : nullptr;
  const auto open = [&](std::size_t i, double times) { add(made->inputs[i], weight * times, false, budget, into); };
  if (made != nullptr && value(v).dtype == DType::f32 && --budget > 0) {
    switch (made->op) {
      case Op::add:
        open(0, 1);
        open(1, 1);
        return;
      case Op::sub:
        open(0, 1);
        open(1, -1);
        return;
      case Op::neg: return open(0, -1);
      case Op::affine: into.offset += weight * made->attrs.number("beta"); return open(0, made->attrs.number("alpha"));
      case Op::mul:
        for (const std::size_t i : {0, 1}) {
          if (const auto factor = number(made->inputs[i])) return open(1 - i, *factor);
        }
        break;
      case Op::div:
        if (const auto divisor = number(made->inputs[1]); divisor && *divisor != 0) return open(0, 1 / *divisor);
        break;
      case Op::expand: return open(0, 1);
      default: break;
    }
  }
  for (Term& term : into.terms) {
    if (term.value == v) {
      term.weight += weight;
      return;
    }
  }
  into.terms.push_back({v, weight});
}

bool Match::owns(ValueId root, std::initializer_list<ValueId> leaves) const {
  return owns(root, std::vector<ValueId>(leaves));
}

bool Match::owns(ValueId root, const std::vector<ValueId>& leaves) const {
  const auto is_leaf = [&](ValueId v) { return std::ranges::find(leaves, v) != leaves.end(); };
  std::vector<NodeId> cone = {value(root).producer};
  for (std::size_t next = 0; next < cone.size(); ++next) {
    for (const ValueId input : rewriter_.source().node(cone[next]).inputs) {
      if (!input.valid() || is_leaf(input)) continue;
      const NodeId behind = value(input).producer;
      if (!behind.valid() || std::ranges::find(cone, behind) != cone.end()) continue;
      if (number(input)) continue;  // shared by all who need the number
      if (cone.size() == kMaxCone) return false;
      cone.push_back(behind);
    }
  }
  return std::all_of(cone.begin() + 1, cone.end(), [&](NodeId id) {
    return std::ranges::all_of(rewriter_.source().node(id).outputs, [&](ValueId v) {
      return rewriter_.may_vanish(v) && std::ranges::all_of(rewriter_.readers(v), [&](NodeId reader) {
               return std::ranges::find(cone, reader) != cone.end();
             });
    });
  });
}

Result<PassGraph> apply_rules(const PassGraph& graph, std::span<const Rule> rules) {
  Rewriter rewriter(graph);
  const Match match(rewriter);
  for (const Node& node : graph.graph.nodes()) {
    bool done = false;
    for (const Rule rule : rules) {
      if (node.outputs.empty()) break;  // it only mutates
      GRAFT_TRY_ASSIGN(done, rule(rewriter, match, node));
      if (done) break;
    }
    if (!done) GRAFT_TRY(rewriter.copy(node));
  }
  return rewriter.finish();
}

std::vector<std::size_t> reduced_axes(const Node& node, std::size_t rank) {
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : node.attrs.integers("axes")) {
    axes.push_back(static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis));
  }
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
  }
  graft::stable_sort(axes);
  return axes;
}

}  // namespace graft::passes
