#include "runtime/core/graph_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "platform/base/text.h"
#include "runtime/core/op_def.h"

namespace graft {
namespace {

std::string_view kind_name(ValueKind kind) {
  constexpr std::array<std::string_view, 5> kNames = {"temporary", "input", "constant", "parameter", "state"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// The shortest text that reads back as the same double; with a point, to tell it from an integer.
template <typename T>
std::string number_text(T value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  if (std::isfinite(value) && text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string attr_text(const AttrValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return cat(*integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return cat("\"", *text, "\"");
  if (const auto* shape = std::get_if<Shape>(&value)) return "shape" + shape->text();
  std::string list;
  for (const std::int64_t item : std::get<Ints>(value)) list += cat(list.empty() ? "" : ", ", item);
  return cat("[", list, "]");
}

/// The elements of a small constant, where they are known: " = 0.5, 1.0".
std::string contents_text(const Value& value) {
  constexpr std::size_t kMaxElements = 32;
  constexpr std::size_t kWord = 4;  // of every dtype but the quantized ones
  if (value.contents.empty() || is_quantized(value.dtype) || value.contents.size() > kMaxElements * kWord) return {};
  std::string text;
  for (std::size_t at = 0; at + kWord <= value.contents.size(); at += kWord) {
    std::int32_t word = 0;
    float number = 0;
    std::memcpy(&word, value.contents.data() + at, kWord);
    std::memcpy(&number, value.contents.data() + at, kWord);
    text += cat(at == 0 ? " = " : ", ", value.dtype == DType::f32 ? number_text(number) : cat(word));
  }
  return text;
}

std::string type_text(const Value& value) {
  const std::string stored = value.storage == DType::f32 ? "" : cat(" as ", dtype_name(value.storage));
  return cat(dtype_name(value.dtype), value.shape.text(), stored);
}

}  // namespace

std::string attrs_text(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs.items()) text += cat(text.empty() ? "" : ", ", name, "=", attr_text(value));
  return text;
}

std::string node_text(const Graph& graph, const Node& node) {
  const std::string attrs = attrs_text(node.attrs);
  std::string outputs, inputs, types;
  for (const ValueId id : node.outputs) {
    outputs += cat(outputs.empty() ? "" : ", ", graph.value(id).name);
    types += cat(types.empty() ? "" : ", ", type_text(graph.value(id)));
  }
  for (const ValueId id : node.inputs) {
    inputs += cat(inputs.empty() ? "" : ", ", id.valid() ? std::string_view(graph.value(id).name) : "_");
  }
  return cat(outputs.empty() ? node.name : outputs, " = ", op_name(node.op), "(", inputs, ")",
             attrs.empty() ? "" : cat(" {", attrs, "}"), types.empty() ? "" : " -> ", types);
}

std::string graph_text(const Graph& graph) {
  std::string text;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::temporary) continue;
    text += cat(kind_name(value.kind), " ", value.name, ": ", type_text(value), contents_text(value), "\n");
  }
  for (const Node& node : graph.nodes()) text += node_text(graph, node) + "\n";
  for (const Output& output : graph.outputs()) {
    const std::string& name = graph.value(output.value).name;
    text += cat("output ", output.name, output.name == name ? "" : cat(" = ", name), "\n");
  }
  return text;
}

}  // namespace graft
