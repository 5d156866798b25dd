#include "tools/convert/onnx/sequences.h"

#include <optional>
#include <unordered_map>

#include "platform/base/text.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMostElements = 1024;
constexpr int kMostNodes = 1024;  // behind each other

std::int64_t attribute(const OnnxNode& node, std::string_view name, std::int64_t fallback) {
  const auto found = node.attrs.find(name);
  return found != node.attrs.end() && found->second.kind == OnnxAttr::Kind::integer ? found->second.integer : fallback;
}

OnnxAttr integer(std::int64_t value) {
  OnnxAttr attr;
  attr.kind = OnnxAttr::Kind::integer;
  attr.integer = value;
  return attr;
}

class Sequences {
 public:
  explicit Sequences(OnnxGraph& graph) : graph_(graph) {
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::string& output : graph.nodes[n].outputs) makers_.emplace(output, n);
    }
    for (const OnnxInitializer& initializer : graph.initializers) {
      if (initializer.tensor != nullptr) constants_.emplace(initializer.name, initializer.tensor.get());
    }
  }

  void run() {
    const std::size_t count = graph_.nodes.size();
    for (std::size_t n = 0; n < count; ++n) {
      const OnnxNode node = graph_.nodes[n];
      if (!node.domain.empty() || node.inputs.empty() || node.outputs.empty()) continue;
      if (node.op == "ConcatFromSequence") replace_concat(n, node);
      if (node.op == "SequenceAt") replace_at(n, node);
      if (node.op == "SequenceLength") replace_length(n, node);
    }
    graph_.nodes.insert(graph_.nodes.end(), added_.begin(), added_.end());
  }

 private:
  using Names = std::vector<std::string>;

  const HostTensor* constant(const std::string& name) const {
    if (const auto given = constants_.find(name); given != constants_.end()) return given->second;
    const auto maker = makers_.find(name);
    if (maker == makers_.end() || graph_.nodes[maker->second].op != "Constant") return nullptr;
    const auto& attrs = graph_.nodes[maker->second].attrs;
    const auto value = attrs.find("value");
    return value == attrs.end() ? nullptr : value->second.tensor.get();
  }

  std::optional<std::int64_t> number(const std::string& name) const {
    const HostTensor* tensor = constant(name);
    if (tensor == nullptr || tensor->ints.size() != 1) return std::nullopt;
    return tensor->ints[0];
  }

  /// A place among `count`, counted from the end where it is negative.
  static std::optional<std::size_t> place(std::optional<std::int64_t> at, std::size_t count) {
    const auto size = static_cast<std::int64_t>(count);
    if (!at || *at < -size || *at >= size) return std::nullopt;
    return static_cast<std::size_t>(*at < 0 ? *at + size : *at);
  }

  /// The tensors of a sequence, in order.
  std::optional<Names> elements(const std::string& name, int depth = 0) {
    const auto maker = makers_.find(name);
    if (maker == makers_.end() || depth == kMostNodes) return std::nullopt;
    const OnnxNode node = graph_.nodes[maker->second];
    if (!node.domain.empty()) return std::nullopt;
    if (node.op == "SequenceEmpty") return Names();
    if (node.op == "SequenceConstruct")
      return node.inputs.size() <= kMostElements ? std::optional(node.inputs) : std::nullopt;
    if (node.op == "SplitToSequence") return parts(maker->second, node);
    const bool inserts = node.op == "SequenceInsert";
    if ((!inserts && node.op != "SequenceErase") || node.inputs.empty()) return std::nullopt;
    auto all = elements(node.inputs[0], depth + 1);
    if (!all || all->size() == kMostElements) return std::nullopt;
    const std::size_t at = inserts ? 2 : 1;
    const bool given = node.inputs.size() > at && !node.inputs[at].empty();
    if (inserts) {
      if (node.inputs.size() < 2) return std::nullopt;
      const auto where = given ? place(number(node.inputs[at]), all->size() + 1) : all->size();
      if (!where) return std::nullopt;
      all->insert(all->begin() + static_cast<std::ptrdiff_t>(*where), node.inputs[1]);
    } else {
      const auto where = place(given ? number(node.inputs[at]) : std::int64_t{-1}, all->size());
      if (!where) return std::nullopt;
      all->erase(all->begin() + static_cast<std::ptrdiff_t>(*where));
    }
    return all;
  }

  std::optional<Names> parts(std::size_t n, const OnnxNode& node) {
    if (const auto done = split_.find(n); done != split_.end()) return done->second;
    const HostTensor* sizes = node.inputs.size() > 1 ? constant(node.inputs[1]) : nullptr;
    if (sizes == nullptr || sizes->dims.size() != 1 || sizes->ints.empty() || sizes->ints.size() > kMostElements) {
      return std::nullopt;
    }
    OnnxNode split = made(node, "Split", {node.inputs[0], node.inputs[1]}, {});
    split.outputs.clear();
    for (std::size_t i = 0; i < sizes->ints.size(); ++i) split.outputs.push_back(cat(node.outputs[0], "#", i));
    split.attrs["axis"] = integer(attribute(node, "axis", 0));
    added_.push_back(split);
    return split_[n] = split.outputs;
  }

  static OnnxNode made(const OnnxNode& of, const char* op, Names inputs, const std::string& output) {
    return OnnxNode{of.name, op, "", std::move(inputs), {output}, {}};
  }

  void replace_concat(std::size_t n, const OnnxNode& node) {
    auto all = elements(node.inputs[0]);
    if (!all || all->empty()) return;
    const std::int64_t axis = attribute(node, "axis", 0);
    if (attribute(node, "new_axis", 0) != 0) {
      const std::string axes = constant_of(cat(node.outputs[0], "#axis"), {axis}, false);
      for (std::size_t i = 0; i < all->size(); ++i) {
        const std::string output = cat(node.outputs[0], "#", i);
        OnnxNode apart = made(node, "Unsqueeze", {(*all)[i]}, output);
        if (opset() >= 13) {
          apart.inputs.push_back(axes);
        } else {
          apart.attrs["axes"].kind = OnnxAttr::Kind::integers;
          apart.attrs["axes"].integers = {axis};
        }
        added_.push_back(std::move(apart));
        (*all)[i] = output;
      }
    }
    OnnxNode concat = made(node, "Concat", *all, node.outputs[0]);
    concat.attrs["axis"] = integer(axis);
    graph_.nodes[n] = std::move(concat);
  }

  void replace_at(std::size_t n, const OnnxNode& node) {
    const auto all = elements(node.inputs[0]);
    const auto at = all && node.inputs.size() > 1 ? place(number(node.inputs[1]), all->size()) : std::nullopt;
    if (at) graph_.nodes[n] = made(node, "Identity", {(*all)[*at]}, node.outputs[0]);
  }

  void replace_length(std::size_t n, const OnnxNode& node) {
    const auto all = elements(node.inputs[0]);
    if (!all) return;
    const std::string length = constant_of(cat(node.outputs[0], "#length"), {std::int64_t(all->size())}, true);
    graph_.nodes[n] = made(node, "Identity", {length}, node.outputs[0]);
  }

  std::int64_t opset() const {
    const auto found = graph_.opsets.find("");
    return found == graph_.opsets.end() ? 0 : found->second;
  }

  std::string constant_of(const std::string& name, std::vector<std::int64_t> values, bool scalar) {
    HostTensor tensor = HostTensor::of_ints(std::move(values));
    if (scalar) tensor.dims.clear();
    graph_.initializers.push_back({name, std::make_shared<const HostTensor>(std::move(tensor)), {}});
    return name;
  }

  OnnxGraph& graph_;
  std::unordered_map<std::string, std::size_t> makers_;
  std::unordered_map<std::string, const HostTensor*> constants_;
  std::unordered_map<std::size_t, Names> split_;  ///< by node
  std::vector<OnnxNode> added_;
};

}  // namespace

void replace_sequences(OnnxGraph& graph) { Sequences(graph).run(); }

}  // namespace graft::convert
