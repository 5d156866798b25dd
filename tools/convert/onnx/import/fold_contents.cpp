// Folds of ops whose result's shape is in the contents of their inputs, and of tables that nothing computes with.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "tools/convert/onnx/import/fold.h"

namespace graft::convert {
namespace {

std::size_t count_of_axes(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to) {
  std::size_t n = 1;
  for (std::size_t i = from; i < to; ++i) n *= static_cast<std::size_t>(dims[i]);
  return n;
}

/// Indices of elements that are not zero, a row for each axis.
bool non_zero(const FoldContext& c) {
  const HostTensor& x = c.in(0);
  if (x.symbolic()) return false;
  const std::vector<std::int64_t> dims = x.dims.empty() ? std::vector<std::int64_t>{1} : x.dims;
  const auto strides = row_major_strides(dims);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < x.count(); ++i) {
    if (x.number(i) != 0) found.push_back(i);
  }
  std::vector<std::int64_t> rows;
  for (std::size_t axis = 0; axis < x.dims.size(); ++axis) {
    for (const std::size_t at : found) rows.push_back(static_cast<std::int64_t>(at) / strides[axis] % dims[axis]);
  }
  HostTensor out = HostTensor::of_ints(std::move(rows));
  out.dims = {std::ssize(x.dims), std::ssize(found)};
  return c.out(std::move(out));
}

/// Slices along an axis, or single elements: which differ, where each is first, which of them each is, how often.
bool unique(const FoldContext& c) {
  HostTensor x = c.in(0);
  if (x.symbolic() || x.count() == 0) return false;
  const bool by_axis = c.node.attrs.contains("axis");
  if (!by_axis) x.dims = {static_cast<std::int64_t>(x.count())};
  std::int64_t axis = c.attr("axis", 0);
  if (axis < 0) axis += std::ssize(x.dims);
  if (axis < 0 || axis >= std::ssize(x.dims)) return false;
  const auto at = static_cast<std::size_t>(axis);
  const std::size_t outer = count_of_axes(x.dims, 0, at), size = static_cast<std::size_t>(x.dims[at]);
  const std::size_t inner = count_of_axes(x.dims, at + 1, x.dims.size());
  std::map<std::vector<double>, std::size_t> known;  // in order of the slices
  std::vector<std::size_t> first, slice_of(size);
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < size; ++i) {
    std::vector<double> slice;
    for (std::size_t o = 0; o < outer; ++o) {
      for (std::size_t k = 0; k < inner; ++k) slice.push_back(x.number((o * size + i) * inner + k));
    }
    if (std::any_of(slice.begin(), slice.end(), [](double v) { return std::isnan(v); })) return false;
    const auto [found, fresh] = known.emplace(std::move(slice), first.size());
    if (fresh) {
      first.push_back(i);
      counts.push_back(0);
    }
    slice_of[i] = found->second;
    ++counts[found->second];
  }
  std::vector<std::size_t> order(first.size()), place(first.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (c.attr("sorted", 1) != 0) {
    std::size_t next = 0;
    for (const auto& [slice, which] : known) order[next++] = which;
  }
  std::vector<std::int64_t> firsts, ordered_counts, inverse;
  std::vector<std::size_t> source;
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    firsts.push_back(static_cast<std::int64_t>(first[order[i]]));
    ordered_counts.push_back(counts[order[i]]);
  }
  for (const std::size_t which : slice_of) inverse.push_back(static_cast<std::int64_t>(place[which]));
  for (std::size_t o = 0; o < outer; ++o) {
    for (const std::int64_t i : firsts) {
      for (std::size_t k = 0; k < inner; ++k) source.push_back((o * size + static_cast<std::size_t>(i)) * inner + k);
    }
  }
  std::vector<std::int64_t> dims = x.dims;
  dims[at] = std::ssize(firsts);
  c.out(take(x, std::move(dims), source));
  c.out(HostTensor::of_ints(std::move(firsts)));
  c.out(HostTensor::of_ints(std::move(inverse)));
  return c.out(HostTensor::of_ints(std::move(ordered_counts)));
}

/// The same bits as another type of the same size; of 64 bits where the numbers come through.
bool bit_cast(const FoldContext& c) {
  const HostTensor& x = c.in(0);
  const auto to = static_cast<ElemType>(c.attr("to", 0));
  if (x.symbolic() || elem_bits(to) != elem_bits(x.type) || elem_bits(to) == 0) return false;
  HostTensor out;
  out.type = to;
  out.dims = x.dims;
  const std::uint64_t bits = elem_bits(to);
  for (std::size_t i = 0; i < x.count(); ++i) {
    std::uint64_t word = 0;
    if (!is_float(x.type)) {
      word = static_cast<std::uint64_t>(x.ints[i]);
    } else if (x.type == ElemType::f32) {
      word = std::bit_cast<std::uint32_t>(x.floats[i]);
    } else if (x.type == ElemType::f64) {
      word = std::bit_cast<std::uint64_t>(static_cast<double>(x.floats[i]));
    } else if (x.type == ElemType::f16) {
      word = float_to_half(x.floats[i]);
    } else if (x.type == ElemType::bf16) {
      word = float_to_bfloat(x.floats[i]);
    } else {
      return false;
    }
    if (to == ElemType::f32) {
      out.floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
    } else if (to == ElemType::f64) {
      const auto number = narrowed(std::bit_cast<double>(word));
      if (!number) return false;
      out.floats.push_back(*number);
    } else if (to == ElemType::f16) {
      out.floats.push_back(half_to_float(static_cast<std::uint16_t>(word)));
    } else if (to == ElemType::bf16) {
      out.floats.push_back(bfloat_to_float(static_cast<std::uint16_t>(word)));
    } else if (is_float(to) && bits == 8) {
      out.floats.push_back(decode_float(to, static_cast<std::uint8_t>(word)));
    } else if (to == ElemType::boolean) {
      out.ints.push_back((word & 0xff) != 0);
    } else {
      const auto value = static_cast<std::int64_t>(word);
      if (to == ElemType::u64 && value < 0) return false;
      out.ints.push_back(wrapped(value, to));
    }
  }
  return c.out(std::move(out));
}

/// Windows of the DFT: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
bool window(const FoldContext& c) {
  const auto size = c.ints(0);
  if (!size || size->size() != 1 || (*size)[0] < 0 || static_cast<std::uint64_t>((*size)[0]) > kMaxFolded) return false;
  const auto type = static_cast<ElemType>(c.attr("output_datatype", 1));
  if (!is_float(type)) return false;
  const bool hann = c.node.op == "HannWindow", hamming = c.node.op == "HammingWindow";
  // As the specification has them: Hamming's are 25/46 and 21/46.
  const double a0 = hann ? 0.5 : hamming ? 25.0 / 46 : 0.42;
  const double a1 = hann ? 0.5 : hamming ? 21.0 / 46 : 0.5;
  const double a2 = hann || hamming ? 0 : 0.08;
  const std::int64_t n = (*size)[0];
  const double whole = static_cast<double>(c.attr("periodic", 1) != 0 ? n : n - 1);
  HostTensor out;
  out.type = type;
  out.dims = {n};
  for (std::int64_t i = 0; i < n; ++i) {
    const double angle = whole == 0 ? 0 : 2 * std::numbers::pi * static_cast<double>(i) / whole;
    out.floats.push_back(static_cast<float>(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)));
  }
  return c.out(std::move(out));
}

/// Occurrences of n-grams of integers, with gaps of up to max_skip_count between their elements.
bool tf_idf_vectorizer(const FoldContext& c) {
  const HostTensor& x = c.in(0);
  const auto list = [&](std::string_view name) -> std::vector<std::int64_t> {
    const auto found = c.node.attrs.find(name);
    return found == c.node.attrs.end() ? std::vector<std::int64_t>() : found->second.integers;
  };
  const auto mode = c.node.attrs.find("mode");
  const auto pool = list("pool_int64s"), starts = list("ngram_counts"), columns = list("ngram_indexes");
  if (mode == c.node.attrs.end()) return false;
  if (mode->second.text != "TF" && mode->second.text != "IDF" && mode->second.text != "TFIDF") return false;
  if (!is_integer(x.type) || x.symbolic() || pool.empty() || x.dims.size() > 2) return false;
  std::vector<float> weights;
  if (const auto given = c.node.attrs.find("weights"); given != c.node.attrs.end()) weights = given->second.numbers;
  const std::int64_t skips = c.attr("max_skip_count", 0), least = c.attr("min_gram_length", 1),
                     most = c.attr("max_gram_length", 1);
  if (least < 1 || most < least || most > std::ssize(starts) || skips < 0 || skips > 1000) return false;
  // n-grams of each length, in order: the pool lists those of length 1, then of 2, ...
  std::map<std::vector<std::int64_t>, std::size_t> known;
  std::size_t next = 0;
  for (std::int64_t n = 1; n <= std::ssize(starts); ++n) {
    const std::int64_t begin = starts[static_cast<std::size_t>(n - 1)];
    const std::int64_t end = n < std::ssize(starts) ? starts[static_cast<std::size_t>(n)] : std::ssize(pool);
    if (begin < 0 || end < begin || end > std::ssize(pool) || (end - begin) % n != 0) return false;
    for (std::int64_t at = begin; at < end; at += n) known[{pool.begin() + at, pool.begin() + at + n}] = next++;
  }
  if (next != columns.size() || columns.empty() || (!weights.empty() && weights.size() != columns.size())) return false;
  const std::int64_t width = *std::max_element(columns.begin(), columns.end()) + 1;
  if (*std::min_element(columns.begin(), columns.end()) < 0) return false;
  const std::int64_t rows = x.dims.size() == 2 ? x.dims[0] : 1;
  const std::int64_t length = x.dims.empty() ? 1 : x.dims.back();
  if (rows < 0 || width > static_cast<std::int64_t>(kMaxFolded) / std::max<std::int64_t>(rows, 1)) return false;
  HostTensor out;
  out.dims = x.dims.size() == 2 ? std::vector<std::int64_t>{rows, width} : std::vector<std::int64_t>{width};
  out.floats.assign(static_cast<std::size_t>(rows * width), 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t n = least; n <= most; ++n) {
      for (std::int64_t step = 1; step <= (n == 1 ? 1 : skips + 1); ++step) {
        for (std::int64_t first = 0; first + (n - 1) * step < length; ++first) {
          std::vector<std::int64_t> gram;
          for (std::int64_t k = 0; k < n; ++k)
            gram.push_back(x.ints[static_cast<std::size_t>(row * length + first + k * step)]);
          const auto found = known.find(gram);
          if (found == known.end()) continue;
          const auto column = static_cast<std::size_t>(columns[found->second]);
          float& cell = out.floats[static_cast<std::size_t>(row * width) + column];
          const float weight = weights.empty() ? 1.0F : weights[found->second];
          if (mode->second.text == "IDF") {
            cell = weight;
          } else {
            cell += mode->second.text == "TFIDF" ? weight : 1.0F;
          }
        }
      }
    }
  }
  return c.out(std::move(out));
}

}  // namespace

const FoldEntry kFoldContents[] = {
    {"NonZero", 1, non_zero},
    {"Unique", 1, unique},
    {"BitCast", 1, bit_cast},
    {"HannWindow", 1, window},
    {"HammingWindow", 1, window},
    {"BlackmanWindow", 1, window},
    {"TfIdfVectorizer", 1, tf_idf_vectorizer},
    {nullptr, 0, nullptr},
};

}  // namespace graft::convert
