// Differential privacy of deltas: bounded influence, Gaussian noise, and what the two cost.
// McMahan et al., "Learning Differentially Private Recurrent Language Models", 2018.
//
// Noise is drawn in double precision from the system's entropy. It does not hide from whoever sees the lowest bits of
// the sums: I. Mironov, "On Significance of the Least Significant Bits for Differential Privacy", 2012.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::delta {

using Numbers = std::map<std::string, std::vector<double>>;

/// The L2 norm of all numbers together.
double norm_of(const Numbers& numbers);
/// Multiplies all by limit / norm where that is below 1.
void clip(Numbers& numbers, double norm, double limit);
/// Adds to each a normal number of this standard deviation. Without a seed from the system's entropy; io_error where it
/// has none.
Status add_noise(Numbers& numbers, double deviation, std::optional<std::uint64_t> seed);

struct Privacy {
  double epsilon = 0;
  std::uint32_t order = 0;  ///< of the Rényi divergence that gave it
};

/// What `rounds` rounds cost a client at most: their sums are (epsilon, delta)-differentially private against adding or
/// taking away one client, where each round takes each client with probability `rate`, clips its delta to C and adds
/// noise of standard deviation `noise` * C to the sum. Rényi divergence of the sampled Gaussian mechanism at integer
/// orders (Mironov, Talwar, Zhang 2019, equation 3.3), turned into epsilon by Canonne, Kamath, Steinke 2020,
/// proposition 12. invalid_argument: numbers out of range.
Result<Privacy> privacy_of(double noise, double rate, std::uint64_t rounds, double delta);

}  // namespace graft::delta
