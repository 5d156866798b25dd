// What a report says of the whole graph: what is trained, what is shared, what is narrowed, what was opened.
#include <algorithm>
#include <map>
#include <set>

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMostListed = 6;

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMostListed; ++i) text += cat(i == 0 ? "" : ", ", names[i]);
  return names.size() > kMostListed ? cat(text, " and ", names.size() - kMostListed, " more") : text;
}

}  // namespace

void Importer::list_trained() {
  for (const ValueId id : model_.graph.of_kind(ValueKind::parameter)) {
    const Value& value = model_.graph.value(id);
    ++report_.parameters;
    report_.parameter_elements += value.shape.elements();
    std::vector<std::int64_t> dims = value.shape.values();
    for (std::size_t i = 0; i < value.source_perm.size(); ++i) {
      dims[value.source_perm[i]] = value.shape[i].value();
    }
    report_.trained.push_back({value.name, std::move(dims)});
  }
}

/// Branches that are not taken may have been all that reads a constant.
void Importer::drop_unread_constants() {
  std::set<std::string_view> read;
  const auto reads = [&](const OnnxNode& node) { read.insert(node.inputs.begin(), node.inputs.end()); };
  for (const std::size_t index : order_) reads(node_at(index));
  for (const OnnxNode& node : expanded_) reads(node);
  for (const OnnxValue& output : source_.outputs) read.insert(output.name);
  std::erase_if(report_.constants, [&](const auto& constant) { return !read.contains(constant.name); });
}

/// A weight that several nodes of the source read is one parameter, and takes the sum of their gradients.
void Importer::note_tied() {
  std::map<std::string_view, std::vector<std::string>> readers;
  for (const std::size_t index : order_) {
    const OnnxNode& node = node_at(index);
    if (node.op == "Identity") continue;  // another name, not another use
    for (const std::string& input : node.inputs) {
      const Record* record = input.empty() ? nullptr : find(input);
      if (record == nullptr || !record->trainable || record->deferred >= 0 || !record->value.valid()) continue;
      if (model_.graph.value(record->value).kind != ValueKind::parameter) continue;
      std::vector<std::string>& all = readers[record->name];
      std::string label = node.name.empty() ? node.outputs.empty() ? node.op : node.outputs[0] : node.name;
      if (std::find(all.begin(), all.end(), label) == all.end()) all.push_back(std::move(label));
    }
  }
  for (const auto& [name, all] : readers) {
    if (all.size() < 2) continue;
    report_.notes.push_back(printable(
        cat("\"", name, "\" is one parameter, because the file has one tensor for all of: ", listed(all), ".")));
  }
}

void Importer::note_narrowed() {
  std::vector<std::string> names;
  for (const std::size_t index : order_) {
    for (const std::string& output : node_at(index).outputs) {
      const Record* record = output.empty() ? nullptr : find(output);
      if (record == nullptr || record->host != nullptr || !record->value.valid()) continue;
      if (record->type == ElemType::i64) names.push_back(output);
    }
  }
  if (names.empty()) return;
  report_.notes.push_back(printable(cat("int64 values that are computed as int32: ", listed(names), ".")));
}

/// Where a size of 1 is written into the graph, an opened axis ends up multiplied with another one, or lost.
void Importer::check_opened() {
  for (const OpenAxis& open : options_.opens) {
    const Dim symbol = Dim::symbol(open.symbol);
    if (options_.bindings.contains(symbol.symbols())) continue;
    for (const Output& output : model_.graph.outputs()) {
      const Shape& shape = model_.graph.value(output.value).shape;
      if (std::find(shape.begin(), shape.end(), symbol) != shape.end()) continue;
      problem(cat("Axis ", open.axis, " of the input \"", open.input,
                  "\" cannot be opened: the graph fixes its size, and the output \"", output.name, "\" becomes ",
                  shape.text(), "."));
    }
  }
}

}  // namespace graft::convert
