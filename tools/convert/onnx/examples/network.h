// Writing example networks as ONNX: a chain of layers, from which branches can be taken.
#pragma once

#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <string>
#include <vector>

namespace graft::convert {

/// SplitMix64 (Steele, Lea, Flood 2014) and Box-Muller: the same numbers on every machine.
class Normal {
 public:
  explicit Normal(std::uint64_t seed) : state_(seed) {}
  float next(double deviation) {
    const double u = (static_cast<double>(bits() >> 11) + 1) * 0x1p-53;  // (0, 1]
    const double v = static_cast<double>(bits() >> 11) * 0x1p-53;
    return static_cast<float>(deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }

 private:
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

class Network {
 public:
  /// `input` [batch, dims...] to `output` [batch, results]. Of dims the first are channels, all others are axes that
  /// convolutions and pools go along.
  Network(const std::string& name, std::uint64_t seed, const std::vector<int>& dims, int results,
          const std::string& input = "image", const std::string& output = "logits")
      : random_(seed), axes_(dims.size() - 1), output_(output), last_(input) {
    model_.set_ir_version(8);
    model_.set_producer_name("graft");
    auto* opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(13);
    model_.mutable_graph()->set_name(name);
    add_edge(*model_.mutable_graph()->add_input(), input, dims);
    add_edge(*model_.mutable_graph()->add_output(), output, {results});
  }

  /// `bias` false: a batch norm follows, which has one.
  void conv(const std::string& name, int from, int to, int kernel, int stride = 1, int pad = 0, bool bias = true) {
    std::vector<int> dims = along_axes(kernel);
    int fan_in = from;
    for (const int dim : dims) fan_in *= dim;
    dims.insert(dims.begin(), {to, from});
    tensor(name + ".weight", dims, std::sqrt(2.0 / fan_in));
    if (bias) tensor(name + ".bias", {to}, 0);
    std::vector<std::string> inputs = {name + ".weight"};
    if (bias) inputs.push_back(name + ".bias");
    onnx::NodeProto& node = layer("Conv", name, inputs);
    ints(node, "kernel_shape", along_axes(kernel));
    if (stride != 1) ints(node, "strides", along_axes(stride));
    if (pad != 0) ints(node, "pads", along_axes(pad, 2));
  }
  void batch_norm(const std::string& name, int channels) {
    for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"}) {
      const bool one = part == std::string(".weight") || part == std::string(".running_var");
      filled(name + part, {channels}, one ? 1.0f : 0.0f);
    }
    layer("BatchNormalization", name,
          {name + ".weight", name + ".bias", name + ".running_mean", name + ".running_var"});
  }
  void layer_norm(const std::string& name, int width) {
    filled(name + ".weight", {width}, 1);
    filled(name + ".bias", {width}, 0);
    layer("LayerNormalization", name, {name + ".weight", name + ".bias"});
  }
  /// Of the last axis, for any rank.
  void matmul(const std::string& name, int from, int to) {
    tensor(name + ".weight", {from, to}, std::sqrt(1.0 / from));
    tensor(name + ".bias", {to}, 0);
    layer("MatMul", name, {name + ".weight"});
    layer("Add", name + ".add", {name + ".bias"});
  }
  void add_weight(const std::string& name, const std::vector<int>& dims, double deviation) {
    tensor(name, dims, deviation);
    layer("Add", name + ".add", {name});
  }
  void relu(const std::string& name) { layer("Relu", name, {}); }
  void max_pool(const std::string& name, int kernel = 2, int pad = 0) {
    onnx::NodeProto& node = layer("MaxPool", name, {});
    ints(node, "kernel_shape", along_axes(kernel));
    ints(node, "strides", along_axes(2));
    if (pad != 0) ints(node, "pads", along_axes(pad, 2));
  }
  void flatten() { layer("Flatten", "flatten", {}); }
  void linear(const std::string& name, int from, int to) {
    weights(name, {to, from}, from);
    integer(layer("Gemm", name, {name + ".weight", name + ".bias"}), "transB", 1);
  }

  /// A node without weights on the last value and `more`.
  void plain(const std::string& op, const std::string& name, const std::vector<std::string>& more = {}) {
    layer(op, name, more);
  }
  void reshape(const std::string& name, const std::vector<std::int64_t>& dims) {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(name + ".shape");
    proto.set_data_type(onnx::TensorProto::INT64);
    proto.add_dims(static_cast<std::int64_t>(dims.size()));
    for (const std::int64_t dim : dims) proto.add_int64_data(dim);
    layer("Reshape", name, {name + ".shape"});
  }
  void transpose(const std::string& name, const std::vector<int>& perm) {
    ints(layer("Transpose", name, {}), "perm", perm);
  }
  void softmax(const std::string& name) { integer(layer("Softmax", name, {}), "axis", -1); }
  void mean(const std::string& name, int axis) {
    onnx::NodeProto& node = layer("ReduceMean", name, {});
    ints(node, "axes", {axis});
    integer(node, "keepdims", 0);
  }
  void multiply(const std::string& name, float factor) {
    filled(name + ".factor", {}, factor);
    layer("Mul", name, {name + ".factor"});
  }
  void increase(const std::string& name, float by) {
    filled(name + ".by", {}, by);
    layer("Add", name, {name + ".by"});
  }

  /// The value that the next layer takes; set to branch.
  const std::string& last() const { return last_; }
  void set_last(const std::string& value) { last_ = value; }
  void set_opset(int version) { model_.mutable_opset_import(0)->set_version(version); }

  std::string finish() {
    auto* graph = model_.mutable_graph();
    graph->mutable_node(graph->node_size() - 1)->set_output(0, output_);
    return model_.SerializeAsString();
  }

 private:
  /// The number for each axis, `times` over.
  std::vector<int> along_axes(int number, std::size_t times = 1) const {
    return std::vector<int>(axes_ * times, number);
  }

  static void add_edge(onnx::ValueInfoProto& value, const std::string& name, const std::vector<int>& dims) {
    value.set_name(name);
    auto* type = value.mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_param("batch");
    for (const int dim : dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }

  onnx::NodeProto& layer(const std::string& op, const std::string& name, const std::vector<std::string>& more) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(op);
    node.set_name(name);
    node.add_input(last_);
    for (const std::string& input : more) node.add_input(input);
    last_ = name + ".out";
    node.add_output(last_);
    return node;
  }

  static void ints(onnx::NodeProto& node, const std::string& name, const std::vector<int>& values) {
    auto* attr = node.add_attribute();
    attr->set_name(name);
    attr->set_type(onnx::AttributeProto::INTS);
    for (const int v : values) attr->add_ints(v);
  }

  static void integer(onnx::NodeProto& node, const std::string& name, int value) {
    auto* attr = node.add_attribute();
    attr->set_name(name);
    attr->set_type(onnx::AttributeProto::INT);
    attr->set_i(value);
  }

  /// A weight of normal numbers with the deviation sqrt(2 / fan_in) (He et al. 2015), and a bias of zeros.
  void weights(const std::string& name, const std::vector<int>& dims, int fan_in) {
    tensor(name + ".weight", dims, std::sqrt(2.0 / fan_in));
    tensor(name + ".bias", {dims[0]}, 0);
  }

  void tensor(const std::string& name, const std::vector<int>& dims, double deviation) {
    add_tensor(name, dims, [&] { return deviation > 0 ? random_.next(deviation) : 0.0f; });
  }
  void filled(const std::string& name, const std::vector<int>& dims, float value) {
    add_tensor(name, dims, [&] { return value; });
  }

  template <typename Next>
  void add_tensor(const std::string& name, const std::vector<int>& dims, const Next& next) {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(onnx::TensorProto::FLOAT);
    std::size_t count = 1;
    for (const int dim : dims) {
      proto.add_dims(dim);
      count *= static_cast<std::size_t>(dim);
    }
    std::string bytes(count * sizeof(float), '\0');
    for (std::size_t i = 0; i < count; ++i) {
      const float value = next();
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    proto.set_raw_data(std::move(bytes));
  }

  onnx::ModelProto model_;
  Normal random_;
  std::size_t axes_;
  std::string output_;
  std::string last_;
};

// The larger examples.
std::string resnet18_onnx(std::uint64_t seed);
std::string vit_small_onnx(std::uint64_t seed);

}  // namespace graft::convert
