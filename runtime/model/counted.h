// Outputs that are as long as the data decide: boxes that a detector keeps, elements that are not zero. The graph has
// room for the most that there can be, and another output says how many there are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace graft {

/// The key of Model::metadata: lines of an output's name, an axis and the output that counts it, with tabs between.
inline constexpr std::string_view kMetaCounted = "outputs.counted";

struct CountedOutput {
  std::string name;
  std::size_t axis = 0;  ///< in the source's order of axes
  std::string count;     ///< the output, one i32, that says how many there are along it
};

/// What Model::metadata says under kMetaCounted. corrupt where it names outputs or axes that the graph does not have.
Result<std::vector<CountedOutput>> counted_outputs(const Model& model);
/// As the metadata holds it.
std::string counted_text(std::span<const CountedOutput> outputs);

}  // namespace graft
