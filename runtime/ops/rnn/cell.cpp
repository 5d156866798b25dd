#include "runtime/ops/rnn/cell.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace graft::ops::rnn {
namespace {

struct Known {
  std::string_view name;  ///< in the order of Activation
  int numbers;
  double alpha;
  double beta;
};
constexpr Known kKnown[] = {
    {"Affine", 2, 1, 0},   {"Elu", 1, 1, 0},        {"HardSigmoid", 2, 0.2, 0.5}, {"LeakyRelu", 1, 0.01, 0},
    {"Relu", 0, 0, 0},     {"ScaledTanh", 2, 1, 1}, {"Sigmoid", 0, 0, 0},         {"Softplus", 0, 0, 0},
    {"Softsign", 0, 0, 0}, {"Tanh", 0, 0, 0},       {"ThresholdedRelu", 1, 1, 0},
};
static_assert(std::size(kKnown) == static_cast<std::size_t>(Activation::count_));

Result<double> read_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(static_cast<float>(number))) {
    return invalid("The attribute \"activations\" has \"", text, "\" where a finite number belongs.");
  }
  return number;
}

Result<ActivationUse> read_use(std::string_view text) {
  const auto open = text.find('(');
  const std::string_view name = text.substr(0, open);
  const auto known = std::ranges::find(kKnown, name, &Known::name);
  if (known == std::end(kKnown)) {
    return invalid("The attribute \"activations\" names \"", name,
                   "\"; there are Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, "
                   "Tanh and ThresholdedRelu.");
  }
  ActivationUse use{static_cast<Activation>(known - kKnown), known->alpha, known->beta};
  if (open == std::string_view::npos) return use;
  if (!text.ends_with(')')) return invalid("The attribute \"activations\" has no ')' behind \"", text, "\".");
  std::string_view numbers = text.substr(open + 1, text.size() - open - 2);
  for (int i = 0;; ++i) {
    const auto comma = std::min(numbers.find(','), numbers.size());
    if (i >= known->numbers) {
      return invalid("The attribute \"activations\" gives ", name, " more numbers than its ", known->numbers, ".");
    }
    GRAFT_TRY_ASSIGN((i == 0 ? use.alpha : use.beta), read_number(numbers.substr(0, comma)));
    if (comma == numbers.size()) return use;
    numbers.remove_prefix(comma + 1);
  }
}

/// The names between commas that stand outside of parentheses.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0, depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(text.substr(start, i - start));
      start = i + 1;
    } else if (text[i] == '(') {
      ++depth;
    } else if (text[i] == ')' && depth > 0) {
      --depth;
    }
  }
  return parts;
}

/// Whether what comes out tells the slope: the sign of what goes in is all that is needed besides.
bool tells_slope(const ActivationUse& use) {
  switch (use.kind) {
    case Activation::elu:
    case Activation::leaky_relu:
    case Activation::thresholded_relu: return use.alpha >= 0;
    default: return true;
  }
}

}  // namespace

Result<Cell> read_cell(const Attrs& attrs, std::string_view fallback) {
  Cell cell;
  const std::string text = attrs.has("activations") ? attrs.text("activations") : std::string(fallback);
  const std::vector<std::string_view> parts = parts_of(text);
  const std::size_t needed = parts_of(fallback).size();
  if (parts.size() != needed) {
    return invalid("The attribute \"activations\" is \"", text, "\", ", parts.size(), " of them; ", needed,
                   needed == 1 ? " is" : " are", " needed.");
  }
  for (std::size_t i = 0; i < cell.activations.size(); ++i) {
    GRAFT_TRY_ASSIGN(cell.activations[i], read_use(parts[std::min(i, needed - 1)]));
    // The last of an LSTM's works on the cell, which is saved.
    if (i < 2 && !tells_slope(cell.activations[i])) cell.saves_sums = true;
  }
  cell.clip = attrs.number("clip");
  if (cell.clip > 0) cell.saves_sums = true;
  cell.reverse = attrs.flag("reverse");
  return cell;
}

double activated(const ActivationUse& use, double x) {
  switch (use.kind) {
    case Activation::affine: return use.alpha * x + use.beta;
    case Activation::elu: return x < 0 ? use.alpha * std::expm1(x) : x;
    case Activation::hard_sigmoid: return std::clamp(use.alpha * x + use.beta, 0.0, 1.0);
    case Activation::leaky_relu: return x < 0 ? use.alpha * x : x;
    case Activation::relu: return std::max(x, 0.0);
    case Activation::scaled_tanh: return use.alpha * std::tanh(use.beta * x);
    case Activation::sigmoid: return 1 / (1 + std::exp(-x));
    case Activation::softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::softsign: return x / (1 + std::abs(x));
    case Activation::thresholded_relu: return x > use.alpha ? x : 0;
    default: return std::tanh(x);
  }
}

double slope(const ActivationUse& use, double x, double y) {
  switch (use.kind) {
    case Activation::affine: return use.alpha;
    case Activation::elu: return x < 0 ? y + use.alpha : 1;
    case Activation::hard_sigmoid: return y > 0 && y < 1 ? use.alpha : 0;
    case Activation::leaky_relu: return x < 0 ? use.alpha : 1;
    case Activation::relu: return x > 0 ? 1 : 0;
    case Activation::scaled_tanh: return use.alpha == 0 ? 0 : use.beta * (use.alpha - y * y / use.alpha);
    case Activation::sigmoid: return y * (1 - y);
    case Activation::softplus: return -std::expm1(-y);
    case Activation::softsign: return (1 - std::abs(y)) * (1 - std::abs(y));
    case Activation::thresholded_relu: return x > use.alpha ? 1 : 0;
    default: return 1 - y * y;
  }
}

}  // namespace graft::ops::rnn
