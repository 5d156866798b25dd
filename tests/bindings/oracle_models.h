// graft's own classes cannot be named beside those of graft.hpp: what oracle.cpp needs of the former.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace graft::test {

inline constexpr std::uint32_t kOracleInputs = 5;
inline constexpr std::int32_t kOracleClasses = 3;

/// mlp.graft and letters.graft; false where one could not be written.
bool write_oracle_models(const std::string& folder);
/// The device that tests run on.
std::string oracle_device();
/// Rows of random numbers in [-1, 1].
std::vector<float> oracle_samples(std::uint32_t count);

}  // namespace graft::test
