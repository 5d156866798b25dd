// Signals: Fourier transforms as products with their matrices, windows and mel filters as numbers; determinants.
#include <algorithm>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/quantized_values.h"
#include "tools/convert/onnx/nodes/sampling.h"
#include "tools/convert/onnx/nodes/volume.h"

namespace graft::convert {
namespace {

constexpr double kTau = 6.283185307179586476925286766559;
constexpr std::int64_t kMostWeights = std::int64_t{1} << 24;  // of a transform's matrix

/// The whole turns of e^(i tau k n / length) are taken away first, so that long signals lose no digits.
double turned(std::int64_t k, std::int64_t n, std::int64_t length) {
  return kTau * static_cast<double>(k * n % length) / static_cast<double>(length);
}

struct Transform {
  std::int64_t used = 1;    ///< signal positions that count
  std::int64_t parts = 1;   ///< of each: 1 real, 2 complex
  std::int64_t length = 1;  ///< of the transform
  std::int64_t results = 1;
  bool inverse = false;
  bool real_result = false;  ///< from one half of a symmetric spectrum
};

/// Row (position, part), column (result, part).
std::vector<float> transform_matrix(const Transform& t) {
  const std::int64_t out_parts = t.real_result ? 1 : 2;
  std::vector<float> matrix;
  matrix.reserve(static_cast<std::size_t>(t.used * t.parts * t.results * out_parts));
  for (std::int64_t n = 0; n < t.used; ++n) {
    for (std::int64_t part = 0; part < t.parts; ++part) {
      for (std::int64_t k = 0; k < t.results; ++k) {
        const double angle = turned(k, n, t.length) * (t.inverse ? 1 : -1);
        double scale = t.inverse ? 1 / static_cast<double>(t.length) : 1;
        // The other half of the spectrum is the conjugate of this one, but for its ends.
        const bool end = n == 0 || 2 * n == t.length;
        if (t.real_result && !end) scale *= 2;
        // (re + i im) (cos + i sin)
        const double real = part == 0 ? std::cos(angle) : -std::sin(angle);
        const double imaginary = part == 0 ? std::sin(angle) : std::cos(angle);
        matrix.push_back(static_cast<float>(t.real_result && end && part == 1 ? 0 : scale * real));
        if (!t.real_result) matrix.push_back(static_cast<float>(scale * imaginary));
      }
    }
  }
  return matrix;
}

Status check_size(const Transform& t) {
  if (t.length < 1 || t.used < 1 || t.results < 1) return corrupt("its transform has a length of ", t.length);
  if (t.used > kMostWeights || t.results > kMostWeights || t.used * t.parts > kMostWeights / (2 * t.results)) {
    return unsupported("a transform of length ", t.length, " would take a matrix of more than ", kMostWeights,
                       " weights");
  }
  return {};
}

Result<std::optional<std::int64_t>> optional_number(NodeContext& c, std::size_t i, std::string_view what) {
  if (!c.has(i)) return std::optional<std::int64_t>();
  GRAFT_TRY_ASSIGN(const double given, c.number(i, what));
  if (!(std::abs(given) <= 1 << 30)) return corrupt("its ", what, " is ", given);
  return std::optional<std::int64_t>(static_cast<std::int64_t>(given));
}

Status check_parts(const Shape& shape, std::int64_t& parts) {
  if (shape.rank() >= 2 && (shape.back() == Dim(1) || shape.back() == Dim(2))) {
    parts = shape.back().value();
    return {};
  }
  return corrupt("its input has the shape ", shape.text(), ", and the last axis must be 1 (real) or 2 (complex)");
}

Status dft(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const Shape shape = c.shape(0);
  const std::size_t rank = shape.rank();
  Transform t;
  GRAFT_TRY(check_parts(shape, t.parts));
  std::int64_t axis = c.opset < 20 ? c.attr("axis", 1) : -2;
  if (c.opset >= 20) {
    GRAFT_TRY_ASSIGN(const auto given, optional_number(c, 2, "axis"));
    axis = given.value_or(axis);
  }
  GRAFT_TRY_ASSIGN(const std::size_t place, c.axis(axis, rank));
  if (place + 1 == rank) return corrupt("its axis is that of real and imaginary parts");
  if (!shape[place].is_constant()) return unsupported("its signal has the symbolic length ", shape[place].text());
  const std::int64_t size = shape[place].value();
  t.inverse = c.attr("inverse", 0) != 0;
  const bool onesided = c.attr("onesided", 0) != 0;
  t.real_result = onesided && t.inverse;
  if (t.real_result && (c.opset < 20 || t.parts != 2)) return unsupported("an inverse from one side needs opset 20");
  if (onesided && !t.inverse && t.parts == 2) {
    return corrupt("its onesided is 1 and its input is complex, whose two sides differ; set onesided to 0");
  }
  GRAFT_TRY_ASSIGN(const auto length, optional_number(c, 1, "dft_length"));
  t.length = length.value_or(t.real_result ? 2 * (size - 1) : size);
  t.used = std::min(size, t.real_result ? t.length / 2 + 1 : t.length);
  t.results = onesided && !t.inverse ? t.length / 2 + 1 : t.length;
  GRAFT_TRY(check_size(t));
  // The signal's axis goes beside its parts, and rows of both are multiplied.
  Perm perm;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != place && i + 1 != rank) perm.push_back(static_cast<std::uint8_t>(i));
  }
  perm.push_back(static_cast<std::uint8_t>(place));
  perm.push_back(static_cast<std::uint8_t>(rank - 1));
  ValueId x = c.in(0, simplified(perm));
  if (t.used < size) x = part_of(c, x, rank - 2, 0, t.used);
  Dim rows(1);
  std::vector<Dim> out;
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    out.push_back(shape[perm[i]]);
    GRAFT_TRY_ASSIGN(rows, dims_product({rows, out.back()}));
  }
  const std::int64_t out_parts = t.real_result ? 1 : 2;
  const ValueId matrix =
      c.constant(HostTensor::of_floats({t.used * t.parts, t.results * out_parts}, transform_matrix(t)));
  const ValueId y = c.emit(Op::matmul, {c.reshape(x, Shape{rows, t.used * t.parts}), matrix},
                           {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}});
  out.push_back(t.results);
  out.push_back(out_parts);
  c.out(0, c.reshape(y, Shape(out)), simplified(perm));
  return {};
}

/// A convolution whose filters are the rows of the transform, times the window.
Status stft(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const Shape shape = c.shape(0);
  if (shape.rank() != 3 && shape.rank() != 2) return corrupt("its signal has ", shape.rank(), " axes instead of 3");
  Transform t;
  if (shape.rank() == 3) GRAFT_TRY(check_parts(shape, t.parts));
  if (!shape[1].is_constant()) return unsupported("its signal has the symbolic length ", shape[1].text());
  GRAFT_TRY_ASSIGN(const auto step, optional_number(c, 1, "frame_step"));
  GRAFT_TRY_ASSIGN(const auto given, optional_number(c, 3, "frame_length"));
  if (c.has(2) && (c.rank(2) != 1 || !c.shape(2)[0].is_constant())) return corrupt("its window is no list of numbers");
  if (!given && !c.has(2)) return corrupt("neither its window nor its frame_length is given");
  t.length = t.used = given ? *given : c.shape(2)[0].value();
  if (c.has(2) && c.shape(2)[0] != Dim(t.length)) {
    return corrupt("its window has ", c.shape(2)[0].text(), " numbers for frames of ", t.length);
  }
  if (!step || *step < 1) return corrupt("its frame_step is not positive");
  if (t.length > shape[1].value()) return corrupt("its frames of ", t.length, " are longer than its signal");
  const bool onesided = c.attr("onesided", 1) != 0;
  t.results = onesided ? t.length / 2 + 1 : t.length;
  GRAFT_TRY(check_size(t));
  // [position, part, result, part] as filters [result and part, 1, position, part].
  HostTensor basis = HostTensor::of_floats({t.used * t.parts, t.results * 2}, transform_matrix(t));
  basis = transposed(basis, {1, 0});
  basis.dims = {t.results * 2, 1, t.used, t.parts};
  ValueId filters = c.constant(basis);
  if (c.has(2)) filters = c.emit(Op::mul, {filters, c.reshape(c.in(2), Shape{1, 1, t.length, 1})});
  const ValueId x = c.reshape(c.in(0), Shape{shape[0], 1, shape[1], t.parts});
  const ValueId y = c.emit(Op::conv, {x, filters}, {{"strides", Ints{1, *step}}});
  const std::int64_t frames = (shape[1].value() - t.length) / *step + 1;
  c.out(0, c.reshape(y, Shape{shape[0], frames, t.results, 2}));
  return {};
}

// ---- numbers

Result<HostTensor> typed(NodeContext& c, HostTensor numbers) {
  const auto type = static_cast<ElemType>(c.attr("output_datatype", static_cast<std::int64_t>(ElemType::f32)));
  if (!is_float(type) || is_narrow(type)) return unsupported("its output_datatype is ", elem_name(type));
  numbers.type = type;
  return numbers;
}

/// a0 - a1 cos(tau n / N) + a2 cos(2 tau n / N).
Status window_function(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const double given, c.number(0, "size"));
  if (!(given >= 1 && given <= 1 << 24)) return corrupt("its size is ", given);
  const auto size = static_cast<std::int64_t>(given);
  const std::int64_t turn = c.attr("periodic", 1) != 0 ? size : size - 1;
  double a0 = 0.5, a1 = 0.5, a2 = 0;
  if (c.node.op == "HammingWindow") {
    a0 = 25.0 / 46;
    a1 = 1 - a0;
  } else if (c.node.op == "BlackmanWindow") {
    a0 = 0.42;
    a2 = 0.08;
  }
  std::vector<float> numbers;
  for (std::int64_t n = 0; n < size; ++n) {
    const double angle = turn == 0 ? kTau / 2 : kTau * static_cast<double>(n) / static_cast<double>(turn);
    numbers.push_back(static_cast<float>(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle)));
  }
  GRAFT_TRY_ASSIGN(HostTensor window, typed(c, HostTensor::of_floats({size}, std::move(numbers))));
  c.out_host(0, std::move(window));
  return {};
}

Status mel_weight_matrix(NodeContext& c) {
  double in[5];
  constexpr const char* kNames[] = {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz",
                                    "upper_edge_hertz"};
  for (std::size_t i = 0; i < 5; ++i) {
    GRAFT_TRY_ASSIGN(in[i], c.number(i, kNames[i]));
    if (!(in[i] >= 0 && in[i] <= 1e9)) return corrupt("its ", kNames[i], " is ", in[i]);
  }
  const auto bins = static_cast<std::int64_t>(in[0]), length = static_cast<std::int64_t>(in[1]);
  const std::int64_t spectrum = length / 2 + 1;
  if (bins < 1 || in[2] < 1 || bins > kMostWeights / spectrum) return corrupt("its matrix has no usable size");
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(in[3]), step = (mel(in[4]) - low) / static_cast<double>(bins + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
    edges.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(length + 1) * hertz / in[2])));
    if (edges.back() < 0 || edges.back() > spectrum) return corrupt("its edges lie beyond the spectrum");
  }
  HostTensor out = HostTensor::of_floats({spectrum, bins}, {});
  out.floats.assign(static_cast<std::size_t>(spectrum * bins), 0.0f);
  const auto set = [&](std::int64_t row, std::int64_t column, double value) {
    if (row < spectrum) out.floats[static_cast<std::size_t>(row * bins + column)] = static_cast<float>(value);
  };
  for (std::int64_t i = 0; i < bins; ++i) {
    const std::int64_t first = edges[static_cast<std::size_t>(i)], centre = edges[static_cast<std::size_t>(i) + 1];
    const std::int64_t last = edges[static_cast<std::size_t>(i) + 2];
    if (centre == first) set(centre, i, 1);
    for (std::int64_t j = first; j <= centre && centre > first; ++j) {
      set(j, i, static_cast<double>(j - first) / static_cast<double>(centre - first));
    }
    for (std::int64_t j = centre; j < last; ++j) {
      set(j, i, static_cast<double>(last - j) / static_cast<double>(last - centre));
    }
  }
  GRAFT_TRY_ASSIGN(out, typed(c, std::move(out)));
  c.out_host(0, std::move(out));
  return {};
}

/// Elimination with the largest pivot of each column, step by step.
Status det(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const Shape shape = c.shape(0);
  const std::size_t rank = shape.rank();
  constexpr std::int64_t kMost = 16;
  if (rank < 2 || shape[rank - 1] != shape[rank - 2]) return corrupt("its input ", shape.text(), " is not square");
  if (!shape.back().is_constant() || shape.back().value() < 1 || shape.back().value() > kMost) {
    return unsupported("its matrices are ", shape.back().text(), " wide; at most ", kMost, " are supported");
  }
  Dim count(1);
  std::vector<Dim> out(shape.begin(), shape.end() - 2);
  for (const Dim& dim : out) {
    GRAFT_TRY_ASSIGN(count, dims_product({count, dim}));
  }
  std::int64_t n = shape.back().value();
  ValueId a = c.reshape(c.in(0), Shape{count, n, n}), total;
  for (; n > 1; --n) {
    const ValueId column = c.reshape(part_of(c, a, 2, 0, 1), Shape{count, n});
    const ValueId row =
        c.emit(Op::arg_max, {c.emit(Op::abs, {column})},
               {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{1}}, {"select_last", std::int64_t{0}}});
    HostTensor rows = HostTensor::of_ints({});
    for (std::int64_t i = 0; i < n; ++i) rows.ints.push_back(i);
    const ValueId hot = c.cast(c.emit(Op::equal, {row, integers(c, {n}, rows.ints)}), DType::f32);
    const ValueId picks = c.reshape(hot, Shape{count, n, 1});
    const ValueId best =
        c.emit(Op::reduce_sum, {c.emit(Op::mul, {a, picks})}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
    // The first row goes where the best one was.
    const ValueId moved = c.emit(Op::mul, {picks, c.emit(Op::sub, {part_of(c, a, 1, 0, 1), best})});
    const ValueId rest = part_of(c, c.emit(Op::add, {a, moved}), 1, 1, n);
    const ValueId pivot = part_of(c, best, 2, 0, 1);
    const ValueId none = c.emit(Op::equal, {pivot, scalar(c, 0)});
    const ValueId safe = c.emit(Op::where, {none, scalar(c, 1), pivot});
    const ValueId factor = c.emit(Op::div, {part_of(c, rest, 2, 0, 1), safe});
    a = c.emit(Op::sub, {part_of(c, rest, 2, 1, n), c.emit(Op::mul, {factor, part_of(c, best, 2, 1, n)})});
    const ValueId swapped = c.emit(Op::equal, {row, integers(c, {}, {0})});
    ValueId factor_of_all = c.reshape(pivot, Shape{count, 1});
    factor_of_all = c.emit(Op::where, {swapped, factor_of_all, c.emit(Op::neg, {factor_of_all})});
    total = total.valid() ? c.emit(Op::mul, {total, factor_of_all}) : factor_of_all;
  }
  const ValueId last = c.reshape(a, Shape{count, 1});
  c.out(0, c.reshape(total.valid() ? c.emit(Op::mul, {total, last}) : last, Shape(out)));
  return {};
}

}  // namespace

const RuleEntry kSignalRules[] = {
    {"DFT", 1, 3, dft},
    {"STFT", 2, 4, stft},
    {"HannWindow", 1, 1, window_function},
    {"HammingWindow", 1, 1, window_function},
    {"BlackmanWindow", 1, 1, window_function},
    {"MelWeightMatrix", 5, 5, mel_weight_matrix},
    {"Det", 1, 1, det},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
