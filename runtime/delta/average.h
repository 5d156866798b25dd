// The average of what several clients changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/delta/delta.h"

namespace graft::delta {

enum class Weighing : std::uint8_t {
  samples,  ///< each client by the samples that it trained on
  equal,    ///< as noise for privacy wants it
};

struct AverageOptions {
  Weighing weighing = Weighing::samples;
  /// Added to the sum of the clients, each clipped to `clip_norm`: multiplier of that norm; 0: none. Weighing::equal.
  double noise = 0;
  double clip_norm = 0;
  std::optional<std::uint64_t> seed;  ///< of the noise, for tests; default: the system's entropy
  /// With noise, what the sum is divided by: the number of clients that a round expects where each is drawn by chance,
  /// since how many came tells of them. 0: those that were added, whose number is no secret then.
  double expected_clients = 0;
};

/// Adds deltas up, one at a time, in double precision; deltas of integers as integers, exactly and in any order.
/// A tensor that a delta lacks did not change there.
class Averager {
 public:
  explicit Averager(const AverageOptions& options) : options_(options) {}
  /// invalid_argument: another base, another kind, other shapes, or integers beside numbers. With noise also a delta
  /// that is longer than clip_norm, or that lacks a tensor that the first one has: it would go without noise.
  Status add(const Delta& delta);
  /// The average as f32 numbers, of as many clients and samples as were added.
  Result<Delta> finish();

 private:
  Status check(const Delta& delta) const;
  Status check_privacy(const Delta& delta) const;
  struct Sum {
    Shape shape;
    DType dtype = DType::f32;
    std::vector<double> numbers;
    std::vector<std::uint32_t> integers;  ///< of Coding::fixed
  };
  AverageOptions options_;
  std::optional<Delta> like_;  ///< the first one, without its tensors
  std::map<std::string, Sum> sums_;
  double weight_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t local_steps_ = 0;
  std::uint32_t clients_ = 0;
};

struct Products {
  Delta average;
  double kept = 1;  ///< share of the squared norm of the exact average that matrices of the rank hold
};

/// The average of the adapters' products (alpha / r) B A, by samples, made into matrices of `rank` (0: of the largest
/// among them) again: the best there are, by a singular value decomposition. The mean of the matrices is not that of
/// the products: Sun et al., "Improving LoRA in Privacy-preserving Federated Learning", 2024. Deltas of Kind::adapters.
Result<Products> average_products(const std::vector<Delta>& deltas, std::uint32_t rank, Weighing weighing);

}  // namespace graft::delta
