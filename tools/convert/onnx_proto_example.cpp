#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstring>
#include <numbers>

#include "platform/os/file.h"
#include "tools/convert/example_onnx.h"

namespace graft::convert {
namespace {

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
  Network(const std::string& name, std::uint64_t seed) : random_(seed) {
    model_.set_ir_version(8);
    model_.set_producer_name("graft");
    auto* opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(13);
    model_.mutable_graph()->set_name(name);
    add_edge(*model_.mutable_graph()->add_input(), "image", {1, 28, 28});
    add_edge(*model_.mutable_graph()->add_output(), "logits", {10});
  }

  void conv(const std::string& name, int from, int to) {
    weights(name, {to, from, 5, 5}, from * 25);
    onnx::NodeProto& node = layer("Conv", name, {name + ".weight", name + ".bias"});
    ints(node, "kernel_shape", {5, 5});
  }
  void relu(const std::string& name) { layer("Relu", name, {}); }
  void max_pool(const std::string& name) {
    onnx::NodeProto& node = layer("MaxPool", name, {});
    ints(node, "kernel_shape", {2, 2});
    ints(node, "strides", {2, 2});
  }
  void flatten() { layer("Flatten", "flatten", {}); }
  void linear(const std::string& name, int from, int to) {
    weights(name, {to, from}, from);
    onnx::NodeProto& node = layer("Gemm", name, {name + ".weight", name + ".bias"});
    auto* attr = node.add_attribute();
    attr->set_name("transB");
    attr->set_type(onnx::AttributeProto::INT);
    attr->set_i(1);
  }

  std::string finish() {
    auto* graph = model_.mutable_graph();
    graph->mutable_node(graph->node_size() - 1)->set_output(0, "logits");
    return model_.SerializeAsString();
  }

 private:
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

  /// A weight of normal numbers with the deviation sqrt(2 / fan_in) (He et al. 2015), and a bias of zeros.
  void weights(const std::string& name, const std::vector<int>& dims, int fan_in) {
    tensor(name + ".weight", dims, std::sqrt(2.0 / fan_in));
    tensor(name + ".bias", {dims[0]}, 0);
  }

  void tensor(const std::string& name, const std::vector<int>& dims, double deviation) {
    onnx::TensorProto& proto = *model_.mutable_graph()->add_initializer();
    proto.set_name(name);
    proto.set_data_type(onnx::TensorProto::FLOAT);
    std::size_t count = 1;
    for (const int dim : dims) {
      proto.add_dims(dim);
      count *= static_cast<std::size_t>(dim);
    }
    std::string bytes(count * sizeof(float), '\0');
    for (std::size_t i = 0; deviation > 0 && i < count; ++i) {
      const float value = random_.next(deviation);
      std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
    }
    proto.set_raw_data(std::move(bytes));
  }

  onnx::ModelProto model_;
  Normal random_;
  std::string last_ = "image";
};

std::string lenet(std::uint64_t seed) {
  Network net("lenet", seed);
  net.conv("conv1", 1, 20);
  net.relu("relu1");
  net.max_pool("pool1");
  net.conv("conv2", 20, 50);
  net.relu("relu2");
  net.max_pool("pool2");
  net.flatten();
  net.linear("fc1", 800, 500);
  net.relu("relu3");
  net.linear("fc2", 500, 10);
  return net.finish();
}

std::string mlp(std::uint64_t seed) {
  Network net("mlp", seed);
  net.flatten();
  net.linear("fc1", 784, 128);
  net.relu("relu1");
  net.linear("fc2", 128, 10);
  return net.finish();
}

}  // namespace

std::vector<std::string> example_names() { return {"lenet", "mlp"}; }

Result<std::string> example_onnx(const std::string& name, std::uint64_t seed) {
  if (name == "lenet") return lenet(seed);
  if (name == "mlp") return mlp(seed);
  return invalid("There is no example \"", name, "\"; there are lenet and mlp.");
}

Status write_example_onnx(const std::string& name, const std::filesystem::path& path, std::uint64_t seed) {
  GRAFT_TRY_ASSIGN(const std::string bytes, example_onnx(name, seed));
  return os::atomic_write_file(os::system_files(), path.string(), bytes);
}

}  // namespace graft::convert
