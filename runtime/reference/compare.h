// How far a device's numbers are from the reference's.
#pragma once

#include <vector>

namespace graft {

/// The largest |actual - expected| over the root mean square of `expected`; infinite where only one is not a number.
double worst_error(const std::vector<double>& actual, const std::vector<double>& expected);

}  // namespace graft
