// The activations of recurrent cells: which, with which numbers, and what their attributes look like.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/core/attrs.h"
#include "runtime/core/op_def.h"

namespace graft::ops::rnn {

/// In the order of shaders/rnn/rnn_cell.glsl.
enum class Activation : std::uint32_t {
  affine,
  elu,
  hard_sigmoid,
  leaky_relu,
  relu,
  scaled_tanh,
  sigmoid,
  softplus,
  softsign,
  tanh,
  thresholded_relu,
  count_,
};

struct ActivationUse {
  Activation kind = Activation::tanh;
  double alpha = 0;
  double beta = 0;
};

/// What the attributes say of a cell.
struct Cell {
  std::array<ActivationUse, 3> activations;  ///< as many as the cell has; the others repeat the last
  double clip = 0;                           ///< of what goes into the gates' activations; 0: none
  double state_clip = 0;                     ///< of the cell that an LSTM keeps; 0: none, and where there is a clip
  bool reverse = false;
  /// A forward step saves what goes into its activations, since what comes out does not tell their slopes.
  bool saves_sums = false;
};

// Attributes that all cells have.
inline constexpr AttrSpec kActivationsAttr = attr::text("activations");
inline constexpr AttrSpec kClipAttr = attr::number("clip").at_least(0);
inline constexpr AttrSpec kReverseAttr = attr::flag("reverse");

/// `activations` is ONNX's names with commas between them, each with its numbers where they are not ONNX's own:
/// "Sigmoid,LeakyRelu(0.1),HardSigmoid(0.3,0.5)". `fallback`: where the attribute is absent; it has as many as needed.
Result<Cell> read_cell(const Attrs& attrs, std::string_view fallback);
inline constexpr std::string_view kLstmActivations = "Sigmoid,Tanh,Tanh";
inline constexpr std::string_view kGruActivations = "Sigmoid,Tanh";
inline constexpr std::string_view kRnnActivations = "Tanh";

/// Of reference implementations: f(x), and f'(x) where y is f(x).
double activated(const ActivationUse& use, double x);
double slope(const ActivationUse& use, double x, double y);

}  // namespace graft::ops::rnn
