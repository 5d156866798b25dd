// Folds that move elements or make shapes.
#include <algorithm>
#include <numeric>

#include "tools/convert/onnx/import/fold.h"

namespace graft::convert {
namespace {

std::optional<std::size_t> fold_axis(std::int64_t axis, std::size_t rank) {
  const auto n = static_cast<std::int64_t>(rank);
  if (axis < -n || axis >= n) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

bool too_large(const std::vector<std::int64_t>& dims) {
  const auto count = element_count(dims);
  return !count || *count > kMaxFolded || dims.size() > Shape::kMaxRank;
}

bool constant(const FoldContext& c) {
  const OnnxAttrs& attrs = c.node.attrs;
  using Kind = OnnxAttr::Kind;
  if (const OnnxAttr* value = attrs.of_kind("value", Kind::tensor); value != nullptr && value->tensor) {
    return c.out(*value->tensor);
  }
  if (const OnnxAttr* value = attrs.of_kind("value_float", Kind::number)) {
    return c.out(HostTensor::scalar(static_cast<float>(value->number)));
  }
  if (const OnnxAttr* values = attrs.of_kind("value_floats", Kind::numbers)) {
    return c.out(HostTensor::of_floats({static_cast<std::int64_t>(values->numbers.size())}, values->numbers));
  }
  if (const OnnxAttr* values = attrs.of_kind("value_ints", Kind::integers)) {
    return c.out(HostTensor::of_ints(values->integers));
  }
  if (const OnnxAttr* value = attrs.of_kind("value_int", Kind::integer)) {
    HostTensor one = HostTensor::of_ints({value->integer});
    one.dims.clear();
    return c.out(std::move(one));
  }
  return false;
}

bool shape(const FoldContext& c) {
  if (c.inputs.size() != 1 || c.shapes[0] == nullptr) return false;
  const Shape& s = *c.shapes[0];
  const auto rank = static_cast<std::int64_t>(s.rank());
  const auto bound = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const std::int64_t start = bound(c.attr("start", 0));
  const std::int64_t end = std::max(start, bound(c.attr("end", rank)));
  return c.out(HostTensor::of_dims(std::vector<Dim>(s.begin() + start, s.begin() + end)));
}

bool size(const FoldContext& c) {
  if (c.inputs.size() != 1 || c.shapes[0] == nullptr) return false;
  Dim total(1);
  for (const Dim& dim : *c.shapes[0]) {
    const auto product = multiply(total, dim);
    if (!product) return false;
    total = *product;
  }
  HostTensor out = HostTensor::of_dims({total});
  out.dims.clear();
  return c.out(std::move(out));
}

bool constant_of_shape(const FoldContext& c) {
  const auto dims = c.ints(0);
  if (!dims || too_large(*dims)) return false;
  HostTensor value = HostTensor::scalar(0);
  if (const auto found = c.node.attrs.find("value"); found != c.node.attrs.end()) {
    if (!found->second.tensor || found->second.tensor->count() != 1) return false;
    value = *found->second.tensor;
  }
  value.dims = {1};
  return c.out(take(value, *dims, std::vector<std::size_t>(*element_count(*dims), 0)));
}

bool identity(const FoldContext& c) { return c.has(0) && c.out(c.in(0)); }

bool reshaped(const FoldContext& c, std::vector<std::int64_t> dims) {
  const auto count = element_count(dims);
  if (!count || *count != c.in(0).count() || dims.size() > Shape::kMaxRank) return false;
  HostTensor out = c.in(0);
  out.dims = std::move(dims);
  return c.out(std::move(out));
}

bool reshape(const FoldContext& c) {
  const auto given = c.ints_of("shape", 1);
  if (!c.has(0) || !given) return false;
  std::vector<std::int64_t> dims = *given;
  std::int64_t known = 1, open = -1;
  const bool keep_zero = c.attr("allowzero", 0) != 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !keep_zero) {
      if (i >= c.in(0).dims.size()) return false;
      dims[i] = c.in(0).dims[i];
    }
    if (dims[i] == -1) {
      if (open >= 0) return false;
      open = static_cast<std::int64_t>(i);
    } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return false;
    }
  }
  const auto count = static_cast<std::int64_t>(c.in(0).count());
  if (open >= 0) {
    if (known <= 0 || count % known != 0) return false;
    dims[static_cast<std::size_t>(open)] = count / known;
  }
  return reshaped(c, std::move(dims));
}

bool flatten(const FoldContext& c) {
  const auto& dims = c.in(0).dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::int64_t axis = c.attr("axis", 1);
  if (axis < -rank || axis > rank) return false;
  if (axis < 0) axis += rank;
  const auto product = [](auto from, auto to) {
    return std::accumulate(from, to, std::int64_t{1}, std::multiplies<>());
  };
  return reshaped(c, {product(dims.begin(), dims.begin() + axis), product(dims.begin() + axis, dims.end())});
}

bool squeeze(const FoldContext& c) {
  const auto& dims = c.in(0).dims;
  const auto axes = c.ints_of("axes", 1);
  std::vector<bool> gone(dims.size(), false);
  for (std::size_t i = 0; i < dims.size(); ++i) gone[i] = !axes && dims[i] == 1;
  for (const std::int64_t given : axes.value_or(std::vector<std::int64_t>())) {
    const auto axis = fold_axis(given, dims.size());
    if (!axis || dims[*axis] != 1) return false;
    gone[*axis] = true;
  }
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!gone[i]) kept.push_back(dims[i]);
  }
  return reshaped(c, std::move(kept));
}

bool unsqueeze(const FoldContext& c) {
  const auto axes = c.ints_of("axes", 1);
  if (!axes || axes->size() > Shape::kMaxRank) return false;
  const auto& dims = c.in(0).dims;
  std::vector<std::int64_t> out(dims.size() + axes->size(), 0);
  for (const std::int64_t given : *axes) {
    const auto axis = fold_axis(given, out.size());
    if (!axis || out[*axis] != 0) return false;
    out[*axis] = 1;
  }
  std::size_t next = 0;
  for (std::int64_t& d : out) {
    if (d == 0) d = dims[next++];
  }
  return reshaped(c, std::move(out));
}

/// A constant index of rank 0 or 1 into any tensor, a tensor of indices in general.
bool gather(const FoldContext& c) {
  const auto indices = c.ints(1);
  const auto axis = c.has(0) ? fold_axis(c.attr("axis", 0), c.in(0).dims.size()) : std::nullopt;
  if (!indices || !axis) return false;
  const HostTensor& data = c.in(0);
  const auto at = data.dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  std::vector<std::int64_t> dims(data.dims.begin(), at);
  dims.insert(dims.end(), c.in(1).dims.begin(), c.in(1).dims.end());
  dims.insert(dims.end(), at + 1, data.dims.end());
  if (too_large(dims)) return false;
  const auto product = [](auto from, auto to) {
    return std::accumulate(from, to, std::size_t{1}, std::multiplies<>());
  };
  const std::size_t outer = product(data.dims.begin(), at), inner = product(at + 1, data.dims.end());
  std::vector<std::size_t> source;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::int64_t index : *indices) {
      if (index < 0) index += *at;
      if (index < 0 || index >= *at) return false;
      for (std::size_t i = 0; i < inner; ++i) {
        source.push_back((o * static_cast<std::size_t>(*at) + static_cast<std::size_t>(index)) * inner + i);
      }
    }
  }
  return c.out(take(data, std::move(dims), source));
}

bool concat(const FoldContext& c) {
  const HostTensor& first = c.in(0);
  const auto axis = fold_axis(c.attr("axis", 1), first.dims.size());
  if (!axis) return false;
  HostTensor out;
  out.type = first.type;
  out.dims = first.dims;
  out.dims[*axis] = 0;
  bool symbolic = false;
  for (const HostTensor* part : c.inputs) {
    if (part == nullptr || part->type != first.type || part->dims.size() != first.dims.size()) return false;
    for (std::size_t i = 0; i < first.dims.size(); ++i) {
      if (i != *axis && part->dims[i] != first.dims[i]) return false;
    }
    out.dims[*axis] += part->dims[*axis];
    symbolic |= part->symbolic();
  }
  if (too_large(out.dims)) return false;
  const auto at = first.dims.begin() + static_cast<std::ptrdiff_t>(*axis);
  const std::size_t outer = std::accumulate(first.dims.begin(), at, std::size_t{1}, std::multiplies<>());
  for (std::size_t o = 0; o < outer; ++o) {
    for (const HostTensor* part : c.inputs) {
      const std::size_t run = outer == 0 ? 0 : part->count() / outer;
      for (std::size_t i = o * run; i < (o + 1) * run; ++i) {
        if (is_float(out.type)) {
          out.floats.push_back(part->floats[i]);
        } else if (symbolic) {
          out.symbols.push_back(part->dim(i));
        } else {
          out.ints.push_back(part->ints[i]);
        }
      }
    }
  }
  return c.out(std::move(out));
}

bool slice(const FoldContext& c) {
  const auto starts = c.ints_of("starts", 1), ends = c.ints_of("ends", 2);
  if (!starts || !ends || starts->size() != ends->size()) return false;
  std::vector<std::int64_t> axes(starts->size()), steps(starts->size(), 1);
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  if (c.has(3) || c.node.attrs.contains("axes")) {
    const auto given = c.ints_of("axes", 3);
    if (!given || given->size() != starts->size()) return false;
    axes = *given;
  }
  if (c.has(4)) {
    const auto given = c.ints(4);
    if (!given || given->size() != starts->size()) return false;
    steps = *given;
  }
  std::vector<std::int64_t> dims = c.in(0).dims;
  std::vector<std::int64_t> strides = row_major_strides(dims);
  std::int64_t origin = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = fold_axis(axes[i], dims.size());
    const std::int64_t step = steps[i];
    if (!axis || step == 0 || step > (1 << 30) || step < -(1 << 30)) return false;
    const std::int64_t size = c.in(0).dims[*axis];
    const auto bound = [&](std::int64_t v, std::int64_t low, std::int64_t high) {
      return std::clamp(v < 0 ? v + size : v, low, high);
    };
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    const std::int64_t start = bound((*starts)[i], step > 0 ? 0 : std::min<std::int64_t>(0, high), high);
    const std::int64_t end = bound((*ends)[i], low, high);
    const std::int64_t taken = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    dims[*axis] = std::max<std::int64_t>(taken, 0);
    origin += start * strides[*axis];
    strides[*axis] *= step;
  }
  return c.out(take(c.in(0), dims, strided_walk(dims, strides, origin)));
}

bool transpose(const FoldContext& c) {
  const std::size_t rank = c.in(0).dims.size();
  std::vector<std::int64_t> order;
  if (const auto given = c.ints_of("perm", 99)) {
    order = *given;
  } else {
    for (std::size_t i = rank; i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
  }
  std::vector<std::uint8_t> perm;
  for (const std::int64_t axis : order) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) return false;
    perm.push_back(static_cast<std::uint8_t>(axis));
  }
  std::vector<std::uint8_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity_perm(rank)) return false;
  return c.out(rank < 2 ? c.in(0) : transposed(c.in(0), perm));
}

bool expand(const FoldContext& c) {
  const auto given = c.ints(1);
  if (!given || given->size() > Shape::kMaxRank) return false;
  std::vector<std::int64_t> from = c.in(0).dims, to = *given;
  const std::size_t rank = std::max(from.size(), to.size());
  from.insert(from.begin(), rank - from.size(), 1);
  to.insert(to.begin(), rank - to.size(), 1);
  std::vector<std::int64_t> strides = row_major_strides(from);
  for (std::size_t i = 0; i < rank; ++i) {
    if (to[i] == 1) to[i] = from[i];
    if (from[i] != to[i] && from[i] != 1) return false;
    if (from[i] == 1) strides[i] = 0;
  }
  if (too_large(to)) return false;
  return c.out(take(c.in(0), to, strided_walk(to, strides)));
}

bool split(const FoldContext& c) {
  const auto axis = fold_axis(c.attr("axis", 0), c.in(0).dims.size());
  if (!axis || c.in(0).count() > kMaxFolded) return false;
  const std::int64_t size = c.in(0).dims[*axis];
  const auto count = static_cast<std::int64_t>(c.node.outputs.size());
  std::vector<std::int64_t> parts;
  if (const auto given = c.ints_of("split", 1)) {
    parts = *given;
  } else {
    if (c.attr("num_outputs", count) != count) return false;
    const std::int64_t part = (size + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i) parts.push_back(std::clamp<std::int64_t>(size - i * part, 0, part));
  }
  const bool negative = std::any_of(parts.begin(), parts.end(), [&](std::int64_t p) { return p < 0 || p > size; });
  if (negative || static_cast<std::int64_t>(parts.size()) != count) return false;
  if (std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != size) return false;
  const auto strides = row_major_strides(c.in(0).dims);
  std::int64_t at = 0;
  for (const std::int64_t part : parts) {
    std::vector<std::int64_t> dims = c.in(0).dims;
    dims[*axis] = part;
    const auto walk = strided_walk(dims, strides, at * strides[*axis]);
    c.out(take(c.in(0), std::move(dims), walk));
    at += part;
  }
  return true;
}

}  // namespace

const FoldEntry kFoldMoves[] = {
    {"Constant", 0, constant},   {"Shape", 0, shape},
    {"Size", 0, size},           {"ConstantOfShape", 1, constant_of_shape},
    {"Identity", 1, identity},   {"Reshape", 1, reshape},
    {"Flatten", 1, flatten},     {"Squeeze", 1, squeeze},
    {"Unsqueeze", 1, unsqueeze}, {"Gather", 2, gather},
    {"Concat", 1, concat},       {"Slice", 1, slice},
    {"Transpose", 1, transpose}, {"Expand", 2, expand},
    {"Split", 1, split},         {nullptr, 0, nullptr},
};

}  // namespace graft::convert
