#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "tools/convert/common/export_tensor.h"
#include "tools/convert/common/host_tensor.h"
#include "tools/convert/onnx/export_onnx.h"
#include "tools/convert/onnx/onnx_graph.h"
#include "tools/convert/onnx/quantized_values.h"

namespace graft::convert {
namespace {

/// The dtype whose bytes an initializer holds; f64 is made of f32.
Result<DType> written_as(ElemType type) {
  if (type == ElemType::f32 || type == ElemType::f64) return DType::f32;
  if (type == ElemType::f16) return DType::f16;
  if (type == ElemType::bf16) return DType::bf16;
  return unsupported("It is of the type ", elem_name(type), "; floats can be written.");
}

std::string as_doubles(std::span<const std::byte> bytes) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    const double wide = number;
    out.append(reinterpret_cast<const char*>(&wide), sizeof wide);
  }
  return out;
}

/// How an initializer of integers is made of numbers: as the DequantizeLinear that reads it undoes it.
Result<QuantizedForm> quantized_form(const OnnxGraph& graph, const std::string& name) {
  const auto known = [&](const std::string& input) -> const HostTensor* {
    for (const OnnxInitializer& initializer : graph.initializers) {
      if (initializer.name == input) return initializer.tensor.get();
    }
    for (const OnnxNode& node : graph.nodes) {
      const auto value = node.attrs.find("value");
      if (node.op == "Constant" && node.outputs[0] == input && value != node.attrs.end()) {
        return value->second.tensor.get();
      }
    }
    return nullptr;
  };
  for (const OnnxNode& node : graph.nodes) {
    if (node.op != "DequantizeLinear" || node.inputs.size() < 2 || node.inputs[0] != name) continue;
    const auto number = [&](const char* attr, std::int64_t fallback) {
      const auto found = node.attrs.find(attr);
      return found == node.attrs.end() ? fallback : found->second.integer;
    };
    const bool has_zero = node.inputs.size() > 2 && !node.inputs[2].empty();
    QuantizedForm form{known(node.inputs[1]), has_zero ? known(node.inputs[2]) : nullptr, number("axis", 1),
                       number("block_size", 0)};
    if (form.scale == nullptr || (has_zero && form.zero_point == nullptr)) break;
    return form;
  }
  return unsupported("It holds integers, and no DequantizeLinear with known scales says what they stand for.");
}

Status put(ExportTensor tensor, onnx::TensorProto& to, const OnnxGraph& graph) {
  if (to.data_location() == onnx::TensorProto::EXTERNAL) {
    return unsupported("Its contents lie in another file (external data), which is not written.");
  }
  const std::vector<std::int64_t> dims(to.dims().begin(), to.dims().end());
  if (dims != tensor.dims()) {
    return corrupt("Its shape in the file is ", Shape::of(dims).text(), ", in the model ",
                   Shape::of(tensor.dims()).text(), ": this model, as one with a resized head, is exported without --source.");
  }
  const auto type = static_cast<ElemType>(to.data_type());
  const bool quantizes = is_integer(type) && tensor.source.dtype == DType::f32;
  GRAFT_TRY_ASSIGN(tensor.dtype, quantizes ? DType::f32 : written_as(type));
  GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
  if (quantizes) {
    GRAFT_TRY_ASSIGN(const QuantizedForm form, quantized_form(graph, to.name()));
    HostTensor numbers = HostTensor::of_floats(dims, std::vector<float>(made.bytes.size() / sizeof(float)));
    std::memcpy(numbers.floats.data(), made.bytes.data(), made.bytes.size());
    GRAFT_TRY_ASSIGN(const HostTensor q, quantized(numbers, form, type));
    to.clear_int32_data();
    to.set_raw_data(raw_integers(q));
    return {};
  }
  const std::string_view raw(reinterpret_cast<const char*>(made.bytes.data()), made.bytes.size());
  to.clear_float_data();
  to.clear_double_data();
  to.clear_int32_data();
  to.set_raw_data(type == ElemType::f64 ? as_doubles(made.bytes) : std::string(raw));
  return {};
}

/// Where weights stand in a file, by name: initializers and Constant nodes (as which some exporters write them), of
/// bodies too. nullptr: the file has several of that name.
using Weights = std::map<std::string, onnx::TensorProto*, std::less<>>;

void find_weights(onnx::GraphProto& graph, Weights& found) {
  const auto add = [&](const std::string& name, onnx::TensorProto* tensor) {
    const auto [place, first] = found.emplace(name, tensor);
    if (!first) place->second = nullptr;
  };
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) add(tensor.name(), &tensor);
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) find_weights(*attribute.mutable_g(), found);
      const bool constant = node.op_type() == "Constant" && node.output_size() == 1 && attribute.name() == "value";
      if (constant && attribute.has_t()) add(node.output(0), attribute.mutable_t());
    }
  }
}

/// Exporters write equal tensors once, and give the others' names to copies of it (Identity): a copy that was trained
/// becomes an initializer of its own. nullptr where the name is no copy.
onnx::TensorProto* own_initializer(onnx::GraphProto& graph, const std::string& name, Weights& weights) {
  const auto copies = [](const onnx::NodeProto& node, const std::string& made) {
    return node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1 && node.output(0) == made;
  };
  std::string from = name;
  for (int hops = 0; hops < graph.node_size() && !weights.contains(from); ++hops) {
    const auto node = std::ranges::find_if(graph.node(), [&](const auto& n) { return copies(n, from); });
    if (node == graph.node().end()) return nullptr;
    from = node->input(0);
  }
  const auto found = weights.find(from);
  if (found == weights.end() || found->second == nullptr) return nullptr;
  auto& nodes = *graph.mutable_node();
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), [&](const auto& node) { return copies(node, name); }),
              nodes.end());
  onnx::TensorProto& own = *graph.add_initializer();
  own = *found->second;  // its type and shape: what it holds is written next
  own.set_name(name);
  weights[name] = &own;
  return &own;
}

}  // namespace

Result<ExportReport> export_onnx(os::FileSystem& files, const std::string& path, const Model& model,
                                 const std::string& source) {
  const LoadLimits limits;
  GRAFT_TRY_ASSIGN(const HostBuffer bytes, os::read_file(files, source, limits.max_file_bytes));
  // The hardened reader first: what it accepts is a whole model.
  auto parsed = parse_onnx(bytes.bytes(), std::filesystem::path(source).parent_path(), limits).with_context(source);
  if (!parsed.ok()) return parsed.status();
  onnx::ModelProto file;
  if (!file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return corrupt("\"", source, "\" is not a complete ONNX model.");
  }
  Weights weights;
  find_weights(*file.mutable_graph(), weights);
  ExportReport report;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const Value& value = model.graph.values()[i];
    const auto contents = model.weight({i});
    const bool kept = value.kind == ValueKind::parameter || value.kind == ValueKind::state;
    if (!contents || !kept) continue;
    const auto found = weights.find(value.name);
    if (found != weights.end() && found->second == nullptr) {
      return unsupported("\"", source, "\" has several tensors named \"", value.name, "\", in bodies of its nodes.");
    }
    onnx::TensorProto* to =
        found != weights.end() ? found->second : own_initializer(*file.mutable_graph(), value.name, weights);
    if (to == nullptr) {
      return error(Code::not_found, "The parameter \"", value.name, "\" is no initializer of \"", source, "\".");
    }
    ExportTensor tensor = export_tensor(value, *contents);
    report.bytes += tensor.bytes();
    ++report.tensors;
    GRAFT_TRY(put(std::move(tensor), *to, *parsed).with_context(cat("The initializer \"", value.name, "\"")));
  }
  std::string out;
  if (!file.SerializeToString(&out)) return invalid("The ONNX file would be larger than 2 GiB.");
  report.files = {path};
  GRAFT_TRY(os::atomic_write_file(files, path, out));
  return report;
}

}  // namespace graft::convert
