// What the writers of ONNX nodes share: names, constants, and images in either order of axes.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/model/counted.h"
#include "runtime/model/model.h"
#include "tools/convert/onnx/proto/external_files.h"

namespace graft::convert {

class OnnxWriter {
 public:
  /// `external`: takes large weights; null: all stand in the graph.
  OnnxWriter(const Model& model, onnx::GraphProto& out, std::int64_t opset, ExternalWriter* external)
      : model_(model), graph_(model.graph), out_(out), opset_(opset), external_(external) {}

  /// Inputs and weights; then each node; then outputs.
  Status run();

  std::int64_t opset() const { return opset_; }
  /// An error where this opset is older, after which needed() says so.
  Status need_opset(std::int64_t opset);
  std::int64_t needed() const { return needed_; }

  const Shape& shape(ValueId v) const { return graph_.value(v).shape; }
  DType dtype(ValueId v) const { return graph_.value(v).dtype; }
  const Graph& graph() const { return graph_; }

  /// Whether a node or the caller reads it.
  bool is_read(ValueId v) const;
  /// The value as graft has it, or with its channels (the last axis) in front of its rows and columns.
  std::string name(ValueId v);
  std::string channels_first(ValueId v);
  /// Says what a value is: under its own name, or with its channels in front.
  void is(ValueId v, const std::string& made);
  void is_channels_first(ValueId v, const std::string& made);

  using Attr = std::pair<std::string_view, AttrValue>;
  std::string add(std::string_view op, const std::vector<std::string>& inputs, const std::vector<Attr>& attrs = {});
  /// A node of several outputs, of which the names come back; last_node() is it, for attributes that AttrValue does not
  /// hold.
  std::vector<std::string> add_all(std::string_view op, const std::vector<std::string>& inputs, std::size_t outputs,
                                   const std::vector<Attr>& attrs = {});
  onnx::NodeProto& last_node() { return *out_.mutable_node(out_.node_size() - 1); }
  std::string ints(const Ints& values);
  std::string numbers(const std::vector<std::int64_t>& dims, const std::vector<float>& values);
  /// A scalar of the type.
  std::string number(double value, DType dtype = DType::f32);
  /// A tensor of these bytes.
  std::string raw(int type, const std::vector<std::int64_t>& dims, std::string_view bytes);
  /// What a weight holds, as the device has it; nullopt of what is none.
  std::optional<std::span<const std::byte>> contents(ValueId v) const { return model_.weight(v); }
  std::string gelu(const std::string& x, bool tanh);
  std::string cast(const std::string& x, std::int64_t to);
  /// Of the tensor x over these axes, or all of them: ReduceSum and its like.
  std::string reduced(std::string_view op, const std::string& x, const Ints& axes, bool keep);
  /// Sizes as a tensor of int64; symbols are read off inputs.
  Result<std::string> sizes(const Shape& shape);
  /// The same for a reshape, where one symbolic size may be said as -1.
  Result<std::string> reshape_sizes(const Shape& shape);

 private:
  bool becomes_output(ValueId v) const;
  Status add_weight(ValueId v);
  void add_value(onnx::ValueInfoProto& to, const std::string& name, const Value& value);
  Status write_node(const Node& node);
  std::string fresh();
  Result<std::string> size(const Dim& dim);
  Result<std::string> symbol(const std::string& name);
  Status add_output(const Output& output, const CountedOutput* counted);

  const Model& model_;
  const Graph& graph_;
  onnx::GraphProto& out_;
  std::int64_t opset_, needed_ = 0;
  ExternalWriter* external_;
  std::map<ValueId, std::string> plain_, first_;
  std::map<std::string, std::string> symbols_;
  std::size_t made_ = 0;
};

/// Whether nothing but nodes of 8-bit weights reads it, which write it as a tensor of their own.
bool is_packed_weight(const Graph& graph, ValueId v);

// By family; false where the op is none of it.
Result<bool> write_elementwise(OnnxWriter& w, const Node& node);
Result<bool> write_layer(OnnxWriter& w, const Node& node);
Result<bool> write_move(OnnxWriter& w, const Node& node);
Result<bool> write_recurrent(OnnxWriter& w, const Node& node);
Result<bool> write_quantized(OnnxWriter& w, const Node& node);
Result<bool> write_transformer(OnnxWriter& w, const Node& node);
Result<bool> write_integer(OnnxWriter& w, const Node& node);
Result<bool> write_chosen(OnnxWriter& w, const Node& node);

}  // namespace graft::convert
