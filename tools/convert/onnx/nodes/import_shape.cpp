// Ops that change shapes but not elements.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

Result<Dim> product(const Shape& shape, std::size_t from, std::size_t to) {
  Dim out(1);
  for (std::size_t i = from; i < to; ++i) {
    const auto next = multiply(out, shape[i]);
    if (!next) return corrupt("its input ", shape.text(), " is too large");
    out = *next;
  }
  return out;
}

bool rounded(const Dim& dim) { return dim.symbols().find("//") != std::string::npos; }

/// What a -1 stands for. Numbers may leave a remainder as long as symbols are not bound: then it is seen whether they
/// do.
std::optional<Dim> rest_of(const Dim& total, const Dim& known) {
  if (const auto exact = divide_exactly(total, known)) return exact;
  const std::int64_t parts = known.coefficient();
  const auto more = total.is_constant() || parts < 1 ? std::nullopt : multiply(total, Dim(parts));
  const auto whole = more ? divide_exactly(*more, known) : std::nullopt;
  return whole ? divide_floor(*whole, parts) : std::nullopt;
}

Status reshape(NodeContext& c) {
  GRAFT_TRY_ASSIGN(std::vector<Dim> dims, [&]() -> Result<std::vector<Dim>> {
    if (!c.has_attr("shape") || c.has(1)) return c.dims(1, "shape");
    const Ints values = c.attr_ints("shape");
    return std::vector<Dim>(values.begin(), values.end());
  }());
  const Shape from = c.shape(0);
  const bool keep_zero = c.attr("allowzero", 0) != 0;
  GRAFT_TRY_ASSIGN(const Dim total, product(from, 0, from.rank()));
  Dim known(1);
  std::ptrdiff_t open = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1)) {
      if (open >= 0) return corrupt("its shape has more than one -1");
      open = static_cast<std::ptrdiff_t>(i);
      continue;
    }
    if (dims[i] == Dim(0) && !keep_zero) {
      if (i >= from.rank()) return corrupt("its shape copies axis ", i, " of an input with ", from.rank(), " axes");
      dims[i] = from[i];
    }
    const auto next = multiply(known, dims[i]);
    if (!next || dims[i].coefficient() < 0) return corrupt("its shape holds ", dims[i].text());
    known = *next;
  }
  if (open >= 0) {
    const auto rest = known == Dim(0) ? std::nullopt : rest_of(total, known);
    if (!rest) {
      return unsupported("its -1 cannot be resolved: ", total.text(), " elements are not a multiple of ", known.text());
    }
    dims[static_cast<std::size_t>(open)] = *rest;
  } else if (total != known && !rounded(total) && !rounded(known)) {
    return unsupported("it reshapes ", from.text(), " to ", Shape(dims).text(), ", whose sizes differ");
  }
  c.out(0, c.reshape(c.in(0), Shape(std::move(dims))));
  return {};
}

Status flatten(NodeContext& c) {
  const Shape from = c.shape(0);
  std::int64_t axis = c.attr("axis", 1);
  const auto rank = static_cast<std::int64_t>(from.rank());
  if (axis < -rank || axis > rank) return corrupt("its axis ", axis, " is not in [", -rank, ", ", rank, "]");
  if (axis < 0) axis += rank;
  GRAFT_TRY_ASSIGN(const Dim rows, product(from, 0, static_cast<std::size_t>(axis)));
  GRAFT_TRY_ASSIGN(const Dim columns, product(from, static_cast<std::size_t>(axis), from.rank()));
  c.out(0, c.reshape(c.in(0), Shape{rows, columns}));
  return {};
}

Status squeeze(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("axes", 1));
  const Shape from = c.shape(0);
  std::vector<bool> gone(from.rank(), false);
  for (const std::int64_t axis : given.value_or(Ints())) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, c.axis(axis, from.rank()));
    if (from[normal] != Dim(1)) return corrupt("it squeezes axis ", normal, " of size ", from[normal].text());
    gone[normal] = true;
  }
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < from.rank(); ++i) {
    if (given ? !gone[i] : from[i] != Dim(1)) dims.push_back(from[i]);
  }
  c.out(0, c.reshape(c.in(0), Shape(std::move(dims))));
  return {};
}

Status unsqueeze(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("axes", 1));
  if (!given) return corrupt("its axes are missing");
  const Shape from = c.shape(0);
  const std::size_t rank = from.rank() + given->size();
  if (rank > Shape::kMaxRank) return unsupported("its result has ", rank, " axes, more than ", Shape::kMaxRank);
  std::vector<bool> added(rank, false);
  for (const std::int64_t axis : *given) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, c.axis(axis, rank));
    if (added[normal]) return corrupt("it adds axis ", normal, " twice");
    added[normal] = true;
  }
  std::vector<Dim> dims;
  for (std::size_t i = 0, next = 0; i < rank; ++i) dims.push_back(added[i] ? Dim(1) : from[next++]);
  c.out(0, c.reshape(c.in(0), Shape(std::move(dims))));
  return {};
}

Status expand(NodeContext& c) {
  GRAFT_TRY_ASSIGN(std::vector<Dim> dims, c.dims(1, "shape"));
  if (dims.size() > Shape::kMaxRank) return unsupported("its shape has ", dims.size(), " axes");
  GRAFT_TRY_ASSIGN(const Shape to, broadcast(c.shape(0), Shape(std::move(dims))));
  c.out(0, c.expand(c.in(0), to));
  return {};
}

/// [a, b] repeated [r, s] times: [1, a, 1, b] expanded to [r, a, s, b], then [r*a, s*b].
Status tile(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Ints repeats, c.ints(1, "repeats"));
  const Shape from = c.shape(0);
  if (repeats.size() != from.rank()) {
    return corrupt("it has ", repeats.size(), " repeats for ", from.rank(), " axes");
  }
  std::vector<Dim> apart, spread, joined;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0) return corrupt("it repeats axis ", i, " ", repeats[i], " times");
    if (repeats[i] != 1) {
      apart.push_back(1);
      spread.push_back(repeats[i]);
    }
    apart.push_back(from[i]);
    spread.push_back(from[i]);
    const auto size = multiply(from[i], Dim(repeats[i]));
    if (!size) return corrupt("its result is too large");
    joined.push_back(*size);
  }
  if (apart.size() > Shape::kMaxRank) return unsupported("it repeats more axes than ", Shape::kMaxRank, " allow");
  c.out(0, c.reshape(c.expand(c.reshape(c.in(0), Shape(apart)), Shape(spread)), Shape(joined)));
  return {};
}

Status transpose(NodeContext& c) {
  const std::size_t rank = c.rank(0);
  Ints order = c.attr_ints("perm");
  if (order.empty()) {
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  }
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool valid = order.size() == rank;
  for (std::size_t i = 0; valid && i < rank; ++i) valid = sorted[i] == static_cast<std::int64_t>(i);
  if (!valid) return corrupt("its perm is not a permutation of ", rank, " axes");
  if (rank < 2) {
    c.alias(0, 0);
    return {};
  }
  c.out(0, c.emit(Op::transpose, {c.in(0)}, {{"perm", order}}));
  return {};
}

Status constant_of_shape(NodeContext& c) {
  GRAFT_TRY_ASSIGN(std::vector<Dim> dims, c.dims(0, "shape"));
  if (dims.size() > Shape::kMaxRank) return unsupported("its shape has ", dims.size(), " axes");
  HostTensor value = HostTensor::scalar(0);
  if (const auto found = c.node.attrs.find("value"); found != c.node.attrs.end()) {
    if (!found->second.tensor) return unsupported("its value cannot be read: ", found->second.tensor_error);
    value = *found->second.tensor;
  }
  if (value.count() != 1) return corrupt("its value has ", value.count(), " elements");
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(value.type));
  c.out_typed(0, c.full(Shape(std::move(dims)), value.number(0), dtype), value.type);
  return {};
}

Status constant(NodeContext& c) {
  const auto found = c.node.attrs.find("value");
  if (found != c.node.attrs.end() && !found->second.tensor_error.empty()) {
    return unsupported("its value cannot be used: ", found->second.tensor_error);
  }
  return unsupported("its kind of value is not supported");
}

/// The shape of its result is in the contents of its inputs.
Status folded_only(NodeContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.has(i)) GRAFT_TRY(c.known(i, c.inputs() == 1 ? "input" : "operand"));
  }
  return unsupported("it cannot be computed at conversion");
}

Status tf_idf_vectorizer(NodeContext& c) {
  const std::string mode = c.attr_text("mode", "");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    return unsupported("its mode is \"", mode, "\"; TF, IDF and TFIDF are supported");
  }
  return folded_only(c);
}

/// How many steps of `delta` lead from the start to the limit.
std::optional<Dim> steps_between(const Dim& start, const Dim& limit, std::int64_t delta) {
  const auto way = delta > 0 ? subtract(limit, start) : subtract(start, limit);
  const auto room = way ? add(*way, Dim(std::abs(delta) - 1)) : std::nullopt;
  return room ? divide_floor(*room, std::abs(delta)) : std::nullopt;
}

/// An operand of Range that is a whole number: a size, also as a float.
std::optional<Dim> whole_number(NodeContext& c, std::size_t i) {
  const HostTensor* host = c.whole_host(i);
  if (host == nullptr || host->count() != 1) return std::nullopt;
  if (is_integer(host->type)) return host->dim(0);
  const double value = host->number(0);
  constexpr double kMost = 1 << 30;
  if (!(std::abs(value) <= kMost) || value != std::floor(value)) return std::nullopt;
  return Dim(static_cast<std::int64_t>(value));
}

/// Between sizes that are symbols, by whole steps: places that are counted on the device.
Status range(NodeContext& c) {
  const auto first = whole_number(c, 0), last = whole_number(c, 1), step = whole_number(c, 2);
  if (!first || !last || !step) return folded_only(c);
  const Dim start = *first, limit = *last, delta = *step;
  constexpr std::int64_t kMostDelta = std::int64_t{1} << 20;
  if (!delta.is_constant() || delta == Dim(0) || std::abs(delta.value()) > kMostDelta) {
    return unsupported("its delta is ", delta.text());
  }
  const auto count = steps_between(start, limit, delta.value());
  constexpr std::int64_t kMostPlaces = std::numeric_limits<std::int32_t>::max();
  if (!count || (count->is_constant() && (count->value() < 0 || count->value() > kMostPlaces))) {
    return unsupported("from ", start.text(), " to ", limit.text(), " cannot be written; bind it (--bind NAME=SIZE)");
  }
  ValueId y = c.counting(*count);
  if (delta != Dim(1)) y = c.emit(Op::mul, {y, c.size(delta)});
  if (start != Dim(0)) y = c.emit(Op::add, {y, c.size(start)});
  c.out(0, is_float(c.type(0)) ? c.cast(y, DType::f32) : y);
  return {};
}

}  // namespace

const RuleEntry kShapeRules[] = {
    {"Reshape", 1, 2, reshape},     {"Flatten", 1, 1, flatten},
    {"Squeeze", 1, 2, squeeze},     {"Unsqueeze", 1, 2, unsqueeze},
    {"Expand", 2, 2, expand},       {"Tile", 2, 2, tile},
    {"Transpose", 1, 1, transpose}, {"ConstantOfShape", 1, 1, constant_of_shape},
    {"Constant", 0, 0, constant},   {"Shape", 1, 1, folded_only},
    {"Size", 1, 1, folded_only},    {"Range", 3, 3, range},
    {"BitCast", 1, 1, folded_only}, {"TfIdfVectorizer", 1, 1, tf_idf_vectorizer},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
