#include "tools/convert/apply_weights.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

#include "platform/base/text.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/pytorch/state_dict.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMostNamed = 12;

struct Given {
  std::string name;
  HostTensor tensor;
  bool used = false;
};

Result<std::vector<Given>> read_safetensors_file(std::span<const std::byte> bytes, OnnxGraph& graph) {
  SourceTensors tensors;
  std::vector<std::string> skipped;
  GRAFT_TRY(read_safetensors(bytes, tensors, skipped));
  std::vector<std::pair<const std::byte*, std::string>> order;  // as they lie in the file
  for (const auto& [name, tensor] : tensors.by_name) order.emplace_back(tensor.bytes.data(), name);
  std::sort(order.begin(), order.end());
  std::vector<Given> out;
  for (const auto& [unused, name] : order) {
    const SourceTensor& tensor = *tensors.find(name);
    GRAFT_TRY_ASSIGN(const HostBuffer numbers, to_f32(tensor, name));
    std::vector<float> floats(numbers.bytes().size() / sizeof(float));
    if (!floats.empty()) std::memcpy(floats.data(), numbers.data(), floats.size() * sizeof(float));
    out.push_back({name, HostTensor::of_floats(tensor.dims, std::move(floats)), false});
  }
  for (const std::string& name : skipped)
    graph.notes.push_back(cat("\"", shown(name), "\" is of a type that is not read."));
  return out;
}

Result<std::vector<Given>> read_checkpoint(std::span<const std::byte> bytes, OnnxGraph& graph) {
  GRAFT_TRY_ASSIGN(StateDict dict, read_state_dict(bytes));
  for (std::string& note : dict.notes) graph.notes.push_back(std::move(note));
  std::vector<Given> out;
  for (const StateTensor& tensor : dict.tensors) {
    GRAFT_TRY_ASSIGN(HostTensor numbers, contents(tensor));
    out.push_back({tensor.name, std::move(numbers), false});
  }
  return out;
}

/// A number, or what newer exporters make of one ("onnx::MatMul_12").
bool is_numbered(std::string_view name) {
  if (const auto colons = name.rfind("::"); colons != std::string_view::npos) name = name.substr(colons + 2);
  if (const auto line = name.rfind('_'); line != std::string_view::npos) name = name.substr(line + 1);
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Initializers in the order in which nodes first read them.
std::vector<OnnxInitializer*> in_order_of_use(OnnxGraph& graph) {
  std::map<std::string_view, OnnxInitializer*> by_name;
  for (OnnxInitializer& initializer : graph.initializers) by_name.emplace(initializer.name, &initializer);
  std::vector<OnnxInitializer*> out;
  for (const OnnxNode& node : graph.nodes) {
    for (const std::string& input : node.inputs) {
      const auto found = by_name.find(input);
      if (found == by_name.end()) continue;
      out.push_back(found->second);
      by_name.erase(found);
    }
  }
  return out;
}

void note_names(const std::vector<std::string>& names, std::string_view what, OnnxGraph& graph) {
  if (names.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) text += cat(i ? ", " : "", shown(names[i]));
  if (names.size() > kMostNamed) text += cat(" and ", names.size() - kMostNamed, " more");
  graph.notes.push_back(cat(what, ": ", text, "."));
}

class Matcher {
 public:
  Matcher(OnnxGraph& graph, std::vector<Given>& given) : graph_(graph), given_(given) {}

  Status run(const std::string& path) {
    part_equals();
    GRAFT_TRY(by_name());
    by_order();
    if (named_ + ordered_ == 0) {
      return invalid("Not one of the ", given_.size(), " tensors of \"", path, "\" is of the graph: it has \"",
                     shown(given_[0].name), "\", the graph \"",
                     left_.empty() ? std::string() : shown(left_[0]), "\".");
    }
    graph_.notes.push_back(cat(named_, " tensors have the contents of \"", path, "\" by name",
                               ordered_ ? cat(", ", ordered_, " by order and shape") : "", "."));
    note_names(pairs_, "By order and shape", graph_);
    note_names(left_, "Not in that file, kept as they are", graph_);
    std::vector<std::string> unused;
    for (const Given& tensor : given_) {
      if (!tensor.used && !tensor.name.ends_with("num_batches_tracked")) unused.push_back(tensor.name);
    }
    note_names(unused, "In that file alone", graph_);
    return {};
  }

 private:
  static bool is_weight(const OnnxInitializer& initializer) {
    return initializer.tensor != nullptr && is_float(initializer.tensor->type) && !initializer.tensor->dims.empty();
  }

  void give(OnnxInitializer& to, Given& from, HostTensor tensor) {
    tensor.type = to.tensor->type;
    to.tensor = std::make_shared<HostTensor>(std::move(tensor));
    from.used = true;
  }

  /// Exporters keep one of several equal tensors, and name the others by Identity nodes of it; in another checkpoint
  /// they differ.
  void part_equals() {
    std::set<std::string_view> names;
    for (const Given& tensor : given_) names.insert(tensor.name);
    std::map<std::string, OnnxInitializer, std::less<>> known;
    for (const OnnxInitializer& initializer : graph_.initializers) known.emplace(initializer.name, initializer);
    std::erase_if(graph_.nodes, [&](const OnnxNode& node) {
      if (node.op != "Identity" || !node.domain.empty() || node.inputs.size() != 1 || node.outputs.size() != 1)
        return false;
      const auto from = known.find(node.inputs[0]);
      if (from == known.end() || !names.contains(node.outputs[0])) return false;
      OnnxInitializer own = from->second;
      own.name = node.outputs[0];
      known.emplace(own.name, own);
      graph_.initializers.push_back(std::move(own));
      return true;
    });
  }

  Status by_name() {
    std::map<std::string_view, Given*> names;
    for (Given& tensor : given_) names.emplace(tensor.name, &tensor);
    for (OnnxInitializer& to : graph_.initializers) {
      if (to.tensor == nullptr || !is_float(to.tensor->type)) continue;
      std::string_view name = to.name;
      auto found = names.find(name);
      if (found == names.end() && name.starts_with("module.")) found = names.find(name.substr(7));
      if (found == names.end()) continue;
      Given& from = *found->second;
      if (from.tensor.dims != to.tensor->dims || !is_float(from.tensor.type)) {
        return invalid("The tensor \"", shown(to.name), "\" is ", to.tensor->shape().text(), " in the graph and ",
                       from.tensor.shape().text(), " of ", elem_name(from.tensor.type), " in the file of weights.");
      }
      give(to, from, from.tensor);
      given_names_.insert(to.name);
      ++named_;
    }
    return {};
  }

  /// Module order is the order of use in what exporters write; a product's matrix was transposed by them.
  void by_order() {
    const bool folded = std::any_of(given_.begin(), given_.end(), [](const Given& t) {
      return !t.used && (t.name.ends_with("running_mean") || t.name.ends_with("running_var"));
    });
    std::size_t next = 0;
    for (OnnxInitializer* to : in_order_of_use(graph_)) {
      if (!is_weight(*to) || given_names_.contains(to->name)) continue;
      const bool turned = to->name.find("MatMul_") != std::string::npos && to->tensor->dims.size() == 2;
      std::vector<std::int64_t> dims = to->tensor->dims;
      if (turned) std::swap(dims[0], dims[1]);
      std::size_t at = next;
      while (at < given_.size() && (given_[at].used || given_[at].tensor.dims != dims)) ++at;
      if (!is_numbered(to->name) || folded || at == given_.size()) {
        left_.push_back(to->name);
        continue;
      }
      pairs_.push_back(cat(to->name, " <- ", given_[at].name));
      give(*to, given_[at], turned ? transposed(given_[at].tensor, {1, 0}) : given_[at].tensor);
      next = at + 1;
      ++ordered_;
    }
    if (folded && !left_.empty()) {
      graph_.notes.push_back(
          "Normalisations are folded into the graph's weights, so that those without names are none of the file's: "
          "export it with training=TrainingMode.PRESERVE or do_constant_folding=False.");
    }
  }

  OnnxGraph& graph_;
  std::vector<Given>& given_;
  std::set<std::string> given_names_;
  std::vector<std::string> left_, pairs_;
  std::size_t named_ = 0, ordered_ = 0;
};

}  // namespace

Status apply_weights(os::FileSystem& files, const std::string& path, OnnxGraph& graph) {
  GRAFT_TRY_ASSIGN(const auto mapped, files.map(path));
  const auto bytes = mapped->bytes();
  const std::size_t before = graph.notes.size();
  auto given = path.ends_with(".safetensors") ? read_safetensors_file(bytes, graph) : read_checkpoint(bytes, graph);
  if (!given.ok()) return std::move(given).status().with_context(path);
  if (given->empty()) {
    return invalid("\"", path, "\" holds no tensor that graft reads", graph.notes.size() == before ? "." : ": ",
                   graph.notes.size() == before ? "" : graph.notes[before]);
  }
  return Matcher(graph, *given).run(path);
}

}  // namespace graft::convert
