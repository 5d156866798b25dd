// Which nodes are needed, and in which order they are imported.
#include <queue>

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

Status Importer::find_producers() {
  for (const auto& initializer : source_.initializers) given_.insert(initializer.name);
  for (const auto& input : source_.inputs) given_.insert(input.name);
  for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
    for (const std::string& output : source_.nodes[i].outputs) {
      if (output.empty()) continue;
      if (given_.contains(output)) {
        return corrupt("The value \"", output, "\" is an input or initializer and the result of ",
                       source_.nodes[i].label(), " as well.");
      }
      if (!producer_.emplace(output, i).second) return corrupt("Two nodes produce the value \"", output, "\".");
    }
  }
  return {};
}

/// Walks back from the outputs.
Status Importer::mark_used() {
  used_.assign(source_.nodes.size(), false);
  std::vector<std::size_t> stack;
  const auto need = [&](const std::string& name) -> bool {
    wanted_.insert(name);
    const auto found = producer_.find(name);
    if (found == producer_.end()) return given_.contains(name);
    if (!used_[found->second]) {
      used_[found->second] = true;
      stack.push_back(found->second);
    }
    return true;
  };
  for (const auto& output : source_.outputs) {
    if (!need(output.name)) return corrupt("The output \"", output.name, "\" is produced by no node.");
  }
  while (!stack.empty()) {
    const std::size_t at = stack.back();
    const OnnxNode& node = source_.nodes[at];
    stack.pop_back();
    Names reads = node.inputs;
    reads.insert(reads.end(), captures(at).begin(), captures(at).end());
    for (const std::string& input : reads) {
      if (!input.empty() && !need(input)) {
        return corrupt("The input \"", input, "\" of ", node.label(), " is produced by nothing.");
      }
    }
  }
  return {};
}

/// Kahn's algorithm over the nodes in use; keeps the file's order where it is an order.
Status Importer::order_nodes() {
  std::vector<std::size_t> waiting(source_.nodes.size(), 0);
  std::vector<std::vector<std::size_t>> consumers(source_.nodes.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
    if (!used_[i]) continue;
    Names reads = source_.nodes[i].inputs;
    reads.insert(reads.end(), captures(i).begin(), captures(i).end());
    for (const std::string& input : reads) {
      const auto found = producer_.find(input);
      if (input.empty() || found == producer_.end()) continue;
      ++waiting[i];
      consumers[found->second].push_back(i);
    }
    if (waiting[i] == 0) ready.push(i);
  }
  while (!ready.empty()) {
    const std::size_t i = ready.top();
    ready.pop();
    order_.push_back(i);
    for (const std::size_t consumer : consumers[i]) {
      if (--waiting[consumer] == 0) ready.push(consumer);
    }
  }
  for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
    if (used_[i] && waiting[i] > 0) {
      return corrupt("The graph has a cycle, and ", source_.nodes[i].label(), " is part of it or behind it.");
    }
  }
  return {};
}

}  // namespace graft::convert
