#include "tools/convert/onnx/import/untrained.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "platform/base/text.h"
#include "tools/convert/onnx/import/subgraphs.h"
#include "tools/convert/onnx/proto/onnx_uses.h"

namespace graft::convert {
namespace {

using Names = std::set<std::string, std::less<>>;

std::string_view last_part(std::string_view name) {
  const auto dot = name.find_last_of("./");
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

// --- by contents

std::size_t rows_of(const HostTensor& t) {
  return t.dims.empty() || t.dims.back() == 0 ? 0 : t.count() / static_cast<std::size_t>(t.dims.back());
}

bool is_finite(const HostTensor& t) {
  return std::all_of(t.floats.begin(), t.floats.end(), [](float x) { return std::isfinite(x); });
}

/// Nothing, or something that hides what it is added to. Minus 100 is enough for Swin, where all others are alike.
bool is_additive_mask(const HostTensor& t) {
  const float low = t.floats.empty() ? 0 : *std::min_element(t.floats.begin(), t.floats.end());
  if (!(low <= -1e4F) && !(low <= -100 && t.dims.size() >= 2)) return false;
  return std::all_of(t.floats.begin(), t.floats.end(), [&](float x) { return x == 0 || x <= -1e4F || x == low; });
}

/// One matrix of ones up to a diagonal, or from one on, and zeros elsewhere.
bool is_triangle(const HostTensor& t) {
  const std::size_t rank = t.dims.size();
  if (rank < 2 || t.dims[rank - 1] < 2 || t.dims[rank - 2] < 2) return false;
  const std::int64_t columns = t.dims[rank - 1];
  if (static_cast<std::int64_t>(t.count()) != columns * t.dims[rank - 2]) return false;
  if (t.floats.front() == t.floats.back() && t.floats.front() == t.floats[static_cast<std::size_t>(columns) - 1]) {
    return false;  // nothing but ones, or zeros
  }
  const std::int64_t ones = std::count(t.floats.begin(), t.floats.begin() + columns, 1.0F);
  const auto fits = [&](bool lower) {
    const std::int64_t diagonal = lower ? ones - 1 : columns - ones;
    for (std::size_t k = 0; k < t.floats.size(); ++k) {
      const std::int64_t i = static_cast<std::int64_t>(k) / columns, j = static_cast<std::int64_t>(k) % columns;
      if (t.floats[k] != ((lower ? j <= i + diagonal : j >= i + diagonal) ? 1.0F : 0.0F)) return false;
    }
    return true;
  };
  return fits(true) || fits(false);
}

/// Whether a[i]^2 + b[i]^2 is one number for all i, as of cosines and sines. Ones and zeros, as of a fresh norm, and
/// what has no more than two values are no angles.
class Circle {
 public:
  /// Elements that were rounded to 16 bits are off by 5e-4 each.
  explicit Circle(const HostTensor& t) : tolerance_(tolerance(t)) {}
  static double tolerance(const HostTensor& t) {
    return t.type == ElemType::f32 || t.type == ElemType::f64 ? 1e-5 : 1e-2;
  }

  bool add(double a, double b) {
    const double square = a * a + b * b;
    if (count_++ == 0) radius_ = square;
    if (!(radius_ > 0) || !(std::abs(square - radius_) <= tolerance_ * radius_)) return false;
    angles_ += std::min(std::abs(a), std::abs(b)) > 1e-3 * std::sqrt(radius_);
    constexpr std::size_t kEnough = 3;
    if (values_.size() < kEnough) values_.insert(std::lround(1e4 * std::abs(a) / std::sqrt(radius_)));
    return true;
  }
  bool found() const { return count_ >= 4 && values_.size() >= 3 && angles_ * 8 >= count_; }

 private:
  double tolerance_;
  std::size_t count_ = 0;
  std::size_t angles_ = 0;
  std::set<long> values_;
  double radius_ = 0;
};

bool are_cosines_and_sines(const HostTensor& a, const HostTensor& b) {
  if (a.dims != b.dims || rows_of(a) < 2) return false;
  Circle circle(a);
  for (std::size_t i = 0; i < a.floats.size(); ++i) {
    if (!circle.add(a.floats[i], b.floats[i])) return false;
  }
  return circle.found();
}

/// Those of tables of one shape that are the cosines or sines of another one. Squares of such two add up to one number,
/// so they are spread as far: only neighbours in the order of that are compared, however many tables there are.
std::vector<const OnnxInitializer*> cosines_and_sines(const std::vector<const OnnxInitializer*>& tables) {
  struct Squares {
    const OnnxInitializer* of;
    double low, high;
    double spread() const { return high - low; }
  };
  std::vector<Squares> all;
  for (const OnnxInitializer* one : tables) {
    const auto [low, high] = std::ranges::minmax(one->tensor->floats, {}, [](float x) { return std::abs(x); });
    const Squares squares{one, double{low} * double{low}, double{high} * double{high}};
    if (squares.spread() > 0) all.push_back(squares);  // one size alone is no angle
  }
  std::ranges::sort(all, {}, &Squares::spread);
  double largest = 0;
  for (const Squares& one : all) largest = std::max(largest, one.high);
  std::vector<const OnnxInitializer*> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t k = i + 1; k < all.size(); ++k) {
      const double tolerance = elem_bits(all[i].of->tensor->type) < 32 ? 4e-2 : 4e-5;
      const double apart = all[k].spread() - all[i].spread();
      if (apart > tolerance * (all[i].low + largest)) break;
      if (apart > tolerance * (all[i].low + all[k].high)) continue;
      if (!are_cosines_and_sines(*all[i].of->tensor, *all[k].of->tensor)) continue;
      found.push_back(all[i].of);
      found.push_back(all[k].of);
    }
  }
  return found;
}

/// Sines and cosines in one table, halves of each row or neighbours, which turn by the same from each row to the next.
bool is_sinusoid(const HostTensor& t) {
  const std::size_t rows = rows_of(t);
  if (rows < 3 || t.dims.back() % 2 != 0) return false;
  const auto width = static_cast<std::size_t>(t.dims.back());
  for (const bool halves : {true, false}) {
    Circle circle(t);
    const auto at = [&](std::size_t row, std::size_t pair, std::size_t which) {
      return static_cast<double>(t.floats[row * width + (halves ? pair + which * width / 2 : 2 * pair + which)]);
    };
    const auto turn = [&](std::size_t row, std::size_t pair) {
      return at(row, pair, 0) * at(row + 1, pair, 0) + at(row, pair, 1) * at(row + 1, pair, 1);
    };
    bool fits = true;
    for (std::size_t i = 0; fits && i < rows * (width / 2); ++i) {
      const std::size_t row = i / (width / 2), pair = i % (width / 2);
      fits = circle.add(at(row, pair, 0), at(row, pair, 1));
      // Angles were rounded to f32 in relation to their size.
      fits =
          fits && (row + 1 == rows || std::abs(turn(row, pair) - turn(0, pair)) <= 1e-2 * std::abs(turn(0, 0)) + 1e-3);
    }
    if (fits && circle.found()) return true;
  }
  return false;
}

/// 1, r, r^2, ..: frequencies of rotary embeddings; from elsewhere than 1 on where they are many.
bool is_geometric(const HostTensor& t) {
  const std::size_t count = t.floats.size();
  if (count < 2 || (t.floats[0] != 1 && count < 4)) return false;
  if (static_cast<std::size_t>(*std::max_element(t.dims.begin(), t.dims.end())) != count) return false;
  const double ratio = t.floats[1] / static_cast<double>(t.floats[0]);
  if (!(ratio > 0 && ratio < 1)) return false;
  for (std::size_t i = 1; i + 1 < count; ++i) {
    if (!(std::abs(t.floats[i + 1] - ratio * t.floats[i]) <= 1e-4 * t.floats[i + 1])) return false;
  }
  return true;
}

/// Whether the numbers from `first` on, every `step`th, grow by the same along one axis and do not change along the
/// others: coordinates.
bool counts_along_an_axis(const HostTensor& t, const std::vector<std::int64_t>& dims, std::size_t first,
                          std::size_t step) {
  const std::size_t count = t.floats.size() / step;
  constexpr std::int64_t kLeast = 3;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < kLeast) continue;
    std::size_t inner = 1;
    for (std::size_t k = axis + 1; k < dims.size(); ++k) inner *= static_cast<std::size_t>(dims[k]);
    const auto at = [&](std::size_t i) { return static_cast<double>(t.floats[first + i * step]); };
    const double origin = at(0), stride = at(inner) - at(0);
    if (stride == 0) continue;
    const double off = 1e-5 * std::max(std::abs(origin), std::abs(stride) * static_cast<double>(dims[axis]));
    bool fits = true;
    for (std::size_t i = 0; fits && i < count; ++i) {
      const auto along = static_cast<double>(i / inner % static_cast<std::size_t>(dims[axis]));
      fits = std::abs(at(i) - origin - stride * along) <= off;
    }
    if (fits) return true;
  }
  return false;
}

/// 0, 1, 2, .., or the x and y of pixels, side by side in the last axis or one after the other.
bool is_grid(const HostTensor& t) {
  constexpr std::size_t kLeast = 4;
  if (t.floats.size() < kLeast) return false;
  if (counts_along_an_axis(t, t.dims, 0, 1)) return true;
  const auto parts = static_cast<std::size_t>(t.dims.back());
  if (t.dims.size() < 2 || parts < 2 || parts > 3) return false;
  const std::vector<std::int64_t> rest(t.dims.begin(), t.dims.end() - 1);
  for (std::size_t part = 0; part < parts; ++part) {
    if (!counts_along_an_axis(t, rest, part, parts)) return false;
  }
  return true;
}

// --- by use

bool any_of(const std::set<std::string_view>& set, std::initializer_list<std::string_view> all) {
  return std::any_of(all.begin(), all.end(), [&](std::string_view one) { return set.contains(one); });
}

/// Ops of which a constant that an exporter made may be the weight.
constexpr std::string_view kLayers[] = {"MatMul",
                                        "Gemm",
                                        "Conv",
                                        "ConvTranspose",
                                        "PRelu",
                                        "BatchNormalization",
                                        "LayerNormalization",
                                        "InstanceNormalization",
                                        "LSTM",
                                        "GRU",
                                        "RNN"};

/// The older exporter of PyTorch names folded constants onnx::<consumer>_<number>; the one by torch.export
/// val_<number>, and constants of the code, which it lifts out of it, by one of the other names here. Of those, only
/// operands of layers are weights.
bool is_folded(std::string_view name, const OnnxUses& uses) {
  constexpr std::string_view kPrefix = "onnx::";
  if (name.starts_with(kPrefix)) {
    name.remove_prefix(kPrefix.size());
    const std::string_view op = name.substr(0, name.rfind('_'));
    return std::ranges::find(kLayers, op) == std::end(kLayers);
  }
  for (const std::string_view made : {"val_", "lifted_tensor_", "_lifted_tensor_constant", "_tensor_constant"}) {
    if (!name.starts_with(made) || name.size() == made.size()) continue;
    if (name.find_first_not_of("0123456789", made.size()) != std::string_view::npos) continue;
    const auto purposes = uses.purposes(name, {});
    return std::ranges::none_of(kLayers, [&](std::string_view op) { return purposes.contains(op); });
  }
  return false;
}

/// One number for each channel.
bool is_by_channel(const HostTensor& t) {
  return std::count_if(t.dims.begin(), t.dims.end(), [](std::int64_t dim) { return dim != 1; }) == 1;
}

/// Names without a meaning: numbers, or of what an exporter made.
bool has_own_name(std::string_view name) {
  return !name.starts_with("onnx::") && !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
}

/// What a recurrent layer begins with where the exporter was not told of another state.
bool is_zero_state(const OnnxInitializer& initializer, const OnnxUses& uses) {
  const HostTensor& t = *initializer.tensor;
  if (has_own_name(initializer.name) || t.dims.size() != 3) return false;
  if (std::any_of(t.floats.begin(), t.floats.end(), [](float x) { return x != 0; })) return false;
  const auto purposes = uses.purposes(initializer.name, {});
  return !purposes.empty() && std::all_of(purposes.begin(), purposes.end(), [](auto op) {
    return is_one_of(op, {"LSTM", "GRU", "RNN"});
  });
}

/// Of one initializer; "" where it is a parameter.
std::string reason(const OnnxInitializer& initializer, const OnnxUses& uses) {
  const HostTensor& t = *initializer.tensor;
  const std::string_view name = initializer.name;
  if (!is_finite(t)) return "it holds infinities, as masks do";
  // The exporter folds views of parameters as well: scales and shifts of norms, biases.
  if (is_folded(name, uses) && !(is_by_channel(t) && uses.is_scale_or_shift(name))) return "the exporter computed it";
  if (is_zero_state(initializer, uses)) return "it is a state of zeros";
  if (is_one_of(last_part(name), {"inv_freq", "cos_cached", "sin_cached", "attn_mask", "anchors", "anchor_grid",
                                  "pixel_mean", "pixel_std", "relative_coords_table"}) ||
      last_part(name).ends_with("_buffer")) {
    return "its name is that of a buffer";
  }
  if (uses.is_used(name) && !uses.has_gradient(name)) return "no gradient reaches it";
  if (uses.purposes(name, {}) == std::set<std::string_view>{"DETECTION_POSTPROCESS"}) return "it holds anchors";
  if (is_additive_mask(t)) return "it is 0 or far below: a mask that is added";
  // A product's matrix may begin as anything.
  if (is_triangle(t) && !any_of(uses.purposes(name, {}), {"MatMul", "Gemm", "Conv", "Einsum", "?"})) {
    return "it is a triangle of ones: a mask";
  }
  if (is_sinusoid(t)) return "it holds cosines and sines";
  const bool of_norm = is_by_channel(t) && uses.is_scale_or_shift(name);
  if (is_grid(t) && !of_norm &&
      !any_of(uses.purposes(name, {}),
              {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Gather", "PRelu", "BatchNormalization",
               "LayerNormalization", "InstanceNormalization", "LSTM", "GRU", "RNN", "?"})) {
    return "it counts evenly: a grid, or positions";
  }
  if (is_geometric(t)) {
    const auto purposes = uses.purposes(name, {"Mul", "Div", "MatMul", "Einsum", "Concat"});
    const bool turns = !purposes.empty() && std::all_of(purposes.begin(), purposes.end(),
                                                        [](auto op) { return op == "Cos" || op == "Sin"; });
    if (turns) return "it holds the frequencies of cosines and sines";
  }
  return "";
}

// --- in bodies

bool is_weight(const HostTensor* tensor) { return tensor != nullptr && is_float(tensor->type) && tensor->count() > 1; }

std::size_t take_constants(OnnxGraph& graph) {
  const std::size_t before = graph.initializers.size();
  std::size_t inside = 0;
  change_bodies(graph, [&](OnnxGraph& body) { inside += take_constants(body); });
  std::erase_if(graph.nodes, [&](const OnnxNode& node) {
    const auto value = node.attrs.find("value");
    if (node.op != "Constant" || !node.domain.empty() || node.outputs.size() != 1 || value == node.attrs.end() ||
        !is_weight(value->second.tensor.get())) {
      return false;
    }
    graph.initializers.push_back({node.outputs[0], value->second.tensor, {}});
    return true;
  });
  return graph.initializers.size() - before + inside;
}

/// `take` says whether it took the initializer.
void lift_from_bodies(OnnxGraph& graph, const std::function<bool(OnnxInitializer&)>& take) {
  change_bodies(graph, [&](OnnxGraph& body) {
    lift_from_bodies(body, take);
    std::erase_if(body.initializers, take);
  });
}

void lift_weights(OnnxGraph& graph) {
  std::map<std::string, int, std::less<>> makers;  // of a name, in all graphs together
  for_each_graph(graph, [&](const OnnxGraph& one) {
    for (const std::string& name : defined_names(one)) ++makers[name];
  });
  std::vector<OnnxInitializer> lifted;
  lift_from_bodies(graph, [&](OnnxInitializer& initializer) {
    if (!is_weight(initializer.tensor.get()) || makers[initializer.name] != 1) return false;
    lifted.push_back(std::move(initializer));
    return true;
  });
  std::ranges::move(lifted, std::back_inserter(graph.initializers));
}

}  // namespace

bool is_running_statistic(std::string_view name) { return is_one_of(last_part(name), {"running_mean", "running_var"}); }

Status gather_weights(OnnxGraph& graph) {
  GRAFT_TRY(inline_functions(graph));
  bool any = graph.producer == "pytorch";  // whose parameters are initializers: a file of it without them has none
  for_each_graph(graph, [&](const OnnxGraph& one) {
    any = any || std::ranges::any_of(one.initializers, [&](const auto& i) { return is_weight(i.tensor.get()); });
  });
  if (const std::size_t count = any ? 0 : take_constants(graph); count > 0) {
    graph.notes.push_back(cat(count, " Constant nodes are taken for initializers: the file has none that are weights"));
  }
  lift_weights(graph);
  return {};
}

Result<Untrained> find_untrained(const OnnxGraph& graph, const ConvertOptions& options) {
  const OnnxUses uses(graph);
  std::vector<bool> used(options.constants.size() + options.parameters.size());
  const auto asked = [&](const std::vector<std::string>& patterns, std::size_t first, const std::string& name) {
    bool any = false;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      if (!matches(patterns[i], name)) continue;
      any = used[first + i] = true;
    }
    return any;
  };
  Untrained out;
  std::map<std::vector<std::int64_t>, std::vector<const OnnxInitializer*>> tables;
  for (const OnnxInitializer& initializer : graph.initializers) {
    if (initializer.tensor == nullptr || !is_float(initializer.tensor->type)) continue;
    const bool constant = asked(options.constants, 0, initializer.name);
    if (asked(options.parameters, options.constants.size(), initializer.name)) continue;
    const HostTensor& t = *initializer.tensor;
    // Of PyTorch's scalars those with the names of modules are parameters: temperatures, weights of branches.
    if (t.dims.empty() && !(graph.producer == "pytorch" && has_own_name(initializer.name))) {
      out[initializer.name] = constant ? "asked for" : "it is a number";
      continue;
    }
    const std::string why = constant ? "asked for" : reason(initializer, uses);
    const bool reached = !uses.is_used(initializer.name) || uses.has_gradient(initializer.name);
    if (options.train_buffers && !constant && reached && is_finite(t)) continue;
    if (!why.empty()) out[initializer.name] = why;
    if (why.empty() && rows_of(t) >= 2) tables[t.dims].push_back(&initializer);
  }
  for (const auto& [dims, all] : tables) {
    for (const OnnxInitializer* turned : cosines_and_sines(all)) out[turned->name] = "it holds cosines and sines";
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    const bool constant = i < options.constants.size();
    if (used[i]) continue;
    return invalid("No float tensor of the file matches \"",
                   constant ? options.constants[i] : options.parameters[i - options.constants.size()], "\".");
  }
  return out;
}

}  // namespace graft::convert
