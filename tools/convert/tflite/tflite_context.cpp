#include "tools/convert/tflite/tflite_context.h"

#include <algorithm>

namespace graft::convert {

OnnxAttr int_attr(std::int64_t value) {
  OnnxAttr a;
  a.kind = OnnxAttr::Kind::integer;
  a.integer = value;
  return a;
}

OnnxAttr ints_attr(Ints values) {
  OnnxAttr a;
  a.kind = OnnxAttr::Kind::integers;
  a.integers = std::move(values);
  return a;
}

OnnxAttr number_attr(double value) {
  OnnxAttr a;
  a.kind = OnnxAttr::Kind::number;
  a.number = value;
  return a;
}

OnnxAttr text_attr(std::string value) {
  OnnxAttr a;
  a.kind = OnnxAttr::Kind::text;
  a.text = std::move(value);
  return a;
}

OpContext::OpContext(const TfliteFile& file, const tfl::Operator& source, std::string name,
                     const TfliteOptions& options, OnnxGraph& out)
    : op(source), options_(options), graph_(out), name_(std::move(name)), first_node_(out.nodes.size()) {
  const auto take = [&](const flatbuffers::Vector<std::int32_t>* from, std::vector<const TfliteTensor*>& to,
                        bool may_lack) {
    if (from == nullptr) return;
    for (const std::int32_t index : *from) {
      if (index == -1 && may_lack) {
        to.push_back(nullptr);
      } else if (index < 0 || static_cast<std::size_t>(index) >= file.tensors().size()) {
        status_ = corrupt("it names the tensor ", index, " of ", file.tensors().size());
        return;
      } else {
        to.push_back(&file.tensors()[static_cast<std::size_t>(index)]);
      }
    }
  };
  take(op.inputs(), inputs_, true);
  take(op.outputs(), outputs_, false);
  if (status_.ok() && outputs_.empty()) status_ = corrupt("it has no outputs");
}

Status OpContext::check() const { return status_; }

std::vector<std::string> OpContext::all() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs(); ++i) names.push_back(in(i));
  return names;
}

Result<Ints> OpContext::ints(std::size_t i, const char* what) const {
  if (!has(i)) return corrupt("its ", what, " is missing");
  const TfliteTensor& tensor = input(i);
  if (!tensor.constant) return unsupported("its ", what, " \"", tensor.name, "\" is computed, not given");
  if (!tensor.error.empty()) return unsupported("its ", what, " ", tensor.error);
  if (!is_integer(tensor.elem)) return corrupt("its ", what, " is ", elem_name(tensor.elem));
  GRAFT_TRY_ASSIGN(HostTensor contents, TfliteFile::contents(tensor));
  return std::move(contents.ints);
}

Result<std::int64_t> OpContext::axis(std::int64_t given, std::size_t i) const {
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(given, input(i).dims.size()));
  return static_cast<std::int64_t>(axis);
}

std::string OpContext::fresh() { return cat(outputs_[0]->name, "/graft_", made_++); }

std::string OpContext::add(const char* kind, std::vector<std::string> from, OnnxAttrs attrs, const char* domain) {
  std::string name = fresh();
  OnnxNode& node = graph_.nodes.emplace_back();
  node.op = kind;
  node.domain = domain;
  node.inputs = std::move(from);
  node.outputs = {name};
  node.attrs = std::move(attrs);
  return name;
}

std::vector<std::string> OpContext::add_many(const char* kind, std::vector<std::string> from, std::size_t count,
                                             OnnxAttrs attrs, const char* domain) {
  std::vector<std::string> names = {add(kind, std::move(from), std::move(attrs), domain)};
  while (names.size() < count) names.push_back(fresh());
  graph_.nodes.back().outputs = names;
  return names;
}

std::string OpContext::constant(HostTensor tensor) {
  std::string name = fresh();
  graph_.initializers.push_back({name, std::make_shared<HostTensor>(std::move(tensor)), {}, true});
  return name;
}

std::string OpContext::activated(std::string value, tfl::Activation activation) {
  const auto clip = [&](float low, float high) { return add("Clip", {value, number(low), number(high)}); };
  switch (activation) {
    case tfl::Activation::NONE: return value;
    case tfl::Activation::RELU: return add("Relu", {value});
    case tfl::Activation::RELU_N1_TO_1: return clip(-1, 1);
    case tfl::Activation::RELU6: return clip(0, 6);
    case tfl::Activation::TANH: return add("Tanh", {value});
    default: status_ = unsupported("its fused activation is number ", static_cast<int>(activation)); return value;
  }
}

/// scale * (clip(round(x / scale), low - zero, high - zero)).
std::string OpContext::on_grid(std::string value, const TfliteTensor& tensor) {
  const TfliteQuantization& q = tensor.quantization;
  const auto range = quantized_range(tensor.type);
  if (!options_.keep_grid || !range || q.scale.size() != 1 || q.scale[0] == 0) return value;
  const std::string scale = number(q.scale[0]);
  const std::string steps = add("Round", {add("Div", {std::move(value), scale})});
  const std::string kept = add("Clip", {steps, number(static_cast<float>(range->low - q.zero[0])),
                                        number(static_cast<float>(range->high - q.zero[0]))});
  return add("Mul", {kept, scale});
}

OnnxNode* OpContext::maker(const std::string& value) {
  for (std::size_t n = first_node_; n < graph_.nodes.size(); ++n) {
    std::vector<std::string>& made = graph_.nodes[n].outputs;
    if (std::find(made.begin(), made.end(), value) != made.end()) return &graph_.nodes[n];
  }
  return nullptr;
}

void OpContext::out(std::size_t k, std::string value, tfl::Activation activation) {
  if (k >= outputs_.size() || !status_.ok()) return;
  if (maker(value) == nullptr) value = add("Identity", {value});
  maker(value)->source_op = name_;
  value = on_grid(activated(value, activation), *outputs_[k]);
  std::vector<std::string>& made = maker(value)->outputs;
  *std::find(made.begin(), made.end(), value) = outputs_[k]->name;
}

void OpContext::set_refusal(const std::string& why) {
  graph_.nodes.resize(first_node_);
  OnnxNode& node = graph_.nodes.emplace_back();
  node.op = node.source_op = name_;
  node.domain = "tflite";
  node.refusal = why;
  for (const TfliteTensor* tensor : inputs_) {  // what nothing makes, a state that TFLite keeps, would be another fault
    const bool kept = tensor != nullptr && (tensor->variable || tensor->type == tfl::TensorType::RESOURCE);
    node.inputs.push_back(tensor == nullptr || kept ? std::string() : tensor->name);
  }
  for (const TfliteTensor* tensor : outputs_) node.outputs.push_back(tensor->name);
  if (node.outputs.empty()) node.outputs.push_back(cat("operator/", first_node_));
}

}  // namespace graft::convert
