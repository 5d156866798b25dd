// From verified FlatBuffers tables to a Graph. The verifier has seen to it that every table, vector and string lies
// within the root; nothing else about them is trusted.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/model/model.h"
#include "schema/model_generated.h"

namespace graft::model_format {

/// Elements of a vector that may be absent.
template <typename T>
std::uint32_t count_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

/// Pays for everything that is copied out of the root with the root's own size. Tables of a FlatBuffer may share
/// their contents, so that a small file could otherwise unfold to a huge graph.
class Budget {
 public:
  explicit Budget(std::uint64_t bytes) : left_(bytes) {}
  Status take(std::uint64_t count, std::uint64_t size);

 private:
  std::uint64_t left_;
};

Result<std::string> read_name(const flatbuffers::String* text, std::string_view what, Budget& budget);
/// `limit`: how many values there are.
Result<std::vector<Output>> read_named_values(const flatbuffers::Vector<flatbuffers::Offset<fb::NamedValue>>* list,
                                              std::size_t limit, std::string_view what, Budget& budget);

/// Values, nodes and outputs. Values come out with the ids that they have in the file.
Result<Graph> read_graph(const fb::Graph& file, Budget& budget);

}  // namespace graft::model_format
