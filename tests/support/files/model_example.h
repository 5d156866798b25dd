// Small models and the bytes of their files, for the tests of everything that reads or writes model files.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "schema/model_generated.h"

namespace graft::test {

using Bytes = std::vector<std::byte>;

/// Every feature of the format in a few hundred bytes: symbols, all kinds of values, optional inputs left out, a node
/// without outputs, all types of attributes that ops here have, source axes, signatures, metadata, defaults.
Model example_model();

/// A node or two of every family of ops that may stand in a file, with all their attributes: the ground for changed and
/// fuzzed files, which bring nonsense to every op's inference. Ops that the build lacks are left out.
Model model_of_many_ops();

/// What save_model() writes for it.
Bytes file_of(const Model& model);

/// Empty where the two hold the same; otherwise what differs first. Weights are compared by their bytes.
std::string difference(const Model& a, const Model& b);

/// A model file as an object that can be changed at will, and turned back into a file whose header and checksum are
/// right. The segments' bytes stay as they were.
class ModelEditor {
 public:
  explicit ModelEditor(Bytes file);
  fb::ModelT tables;
  /// Requires a root below the first segment, which example models have.
  Bytes bytes() const;

 private:
  Bytes file_;
};

/// Makes the header agree with changed bytes: `file_bytes` and the root's checksum.
void reseal(Bytes& file, std::size_t root_bytes);
std::size_t root_bytes_of(const Bytes& file);

}  // namespace graft::test
