// What the writers of ONNX nodes share: names, constants, and images in either order of axes.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/model/model.h"

namespace graft::convert {

class OnnxWriter {
 public:
  OnnxWriter(const Model& model, onnx::GraphProto& out) : model_(model), graph_(model.graph), out_(out) {}

  /// Inputs and weights; then each node; then outputs.
  Status run();

  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }
  const Graph& graph() const { return graph_; }

  /// The value as graft has it, or with its channels (the last axis) in front of its rows and columns.
  std::string name(ValueId v);
  std::string channels_first(ValueId v);
  /// Says what a value is: under its own name, or with its channels in front.
  void is(ValueId v, const std::string& made);
  void is_channels_first(ValueId v, const std::string& made);

  using Attr = std::pair<std::string_view, AttrValue>;
  std::string add(std::string_view op, const std::vector<std::string>& inputs, const std::vector<Attr>& attrs = {});
  /// A node of several outputs, of which the names come back; last_node() is it, for attributes that AttrValue does not hold.
  std::vector<std::string> add_all(std::string_view op, const std::vector<std::string>& inputs, std::size_t outputs,
                                   const std::vector<Attr>& attrs = {});
  onnx::NodeProto& last_node() { return *out_.mutable_node(out_.node_size() - 1); }
  std::string ints(const Ints& values);
  std::string numbers(const std::vector<std::int64_t>& dims, const std::vector<float>& values);
  /// A scalar of the type.
  std::string number(double value, DType dtype = DType::f32);
  /// Sizes as a tensor of int64; symbols are read off inputs.
  Result<std::string> sizes(const Shape& shape);
  /// The same for a reshape, where one symbolic size may be said as -1.
  Result<std::string> reshape_sizes(const Shape& shape);

 private:
  Status add_weight(ValueId v);
  void add_value(onnx::ValueInfoProto& to, const std::string& name, const Value& value);
  Status write_node(const Node& node);
  std::string fresh();
  Result<std::string> size(const Dim& dim);
  Result<std::string> symbol(const std::string& name);

  const Model& model_;
  const Graph& graph_;
  onnx::GraphProto& out_;
  std::map<ValueId, std::string> plain_, first_;
  std::map<std::string, std::string> symbols_;
  std::size_t made_ = 0;
};

// By family; false where the op is none of it.
Result<bool> write_elementwise(OnnxWriter& w, const Node& node);
Result<bool> write_layer(OnnxWriter& w, const Node& node);
Result<bool> write_move(OnnxWriter& w, const Node& node);
Result<bool> write_recurrent(OnnxWriter& w, const Node& node);
Result<bool> write_quantized(OnnxWriter& w, const Node& node);

}  // namespace graft::convert
