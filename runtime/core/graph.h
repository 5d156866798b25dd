// The graph: static single assignment, ids instead of pointers.
//
// Nodes stand in an order in which every input is produced before its use. A node may also *mutate* inputs
// (OpDef::mutates: optimizer steps, running statistics): only values of kind parameter or state, and the plan runs
// a mutating node after every other reader of that value.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/core/attrs.h"
#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"
#include "runtime/core/source_type.h"

namespace graft {

/// Generated from runtime/ops/ops.list. Whoever names an op includes runtime/core/op_id.gen.h, and nobody else: a new
/// op compiles those files again.
enum class Op : std::uint16_t;

template <typename Tag>
struct Id {
  std::uint32_t index = std::numeric_limits<std::uint32_t>::max();
  constexpr bool valid() const { return index != std::numeric_limits<std::uint32_t>::max(); }
  friend constexpr auto operator<=>(Id, Id) = default;
};
using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
/// Stands for an optional input that is not given.
inline constexpr ValueId kNoValue{};
inline constexpr NodeId kNoNode{};

enum class ValueKind : std::uint8_t {
  temporary = 0,  ///< produced by a node
  input = 1,      ///< given at each run
  constant = 2,   ///< frozen weights and folded constants
  parameter = 3,  ///< trained
  state = 4,      ///< kept from run to run: optimizer, accumulators, running statistics
};

/// How graft's order of axes came from the source model's: graft axis i is source axis perm[i]; empty = the same.
using SourcePerm = std::vector<std::uint8_t>;

struct Value {
  std::string name;  ///< unique in the graph; the source model's name where there is one
  DType dtype = DType::f32;
  ValueKind kind = ValueKind::temporary;
  Shape shape;
  NodeId producer;  ///< kNoNode for everything but temporaries
  SourcePerm source_perm;
  /// How the device keeps the elements of an f32 value: as they are, or rounded to f16 or bf16. Ops know nothing of it:
  /// kernels compute in f32 and convert where they load and store. Views must be kept as what they are views of.
  DType storage = DType::f32;
  /// Of a constant whose contents are known: the model's bytes, borrowed; valid as long as that model lives and keeps
  /// the weight. For passes that must know what a mask or a factor is; nothing of it is written to files.
  std::span<const std::byte> contents;
  /// Of inputs and outputs: the source model's element type, where that is not the dtype.
  SourceType source_type = SourceType::same;
};

/// The dtype that counts on the device: the value's own, or how an f32 value is kept.
inline DType stored_dtype(const Value& value) { return value.dtype == DType::f32 ? value.storage : value.dtype; }

struct Node {
  std::string name;  ///< unique; the source model's name where there is one
  Op op{};
  std::vector<ValueId> inputs;  ///< kNoValue for an optional input left out
  std::vector<ValueId> outputs;
  Attrs attrs;
  NodeId forward_of;  ///< the forward node that this backward node serves; kNoNode in forward
};

struct Output {
  std::string name;  ///< the source model's name
  ValueId value;
};

class Graph {
 public:
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Value& value(ValueId id) const { return values_[id.index]; }
  const Node& node(NodeId id) const { return nodes_[id.index]; }
  /// Kind, source_perm and source_type may be changed; names by rename_value(), shapes and dtypes belong to inference.
  Value& mutable_value(ValueId id) { return values_[id.index]; }
  Node& mutable_node(NodeId id) { return nodes_[id.index]; }

  std::vector<ValueId> inputs() const { return of_kind(ValueKind::input); }
  std::vector<ValueId> of_kind(ValueKind kind) const;
  const std::vector<Output>& outputs() const { return outputs_; }
  void add_output(std::string name, ValueId value) { outputs_.push_back({std::move(name), value}); }
  void clear_outputs() { outputs_.clear(); }

  /// kNoValue when there is none of this name.
  ValueId find_value(std::string_view name) const;
  NodeId find_node(std::string_view name) const;
  /// The output `name`, or else the value `name`, or else what the node of that name gives first; an error lists the
  /// inputs and outputs.
  Result<ValueId> resolve(std::string_view name) const;

  /// Adds an input, constant, parameter or state. The name must be new.
  Result<ValueId> add_value(std::string name, DType dtype, Shape shape, ValueKind kind);
  /// The same with all that a value of another graph is; `like` is no temporary.
  Result<ValueId> add_value_like(const Value& like);

  /// Adds a node at the end and infers its outputs. `name` is made unique (name, name_1, ...); outputs take the
  /// names given (which must be new), or else the node's (name, name:1, ...). Errors come from the op's inference, with
  /// the node's name as context; the graph is then unchanged.
  Result<NodeId> add_node(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string_view name = {},
                          const std::vector<std::string>& output_names = {});

  /// Every symbol that occurs in the shape of a value, sorted.
  std::vector<std::string> symbols() const;

  /// Gives a value a name that no other value has; false (and no change) where it is taken.
  bool rename_value(ValueId id, std::string name);

 private:
  using Names = std::unordered_map<std::string, std::uint32_t>;
  std::string unique_name(const Names& taken, std::string_view base);
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Output> outputs_;
  Names value_names_;
  Names node_names_;
  Names last_suffix_;  ///< so that naming stays linear in the number of nodes
};

/// Checks everything that code downstream relies on: ids in range, order, arity, attribute names and types, unique
/// names, kinds, shapes equal to what inference gives, sizes without overflow. For graphs that come from files.
Status validate(const Graph& graph);

}  // namespace graft
