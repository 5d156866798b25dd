#include <algorithm>
#include <cstring>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "tools/convert/common/export_tensor.h"
#include "tools/convert/onnx/export/onnx_writer.h"
#include "tools/convert/onnx/export/write_onnx.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kOldestOpset = 17;  // newer ones only where a node needs it

std::int64_t ir_version(std::int64_t opset) { return opset < 19 ? 8 : opset < 21 ? 9 : 10; }

onnx::TensorProto::DataType element_type(DType dtype) {
  return dtype == DType::i32       ? onnx::TensorProto::INT32
         : dtype == DType::boolean ? onnx::TensorProto::BOOL
                                   : onnx::TensorProto::FLOAT;
}

/// As the source has it: on the device integers have 32 bits, and all floats are f32.
onnx::TensorProto::DataType source_element_type(const Value& value) {
  switch (value.source_type) {
    case SourceType::same: return element_type(value.dtype);
    case SourceType::i8: return onnx::TensorProto::INT8;
    case SourceType::u8: return onnx::TensorProto::UINT8;
    case SourceType::i16: return onnx::TensorProto::INT16;
    case SourceType::u16: return onnx::TensorProto::UINT16;
    case SourceType::u32: return onnx::TensorProto::UINT32;
    case SourceType::i64: return onnx::TensorProto::INT64;
    case SourceType::u64: return onnx::TensorProto::UINT64;
    case SourceType::f64: return onnx::TensorProto::DOUBLE;
    case SourceType::f16: return onnx::TensorProto::FLOAT16;
    case SourceType::bf16: return onnx::TensorProto::BFLOAT16;
  }
  return element_type(value.dtype);
}

/// Truth values have 32 bits on the device, and 8 in the file.
std::string bytes_of_words(const std::string& raw) {
  std::string out;
  for (std::size_t at = 0; at + sizeof(std::int32_t) <= raw.size(); at += sizeof(std::int32_t)) {
    std::int32_t word = 0;
    std::memcpy(&word, raw.data() + at, sizeof word);
    out += static_cast<char>(word != 0);
  }
  return out;
}

Ints to_channels_first(std::size_t rank) {
  Ints perm = {0, static_cast<std::int64_t>(rank) - 1};
  for (std::size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
  return perm;
}

Ints to_channels_last(std::size_t rank) {
  Ints perm = {0};
  for (std::size_t i = 2; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
  perm.push_back(1);
  return perm;
}

}  // namespace

std::string OnnxWriter::fresh() {
  std::string name;
  do name = cat("graft/", made_++);
  while (graph_.find_value(name).valid());
  return name;
}

std::string OnnxWriter::add(std::string_view op, const std::vector<std::string>& inputs,
                            const std::vector<Attr>& attrs) {
  return add_all(op, inputs, 1, attrs)[0];
}

std::vector<std::string> OnnxWriter::add_all(std::string_view op, const std::vector<std::string>& inputs,
                                             std::size_t outputs, const std::vector<Attr>& attrs) {
  onnx::NodeProto& node = *out_.add_node();
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  std::vector<std::string> made;
  while (made.size() < outputs) made.push_back(fresh());
  node.set_name(made[0]);
  for (const std::string& output : made) node.add_output(output);
  for (const auto& [name, value] : attrs) {
    onnx::AttributeProto& attr = *node.add_attribute();
    attr.set_name(std::string(name));
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      attr.set_type(onnx::AttributeProto::INT);
      attr.set_i(*integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      attr.set_type(onnx::AttributeProto::FLOAT);
      attr.set_f(static_cast<float>(*real));
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      attr.set_type(onnx::AttributeProto::STRING);
      attr.set_s(*text);
    } else if (const auto* list = std::get_if<Ints>(&value)) {
      attr.set_type(onnx::AttributeProto::INTS);
      for (const std::int64_t i : *list) attr.add_ints(i);
    }
  }
  return made;
}

std::string OnnxWriter::ints(const Ints& values) {
  onnx::TensorProto& tensor = *out_.add_initializer();
  tensor.set_name(fresh());
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
  return tensor.name();
}

std::string OnnxWriter::numbers(const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
  onnx::TensorProto& tensor = *out_.add_initializer();
  tensor.set_name(fresh());
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  for (const float value : values) tensor.add_float_data(value);
  return tensor.name();
}

bool OnnxWriter::is_read(ValueId v) const {
  return std::ranges::any_of(graph_.outputs(), [&](const Output& output) { return output.value == v; }) ||
         std::ranges::any_of(graph_.nodes(),
                             [&](const Node& node) { return std::ranges::find(node.inputs, v) != node.inputs.end(); });
}

Status OnnxWriter::need_opset(std::int64_t opset) {
  if (opset_ >= opset) return {};
  needed_ = std::max(needed_, opset);
  return unsupported("it needs opset ", opset);
}

std::string OnnxWriter::cast(const std::string& x, std::int64_t to) { return add("Cast", {x}, {{"to", to}}); }

std::string OnnxWriter::reduced(std::string_view op, const std::string& x, const Ints& axes, bool keep) {
  std::vector<std::string> inputs = {x};
  std::vector<Attr> attrs = {{"keepdims", std::int64_t{keep}}};
  if (opset_ >= 18 || op == "ReduceSum") {
    if (!axes.empty()) inputs.push_back(ints(axes));
  } else if (!axes.empty()) {
    attrs.push_back({"axes", axes});
  }
  return add(op, inputs, attrs);
}

std::string OnnxWriter::raw(int type, const std::vector<std::int64_t>& dims, std::string_view bytes) {
  onnx::TensorProto& tensor = *out_.add_initializer();
  tensor.set_name(fresh());
  tensor.set_data_type(type);
  for (const std::int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(std::string(bytes));
  return tensor.name();
}

std::string OnnxWriter::number(double value, DType dtype) {
  if (dtype == DType::f32) return numbers({}, {static_cast<float>(value)});
  onnx::TensorProto& tensor = *out_.add_initializer();
  tensor.set_name(fresh());
  tensor.set_data_type(element_type(dtype));
  tensor.add_int32_data(static_cast<std::int32_t>(value));
  return tensor.name();
}

Result<std::string> OnnxWriter::symbol(const std::string& name) {
  if (const auto found = symbols_.find(name); found != symbols_.end()) return found->second;
  for (const ValueId input : graph_.inputs()) {
    const Shape& dims = shape(input);
    for (std::size_t axis = 0; axis < dims.rank(); ++axis) {
      if (dims[axis] != Dim::symbol(name)) continue;
      const std::string all = add("Shape", {this->name(input)});
      return symbols_[name] = add(
                 "Slice", {all, ints({static_cast<std::int64_t>(axis)}), ints({static_cast<std::int64_t>(axis) + 1})});
    }
  }
  return unsupported("the size \"", name, "\" is that of no input's axis");
}

/// A tensor of one number.
Result<std::string> OnnxWriter::size(const Dim& dim) {
  if (dim.is_constant()) return ints({dim.value()});
  std::string product;
  for (const DimFactor& factor : factors_of(dim)) {
    std::string part;
    if (!factor.symbol.empty()) {
      GRAFT_TRY_ASSIGN(part, symbol(factor.symbol));
    }
    for (const Dim& term : factor.terms) {
      GRAFT_TRY_ASSIGN(const std::string value, size(term));
      part = part.empty() ? value : add("Add", {part, value});
    }
    // Towards zero, as ONNX has it: sizes are not negative.
    if (factor.divisor != 1) part = add("Div", {part, ints({factor.divisor})});
    product = product.empty() ? part : add("Mul", {product, part});
  }
  return dim.coefficient() == 1 ? product : add("Mul", {product, ints({dim.coefficient()})});
}

Result<std::string> OnnxWriter::sizes(const Shape& shape) {
  if (shape.is_constant()) return ints(shape.values());
  std::vector<std::string> parts;
  for (const Dim& dim : shape) {
    GRAFT_TRY_ASSIGN(std::string part, size(dim));
    parts.push_back(std::move(part));
  }
  return add("Concat", parts, {{"axis", std::int64_t{0}}});
}

Result<std::string> OnnxWriter::reshape_sizes(const Shape& shape) {
  if (std::count_if(shape.begin(), shape.end(), [](const Dim& dim) { return !dim.is_constant(); }) != 1) {
    return sizes(shape);
  }
  Ints values;
  for (const Dim& dim : shape) values.push_back(dim.is_constant() ? dim.value() : -1);
  return ints(values);
}

std::string OnnxWriter::name(ValueId v) {
  if (!v.valid()) return {};
  std::string& plain = plain_[v];
  if (plain.empty()) plain = add("Transpose", {first_[v]}, {{"perm", to_channels_last(shape(v).rank())}});
  return plain;
}

std::string OnnxWriter::channels_first(ValueId v) {
  if (shape(v).rank() < 3) return name(v);
  std::string& first = first_[v];
  if (first.empty()) first = add("Transpose", {name(v)}, {{"perm", to_channels_first(shape(v).rank())}});
  return first;
}

void OnnxWriter::is(ValueId v, const std::string& made) { plain_[v] = made; }
void OnnxWriter::is_channels_first(ValueId v, const std::string& made) {
  (shape(v).rank() < 3 ? plain_ : first_)[v] = made;
}

void OnnxWriter::add_value(onnx::ValueInfoProto& to, const std::string& name, const Value& value) {
  to.set_name(name);
  auto& type = *to.mutable_type()->mutable_tensor_type();
  type.set_elem_type(source_element_type(value));
  type.mutable_shape();
  for (const Dim& dim : value.shape) {
    auto& out = *type.mutable_shape()->add_dim();
    if (dim.is_constant()) {
      out.set_dim_value(dim.value());
    } else {
      out.set_dim_param(dim.text());
    }
  }
}

/// Whether an output of the graph has its name, but another type than the device's: the name is that of the cast.
bool OnnxWriter::becomes_output(ValueId v) const {
  const Value& value = graph_.value(v);
  return source_element_type(value) != element_type(value.dtype) &&
         std::ranges::any_of(graph_.outputs(), [&](const Output& output) { return output.name == value.name; });
}

Status OnnxWriter::add_weight(ValueId v) {
  const Value& value = graph_.value(v);
  const auto contents = model_.weight(v);
  if (!contents) return unsupported("it has no contents");
  if (value.dtype == DType::i32 && is_packed_weight(graph_, v)) {
    plain_[v] = value.name;  // nobody asks for it by this name
    return {};
  }
  if (is_quantized(value.dtype)) return unsupported("it is kept in blocks of ", dtype_name(value.dtype));
  onnx::TensorProto& tensor = *out_.add_initializer();
  tensor.set_name(becomes_output(v) ? fresh() : value.name);
  tensor.set_data_type(element_type(value.dtype));
  if (value.dtype == DType::i32 || value.dtype == DType::boolean) {
    if (!value.source_perm.empty()) return unsupported("its integers have another order of axes in the source");
    for (const std::int64_t dim : value.shape.values()) tensor.add_dims(dim);
    std::string raw(reinterpret_cast<const char*>(contents->data()), contents->size());
    tensor.set_raw_data(value.dtype == DType::boolean ? bytes_of_words(raw) : raw);
    plain_[v] = tensor.name();
    return {};
  }
  ExportTensor source = export_tensor(value, *contents);
  source.dtype = DType::f32;
  for (const std::int64_t dim : source.dims()) tensor.add_dims(dim);
  constexpr std::uint64_t kLeastOutside = 1024;
  if (external_ != nullptr && source.bytes() >= kLeastOutside) {
    external_->add(tensor, source.bytes(), [source](os::File& file) -> Status {
      GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(source));
      return file.append(made.bytes);
    });
  } else {
    GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(source));
    tensor.set_raw_data(std::string(reinterpret_cast<const char*>(made.bytes.data()), made.bytes.size()));
  }
  const Ints perm(value.source_perm.begin(), value.source_perm.end());
  if (perm.empty()) {
    plain_[v] = tensor.name();
  } else if (perm == to_channels_last(perm.size())) {
    first_[v] = tensor.name();
  } else {
    plain_[v] = add("Transpose", {tensor.name()}, {{"perm", perm}});
  }
  return {};
}

Status OnnxWriter::write_node(const Node& node) {
  for (const ValueId v : node.inputs) {
    if (v.valid() && !plain_.contains(v) && !first_.contains(v)) {
      return unsupported("it reads a further result (\"", graph_.value(v).name, "\") of an op that has one in ONNX");
    }
  }
  for (const auto write : {write_recurrent, write_quantized, write_layer, write_move, write_transformer, write_integer,
                           write_chosen, write_elementwise}) {
    GRAFT_TRY_ASSIGN(const bool done, write(*this, node));
    if (done) return {};
  }
  return unsupported("ONNX has no counterpart of the op ", op_def(node.op).name,
                     "; with --source FILE.onnx the weights go into the original's graph.");
}

Status OnnxWriter::run() {
  out_.set_name("graft");
  for (std::uint32_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    if (value.kind == ValueKind::temporary) continue;
    if (value.kind == ValueKind::input) {
      add_value(*out_.add_input(), value.name, value);
      plain_[{i}] = value.name;
      if (source_element_type(value) != element_type(value.dtype)) {
        plain_[{i}] = add("Cast", {value.name}, {{"to", std::int64_t{element_type(value.dtype)}}});
      }
    } else {
      GRAFT_TRY(add_weight({i}).with_context(cat("The weight \"", value.name, "\" cannot be written")));
    }
  }
  for (const Node& node : graph_.nodes()) {
    GRAFT_TRY(write_node(node).with_context(cat("The node \"", node.name, "\" cannot be written")));
  }
  GRAFT_TRY_ASSIGN(const std::vector<CountedOutput> counted, counted_outputs(model_));
  for (const Output& output : graph_.outputs()) {
    const auto found = std::ranges::find(counted, output.name, &CountedOutput::name);
    GRAFT_TRY(add_output(output, found == counted.end() ? nullptr : &*found)
                  .with_context(cat("The output \"", output.name, "\" cannot be written")));
  }
  return {};
}

/// `counted`: along an axis there are as many as another output says.
Status OnnxWriter::add_output(const Output& output, const CountedOutput* counted) {
  const Value& value = graph_.value(output.value);
  std::string from = name(output.value);
  if (counted != nullptr) {
    if (!value.source_perm.empty()) return unsupported("it is counted, and has another order of axes in the source");
    const auto is_count = [&](const Output& other) { return other.name == counted->count; };
    const auto count = std::ranges::find_if(graph_.outputs(), is_count);
    const std::string end = add("Reshape", {cast(name(count->value), onnx::TensorProto::INT64), ints({1})});
    from = add("Slice", {from, ints({0}), end, ints({static_cast<std::int64_t>(counted->axis)})});
  }
  if (source_element_type(value) != element_type(value.dtype)) {
    from = add("Cast", {from}, {{"to", std::int64_t{source_element_type(value)}}});
  }
  if (from != output.name) {  // else an input or a weight
    onnx::NodeProto& node = *out_.add_node();
    node.set_op_type("Identity");
    node.set_name(output.name + "/out");
    node.add_input(from);
    node.add_output(output.name);
  }
  onnx::ValueInfoProto& to = *out_.add_output();
  add_value(to, output.name, value);
  if (counted != nullptr) {
    auto& dims = *to.mutable_type()->mutable_tensor_type()->mutable_shape();
    dims.mutable_dim(static_cast<int>(counted->axis))->set_dim_param(counted->count);
  }
  return {};
}

/// As the oldest opset that has all nodes.
Result<std::int64_t> write_graph(const Model& model, onnx::ModelProto& file, std::optional<ExternalWriter>& external) {
  for (std::int64_t opset = kOldestOpset;;) {
    file.clear_graph();
    if (external) external->clear();
    OnnxWriter writer(model, *file.mutable_graph(), opset, external ? &*external : nullptr);
    const Status status = writer.run();
    if (status.ok()) return opset;
    if (writer.needed() <= opset) return status;
    opset = writer.needed();
  }
}

Result<ExportReport> write_onnx(os::FileSystem& files, const std::string& path, const Model& model,
                                std::uint64_t most_inside) {
  onnx::ModelProto file;
  std::optional<ExternalWriter> external;
  if (model.weight_bytes() > most_inside) external.emplace(path);
  GRAFT_TRY_ASSIGN(const std::int64_t opset, write_graph(model, file, external));
  file.set_ir_version(ir_version(opset));
  file.set_producer_name("graft");
  auto& import = *file.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  ExportReport report;
  for (const Value& value : model.graph.values()) {
    report.tensors += value.kind == ValueKind::parameter || value.kind == ValueKind::state;
  }
  report.bytes = file.ByteSizeLong();
  report.notes.push_back(
      cat("The graph is graft's own, as opset ", opset, ": names of inner values may differ from the source's."));
  report.files = {path};
  if (external && !external->empty()) {
    report.files.push_back(external->path());
    report.bytes += external->bytes();
  }
  GRAFT_TRY(write_model(files, path, file, external ? *external : ExternalWriter(path)));
  return report;
}

}  // namespace graft::convert
