#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "tools/convert/common/export_tensor.h"
#include "tools/convert/common/host_tensor.h"
#include "tools/convert/onnx/export/export_onnx.h"
#include "tools/convert/onnx/nodes/quantized_values.h"
#include "tools/convert/onnx/proto/external_files.h"
#include "tools/convert/onnx/proto/onnx_graph.h"

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

/// New contents of an initializer.
struct Contents {
  ExportTensor tensor;
  ElemType type;
  std::string name;
  std::optional<QuantizedForm> form;  ///< of integers that stand for numbers

  std::uint64_t bytes() const { return elem_bytes(type, tensor.source.elements()).value_or(0); }

  Result<std::string> make() const {
    GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
    if (form) {
      HostTensor numbers = HostTensor::of_floats(tensor.dims(), std::vector<float>(made.bytes.size() / sizeof(float)));
      std::memcpy(numbers.floats.data(), made.bytes.data(), made.bytes.size());
      GRAFT_TRY_ASSIGN(const HostTensor q, quantized(numbers, *form, type));
      return raw_integers(q);
    }
    if (type == ElemType::f64) return as_doubles(made.bytes);
    return std::string(reinterpret_cast<const char*>(made.bytes.data()), made.bytes.size());
  }
};

Status put(ExportTensor tensor, onnx::TensorProto& to, const OnnxGraph& graph, ExternalWriter& external) {
  const std::vector<std::int64_t> dims(to.dims().begin(), to.dims().end());
  if (dims != tensor.dims()) {
    return corrupt("Its shape in the file is ", Shape::of(dims).text(), ", in the model ",
                   Shape::of(tensor.dims()).text(), ": this model, as one with a resized head, is exported without --source.");
  }
  Contents contents{std::move(tensor), static_cast<ElemType>(to.data_type()), to.name(), {}};
  const bool quantizes = is_integer(contents.type) && contents.tensor.source.dtype == DType::f32;
  GRAFT_TRY_ASSIGN(contents.tensor.dtype, quantizes ? DType::f32 : written_as(contents.type));
  if (quantizes) {
    GRAFT_TRY_ASSIGN(contents.form, quantized_form(graph, to.name()));
  }
  if (to.data_location() == onnx::TensorProto::EXTERNAL) {
    const std::uint64_t bytes = contents.bytes();
    external.add(to, bytes, [contents = std::move(contents)](os::File& file) -> Status {
      GRAFT_TRY_ASSIGN(const std::string made, contents.make());
      return file.append(std::as_bytes(std::span(made)));
    });
    return {};
  }
  GRAFT_TRY_ASSIGN(std::string raw, contents.make());
  to.clear_float_data();
  to.clear_double_data();
  to.clear_int32_data();
  to.set_raw_data(std::move(raw));
  return {};
}

/// Tensors that stay as they are go along, out of the source's data files.
class ExternalCopies {
 public:
  ExternalCopies(std::filesystem::path folder, ExternalWriter& to) : folder_(std::move(folder)), to_(to) {}

  Status copy(onnx::GraphProto& graph) {
    for (onnx::TensorProto& tensor : *graph.mutable_initializer()) GRAFT_TRY(copy(tensor));
    for (onnx::SparseTensorProto& sparse : *graph.mutable_sparse_initializer()) {
      GRAFT_TRY(copy(*sparse.mutable_values()));
      GRAFT_TRY(copy(*sparse.mutable_indices()));
    }
    for (onnx::NodeProto& node : *graph.mutable_node()) GRAFT_TRY(copy(node));
    return {};
  }
  Status copy(onnx::NodeProto& node) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) GRAFT_TRY(copy(*attribute.mutable_g()));
      if (attribute.has_t()) GRAFT_TRY(copy(*attribute.mutable_t()));
      for (onnx::TensorProto& tensor : *attribute.mutable_tensors()) GRAFT_TRY(copy(tensor));
      for (onnx::GraphProto& graph : *attribute.mutable_graphs()) GRAFT_TRY(copy(graph));
    }
    return {};
  }

 private:
  Status copy(onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL || to_.has(tensor)) return {};
    const ExternalData data = external_data_of(tensor);
    const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    const auto count = element_count(dims);
    const auto bytes = count ? elem_bytes(static_cast<ElemType>(tensor.data_type()), *count) : std::nullopt;
    const auto region = bytes ? find_external(folder_, data, *bytes) : Result<ExternalRegion>(corrupt("its shape"));
    if (!region.ok()) {
      return Status(region.status().code(),
                    cat("The tensor \"", tensor.name(), "\" cannot be copied: ", region.status().message(), "."));
    }
    to_.add(tensor, bytes.value_or(0), [from = *region](os::File& file) -> Status {
      return from.read([&](std::span<const std::byte> piece) { return file.append(piece); });
    });
    return {};
  }

  std::filesystem::path folder_;
  ExternalWriter& to_;
};

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

/// Weights that nodes keep in attributes (linear models of ai.onnx.ml), by the names of their parameters.
std::map<std::string, onnx::AttributeProto*, std::less<>> attribute_weights(onnx::GraphProto& graph) {
  std::map<std::string, onnx::AttributeProto*, std::less<>> found;
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    if (node.domain() != "ai.onnx.ml") continue;
    const std::vector<std::string> outputs(node.output().begin(), node.output().end());
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.floats_size() > 0) found[attribute_weight(node.name(), outputs, attribute.name())] = &attribute;
    }
  }
  return found;
}

Status put(const ExportTensor& tensor, onnx::AttributeProto& to) {
  GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
  if (made.bytes.size() != sizeof(float) * static_cast<std::size_t>(to.floats_size())) {
    return corrupt("The file has ", to.floats_size(), " numbers, the model ", made.bytes.size() / sizeof(float), ".");
  }
  std::memcpy(to.mutable_floats()->mutable_data(), made.bytes.data(), made.bytes.size());
  return {};
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
  LoadLimits limits;
  limits.large_weights = false;  // the model has them
  const std::filesystem::path folder = std::filesystem::path(source).parent_path();
  ExternalWriter external(path);
  GRAFT_TRY_ASSIGN(HostBuffer bytes, os::read_file(files, source, limits.max_file_bytes));
  // The hardened reader first: what it accepts is a whole model.
  auto parsed = parse_onnx(bytes.bytes(), folder.empty() ? "." : folder, limits).with_context(source);
  if (!parsed.ok()) return parsed.status();
  // Scales of blocks may be large tensors, too.
  const auto dequantizes = [](const OnnxNode& node) { return node.op == "DequantizeLinear"; };
  if (std::ranges::any_of(parsed->nodes, dequantizes)) {
    parsed = parse_onnx(bytes.bytes(), folder.empty() ? "." : folder).with_context(source);
    if (!parsed.ok()) return parsed.status();
  }
  onnx::ModelProto file;
  if (!file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return corrupt("\"", source, "\" is not a complete ONNX model.");
  }
  bytes.reset();
  Weights weights;
  find_weights(*file.mutable_graph(), weights);
  const auto attributes = attribute_weights(*file.mutable_graph());
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
    if (const auto attribute = attributes.find(value.name); attribute != attributes.end()) {
      const ExportTensor tensor = export_tensor(value, *contents);
      report.bytes += tensor.bytes();
      ++report.tensors;
      GRAFT_TRY(put(tensor, *attribute->second).with_context(cat("The attribute \"", value.name, "\"")));
      continue;
    }
    onnx::TensorProto* to =
        found != weights.end() ? found->second : own_initializer(*file.mutable_graph(), value.name, weights);
    if (to == nullptr) {
      return error(Code::not_found, "The parameter \"", value.name, "\" is no initializer of \"", source, "\".");
    }
    ExportTensor tensor = export_tensor(value, *contents);
    report.bytes += tensor.bytes();
    ++report.tensors;
    GRAFT_TRY(put(std::move(tensor), *to, *parsed, external).with_context(cat("The initializer \"", value.name, "\"")));
  }
  ExternalCopies copies(folder.empty() ? "." : folder, external);
  GRAFT_TRY(copies.copy(*file.mutable_graph()));
  for (onnx::FunctionProto& function : *file.mutable_functions()) {
    for (onnx::NodeProto& node : *function.mutable_node()) GRAFT_TRY(copies.copy(node));
  }
  report.files = {path};
  if (!external.empty()) {
    for (const std::string& location : external.replaced()) {
      std::error_code unknown;
      if (!std::filesystem::equivalent(folder / location, external.path(), unknown)) continue;
      return invalid("The weights would be written to \"", external.path(), "\", where the source \"", source,
                     "\" has its own; export to another folder or name.");
    }
    report.files.push_back(external.path());
  }
  GRAFT_TRY(write_model(files, path, file, external));
  return report;
}

}  // namespace graft::convert
