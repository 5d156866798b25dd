#include "runtime/passes/wide_integers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "platform/base/text.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::passes {
namespace {

using Span = std::optional<IntegerSpan>;  // nullopt: not known
constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kHuge = std::int64_t{1} << 62;

bool is_wide(const Value& value) {
  return value.dtype == DType::i32 && (value.source_type == SourceType::i64 || value.source_type == SourceType::u64 ||
                                       value.source_type == SourceType::u32);
}

/// Ops whose result can be larger than what they read.
bool may_grow(Op op) {
  switch (op) {
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::neg:
    case Op::abs:
    case Op::square:
    case Op::pow:
    case Op::cumsum:
    case Op::cumprod:
    case Op::reduce_sum:
    case Op::reduce_prod:
    case Op::reduce_l1:
    case Op::shift_left:
    case Op::scatter_elements: return true;
    default: return false;
  }
}

/// Ops whose result holds numbers that they read, unchanged.
bool keeps_numbers(Op op) {
  switch (op) {
    case Op::cast:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::expand:
    case Op::concat:
    case Op::where:
    case Op::pad:
    case Op::gather:
    case Op::gather_elements:
    case Op::scatter_elements:
    case Op::minimum:
    case Op::maximum:
    case Op::clip:
    case Op::reduce_max:
    case Op::reduce_min: return true;
    default: return false;
  }
}

Span joined(const Span& a, const Span& b) {
  if (!a || !b) return std::nullopt;
  return IntegerSpan{std::min(a->least, b->least), std::max(a->most, b->most)};
}

/// Of all pairs of ends.
template <typename Combine>
Span corners(const Span& a, const Span& b, Combine combine) {
  if (!a || !b) return std::nullopt;
  const std::int64_t all[] = {combine(a->least, b->least), combine(a->least, b->most), combine(a->most, b->least),
                              combine(a->most, b->most)};
  return IntegerSpan{*std::ranges::min_element(all), *std::ranges::max_element(all)};
}

/// Sums of up to `count` numbers, partial ones included.
Span summed(const Span& x, std::int64_t count) {
  if (!x) return std::nullopt;
  if (count == 0) return IntegerSpan{0, 0};
  return IntegerSpan{std::min<std::int64_t>(x->least, x->least * count),
                     std::max<std::int64_t>(x->most, x->most * count)};
}

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  const double value = std::pow(static_cast<double>(base), static_cast<double>(exponent));
  return static_cast<std::int64_t>(std::clamp(value, -static_cast<double>(kHuge), static_cast<double>(kHuge)));
}

/// Products of up to `count` numbers.
Span multiplied(const Span& x, std::int64_t count) {
  if (!x) return std::nullopt;
  const std::int64_t largest = power(std::max(std::abs(x->least), std::abs(x->most)), std::max<std::int64_t>(count, 1));
  return IntegerSpan{x->least < 0 ? -largest : std::min<std::int64_t>(x->least, 1), std::max<std::int64_t>(largest, 1)};
}

Span raised(const Span& x, const Span& exponent) {
  if (!x || !exponent || exponent->least < 0) return std::nullopt;
  return multiplied(x, exponent->most);
}

Span narrowed_to(const std::string& format) {
  const std::size_t digit = format.find_first_of("0123456789");
  const int bits = digit == std::string::npos ? 0 : std::atoi(format.c_str() + digit);
  if (bits < 1 || bits > 16 || format.find("int") == std::string::npos) return std::nullopt;
  const std::int64_t all = std::int64_t{1} << bits;
  return format.starts_with("u") ? IntegerSpan{0, all - 1} : IntegerSpan{-all / 2, all / 2 - 1};
}

/// Also of numbers whose product is beyond 64 bits.
std::int64_t product(std::int64_t a, std::int64_t b) {
  const double value = static_cast<double>(a) * static_cast<double>(b);
  return std::abs(value) < static_cast<double>(kHuge) ? a * b : value < 0 ? -kHuge : kHuge;
}

/// Which values are wide. One that the converter made between wide ones, as the products of a MatMul, is as they are.
std::vector<bool> wide_values(const Graph& graph) {
  std::vector<bool> wide(graph.values().size()), after, before;
  for (std::size_t v = 0; v < wide.size(); ++v) wide[v] = is_wide(graph.values()[v]);
  after = before = wide;
  const auto between = [&](ValueId v) {
    return v.valid() && graph.value(v).dtype == DType::i32 && graph.value(v).source_type == SourceType::same;
  };
  const auto any = [](const auto& ids, const std::vector<bool>& of) {
    return std::ranges::any_of(ids, [&](ValueId v) { return v.valid() && of[v.index]; });
  };
  for (const Node& node : graph.nodes()) {
    if (!any(node.inputs, after)) continue;
    for (const ValueId output : node.outputs) {
      if (between(output)) after[output.index] = true;
    }
  }
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    if (!any(node.outputs, before)) continue;
    for (const ValueId input : node.inputs) {
      if (between(input)) before[input.index] = true;
    }
  }
  for (std::size_t v = 0; v < wide.size(); ++v) wide[v] = wide[v] || (after[v] && before[v]);
  return wide;
}

class Follower {
 public:
  Follower(const Graph& graph, std::vector<Span> known) : graph_(graph), known_(std::move(known)) {}

  const Span& of(ValueId v) const {
    static const Span none;
    return v.valid() ? known_[v.index] : none;
  }
  void set(ValueId v, Span span) { known_[v.index] = span; }

  Span result(const Node& node) const {
    const Span a = node.inputs.empty() ? Span() : of(node.inputs[0]);
    const Span b = node.inputs.size() < 2 ? Span() : of(node.inputs[1]);
    const bool reads = !node.inputs.empty() && node.inputs[0].valid();
    const Shape x = reads ? graph_.value(node.inputs[0]).shape : Shape();
    const auto plus = [](std::int64_t p, std::int64_t q) { return p + q; };
    switch (node.op) {
      case Op::add: return corners(a, b, plus);
      case Op::sub: return corners(a, b, [](std::int64_t p, std::int64_t q) { return p - q; });
      case Op::mul: return corners(a, b, [](std::int64_t p, std::int64_t q) { return p * q; });
      case Op::div:
        if (!b || (b->least <= 0 && b->most >= 0)) return a ? joined(a, IntegerSpan{-a->most, -a->least}) : a;
        return joined(corners(a, b, [](std::int64_t p, std::int64_t q) { return p / q; }),
                      corners(a, b, [](std::int64_t p, std::int64_t q) { return p / q - (p % q != 0); }));
      case Op::remainder: {
        if (!b) return std::nullopt;
        const std::int64_t most = std::max(std::abs(b->least), std::abs(b->most));
        return IntegerSpan{-most, most};
      }
      case Op::minimum: return corners(a, b, [](std::int64_t p, std::int64_t q) { return std::min(p, q); });
      case Op::maximum: return corners(a, b, [](std::int64_t p, std::int64_t q) { return std::max(p, q); });
      case Op::neg: return a ? Span(IntegerSpan{-a->most, -a->least}) : a;
      case Op::abs: return a ? Span(IntegerSpan{0, std::max(std::abs(a->least), std::abs(a->most))}) : a;
      case Op::square: return corners(a, a, [](std::int64_t p, std::int64_t q) { return p * q; });
      case Op::sign: return IntegerSpan{-1, 1};
      case Op::pow: return raised(a, b);
      case Op::shift_left:
        if (!b || b->least < 0 || b->most > 31) return std::nullopt;
        return corners(a, b, [](std::int64_t p, std::int64_t q) { return p * (std::int64_t{1} << q); });
      case Op::where: return joined(of(node.inputs[1]), of(node.inputs[2]));
      case Op::concat: {
        Span all = a;
        for (const ValueId input : node.inputs) all = joined(all, of(input));
        return all;
      }
      case Op::pad: {
        const auto value = static_cast<std::int64_t>(node.attrs.number("value"));
        return joined(a, IntegerSpan{value, value});
      }
      case Op::gather_elements: return joined(a, IntegerSpan{0, 0});
      case Op::reshape:
      case Op::transpose:
      case Op::slice:
      case Op::expand:
      case Op::gather:
      case Op::reduce_max:
      case Op::reduce_min:
      case Op::clip: return a;
      case Op::scatter_elements: {
        const Span updates = of(node.inputs[2]);
        const std::string how = node.attrs.text("reduction");
        const auto count = static_cast<std::int64_t>(graph_.value(node.inputs[1]).shape.elements());
        if (how == "mul") return joined(a, corners(a, multiplied(updates, count), product));
        return how == "add" ? corners(a, joined(summed(updates, count), IntegerSpan{0, 0}), plus) : joined(a, updates);
      }
      case Op::cumsum: return joined(summed(a, length(node, x)), IntegerSpan{0, 0});
      case Op::cumprod: return multiplied(a, length(node, x));
      case Op::reduce_sum: return summed(a, reduced(node, x));
      case Op::reduce_prod: return multiplied(a, reduced(node, x));
      case Op::reduce_l1:
        return summed(a ? Span(IntegerSpan{0, std::max(std::abs(a->least), std::abs(a->most))}) : a, reduced(node, x));
      case Op::arg_max:
      case Op::arg_min: return IntegerSpan{0, static_cast<std::int64_t>(x.elements())};
      case Op::full: {
        const double value = node.attrs.number("value");
        if (!(std::abs(value) <= static_cast<double>(kMost))) return std::nullopt;
        return IntegerSpan{static_cast<std::int64_t>(value), static_cast<std::int64_t>(value)};
      }
      case Op::cast: return reads && graph_.value(node.inputs[0]).dtype != DType::f32 ? a : Span();
      case Op::narrow: return narrowed_to(node.attrs.text("format"));
      default: return std::nullopt;
    }
  }

 private:
  static std::int64_t length(const Node& node, const Shape& x) {
    const auto axis = normalize_axis(node.attrs.integer("axis"), x.rank());
    return axis.ok() ? static_cast<std::int64_t>(x.elements(*axis, *axis + 1)) : 1;
  }
  std::int64_t reduced(const Node& node, const Shape& x) const {
    const auto kept = static_cast<std::int64_t>(graph_.value(node.outputs[0]).shape.elements());
    return kept == 0 ? 0 : static_cast<std::int64_t>(x.elements()) / kept;
  }

  const Graph& graph_;
  std::vector<Span> known_;
};

}  // namespace

bool WideIntegers::computes(const Graph& graph) {
  const std::vector<bool> wide = wide_values(graph);
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) {
    return may_grow(node.op) && !node.outputs.empty() && wide[node.outputs[0].index];
  });
}

WideIntegers::WideIntegers(Graph graph) : graph_(std::move(graph)), needed_(computes(graph_)) {
  for (const ValueId input : graph_.inputs()) {
    if (needed_ && graph_.value(input).dtype == DType::i32) inputs_[graph_.value(input).name] = std::nullopt;
  }
}

void WideIntegers::set_constant(ValueId value, std::span<const std::byte> bytes) {
  if (graph_.value(value).dtype != DType::i32) return;
  if (const Span span = span_of(bytes)) constants_[value.index] = *span;
}

void WideIntegers::set_input(const std::string& input, const std::optional<IntegerSpan>& range) {
  if (const auto found = inputs_.find(input); found != inputs_.end()) found->second = range;
  changed_ = true;
}

std::string WideIntegers::find_overflow() {
  if (!changed_) return {};
  std::vector<Span> known(graph_.values().size());
  for (std::uint32_t v = 0; v < known.size(); ++v) {
    const Value& value = graph_.values()[v];
    if (value.dtype == DType::boolean) known[v] = IntegerSpan{0, 1};
    if (const auto constant = constants_.find(v); constant != constants_.end()) known[v] = constant->second;
    if (value.kind != ValueKind::input) continue;
    if (const auto input = inputs_.find(value.name); input != inputs_.end()) known[v] = input->second;
  }
  Follower follower(graph_, std::move(known));
  const std::vector<bool> wide = wide_values(graph_);
  for (const Node& node : graph_.nodes()) {
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const Value& value = graph_.value(node.outputs[k]);
      if (value.dtype != DType::i32) continue;
      Span span = k == 0 ? follower.result(node) : Span();
      const bool beyond = span && (span->least < kLeast || span->most > kMost);
      if (beyond && wide[node.outputs[k].index] && may_grow(node.op)) {
        const SourceType type = is_wide(value) ? value.source_type : SourceType::i64;
        const std::int64_t far = span->most > kMost ? span->most : span->least;
        return cat("The node \"", node.name, "\" (", op_name(node.op), ") computes ", source_type_info(type).name,
                   " numbers, which graft holds in 32 bits; with these inputs ", "they may reach ",
                   far >= kHuge ? "2^62" : cat(far), ", and the limit is ", span->most > kMost ? kMost : kLeast, ".");
      }
      follower.set(node.outputs[k], beyond ? Span() : span);
    }
  }
  changed_ = false;
  return {};
}

std::set<std::string, std::less<>> cast_from_floats(const Graph& graph) {
  std::vector<bool> cast(graph.values().size());
  std::set<std::string, std::less<>> names;
  for (const Node& node : graph.nodes()) {
    const bool from_float = node.op == Op::cast && graph.value(node.inputs[0]).dtype == DType::f32;
    const bool from_cast = keeps_numbers(node.op) && std::ranges::any_of(node.inputs, [&](ValueId input) {
                             return input.valid() && cast[input.index];
                           });
    if (!from_float && !from_cast) continue;
    for (const ValueId output : node.outputs) {
      cast[output.index] = graph.value(output).dtype == DType::i32;
      if (is_wide(graph.value(output))) names.insert(graph.value(output).name);
    }
  }
  return names;
}

std::optional<std::size_t> find_limit(std::span<const std::byte> words) {
  for (std::size_t i = 0; i + sizeof(std::int32_t) <= words.size(); i += sizeof(std::int32_t)) {
    std::int32_t word = 0;
    std::memcpy(&word, words.data() + i, sizeof word);
    if (word == kLeast || word == kMost) return i / sizeof(std::int32_t);
  }
  return std::nullopt;
}

std::optional<IntegerSpan> span_of(std::span<const std::byte> words) {
  if (words.size() < sizeof(std::int32_t)) return std::nullopt;
  std::int32_t least = std::numeric_limits<std::int32_t>::max(), most = std::numeric_limits<std::int32_t>::min();
  for (std::size_t i = 0; i + sizeof(std::int32_t) <= words.size(); i += sizeof(std::int32_t)) {
    std::int32_t word = 0;
    std::memcpy(&word, words.data() + i, sizeof word);
    least = std::min(least, word);
    most = std::max(most, word);
  }
  return IntegerSpan{least, most};
}

}  // namespace graft::passes
