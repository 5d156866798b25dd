// Random numbers of other distributions than random.h's.
#pragma once

#include "runtime/data/random.h"

namespace graft::data {

double normal(Random& random);
/// The logarithm of a gamma variate of this shape: small shapes give numbers that a double does not hold.
double log_gamma_variate(Random& random, double shape);
/// Of Beta(alpha, alpha), from 0 to 1.
double beta_variate(Random& random, double alpha);

}  // namespace graft::data
