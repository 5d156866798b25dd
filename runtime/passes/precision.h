// Mixed precision: which results and weights of a training or inference graph the device keeps in 16 bits.
//
// Kernels compute in f32 whatever is stored (Value::storage), so this is a choice about memory and rounding alone.
// Kept in f32: weights that are trained, or that are no factors of products; optimizers' state and arithmetic, losses
// and their gradients, statistics of rows (softmax, norms, attention), gradients of parameters, all that the host gives or reads,
// and what is small.
// P. Micikevicius et al., "Mixed Precision Training", ICLR 2018.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::passes {

/// "f32", "f16", "bf16".
Result<DType> parse_precision(std::string_view name);
/// invalid_argument where it is none of these.
Status check_precision(DType precision);

/// Results of one op, of a forward or a backward node, that are treated alike; or weights.
struct PrecisionRow {
  std::string op;  ///< kWeightsRow: weights
  bool backward = false;
  DType storage = DType::f32;
  std::string reason;  ///< why they are kept in f32; empty where they are not
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;  ///< as stored
};

struct PrecisionReport {
  DType storage = DType::f32;      ///< what was asked for
  std::vector<PrecisionRow> rows;  ///< by op, in the order of the alphabet; empty for f32
  std::uint64_t low_precision_values() const;
};

/// Why this output of an op is kept in f32 wherever it stands; empty where it need not be.
std::string_view wide_output(Op op, std::size_t output, bool backward);

inline constexpr std::string_view kWeightsRow = "weights";

using WeightNames = std::set<std::string, std::less<>>;

/// Constants and parameters of a model, by name, that may be kept in 16 bits as long as nobody trains them: matrices
/// that are factors of products, filters, and tables whose rows are looked up. Of the model itself, since each graph
/// that is made of it has to treat them alike.
WeightNames low_precision_weights(const Graph& model);

enum class Parameters : std::uint8_t { trained, frozen };

/// Sets the storage of results of a bound graph, its outputs known; `storage` is f32, f16 or bf16. Also of the weights
/// among `weights`: constants, and parameters that are frozen. Values that parameters' optimizers read must be there by
/// now.
Result<PrecisionReport> store_results(Graph& graph, DType storage, const WeightNames& weights, Parameters parameters);

}  // namespace graft::passes
