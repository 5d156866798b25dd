// The strongest directions of a weight, in which adapters may start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace graft {

/// A [rank, columns] and B [rows, rank] whose product B A is `matrix` [rows, columns] as its `rank` largest singular
/// values have it, each value's root in both of them. rank is at most the smaller side. By subspace iteration in double
/// precision from a start that is always the same; exact for matrices with a side of up to 64, else until the singular
/// values stand to 1e-8, or after 12 rounds: B A is then near the best product of this rank.
struct PrincipalMatrices {
  std::vector<float> a;
  std::vector<float> b;
};
PrincipalMatrices principal_matrices(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                                     std::size_t rank);

}  // namespace graft
