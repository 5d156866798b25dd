#include "tools/convert/onnx/import/subgraphs.h"

#include <algorithm>
#include <set>

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMostNodes = 200'000;
constexpr int kMostCalls = 64;  // within each other

void capture(const OnnxGraph& graph, std::vector<std::string>& captured, std::set<std::string>& seen) {
  const std::set<std::string> own = defined_names(graph);
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !own.contains(name) && seen.insert(name).second) captured.push_back(name);
  };
  for (const OnnxNode& node : graph.nodes) {
    for (const std::string& input : node.inputs) read(input);
    for (const std::string& name : captured_names(node)) read(name);
  }
  for (const OnnxValue& output : graph.outputs) read(output.name);
}

const std::string& changed(const std::string& name, const NameMap& names) {
  const auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

OnnxGraph renamed_body(OnnxGraph body, NameMap names) {
  for (const std::string& own : defined_names(body)) names.erase(own);
  for (OnnxNode& node : body.nodes) node = renamed(node, names);
  for (OnnxValue& output : body.outputs) output.name = changed(output.name, names);
  return body;
}

// --- functions

/// Attributes of a function's node that stand for those of the call.
void bind_attributes(OnnxNode& node, const OnnxAttrs& call) {
  OnnxAttrs bound;
  for (auto& [name, attr] : node.attrs) {
    if (!attr.ref.empty()) {
      if (const auto given = call.find(attr.ref); given != call.end()) bound[name] = given->second;
      continue;  // left out: the operator's own default
    }
    if (attr.graph != nullptr) {
      auto body = std::make_shared<OnnxGraph>(*attr.graph);
      for (OnnxNode& inner : body->nodes) bind_attributes(inner, call);
      attr.graph = std::move(body);
    }
    bound[name] = std::move(attr);
  }
  node.attrs = std::move(bound);
}

class Functions {
 public:
  explicit Functions(const std::vector<OnnxFunction>& functions) {
    for (const OnnxFunction& function : functions) by_name_[key(function.domain, function.name)] = &function;
  }

  Status run(OnnxGraph& graph) {
    std::vector<OnnxNode> nodes;
    for (OnnxNode& node : graph.nodes) GRAFT_TRY(add(std::move(node), nodes, 0));
    graph.nodes = std::move(nodes);
    return {};
  }

 private:
  static std::string key(std::string_view domain, std::string_view name) {
    return cat(domain == "ai.onnx" ? "" : domain, "\n", name);
  }

  Status add(OnnxNode node, std::vector<OnnxNode>& to, int depth) {
    const auto found = by_name_.find(key(node.domain, node.op));
    for (auto& [name, attr] : node.attrs) {
      if (attr.graph == nullptr) continue;
      auto body = std::make_shared<OnnxGraph>(*attr.graph);
      GRAFT_TRY(run(*body));
      attr.graph = std::move(body);
    }
    if (found == by_name_.end() || find_rule(node.kind()) != nullptr) {
      if (++made_ > kMostNodes) return corrupt("Its functions hold more than ", kMostNodes, " nodes once inlined.");
      to.push_back(std::move(node));
      return {};
    }
    if (depth == kMostCalls)
      return corrupt("Functions call each other more than ", kMostCalls, " deep: ", node.label(), ".");
    return call(node, *found->second, to, depth);
  }

  Status call(const OnnxNode& node, const OnnxFunction& function, std::vector<OnnxNode>& to, int depth) {
    NameMap names;
    const std::string base = !node.name.empty() ? node.name : node.outputs.empty() ? node.op : node.outputs[0];
    const std::string prefix = cat(base, "/", calls_++, "/");
    std::set<std::string> made;
    for (const OnnxNode& inner : function.nodes) {
      for (const std::string& output : inner.outputs) {
        if (output.empty()) continue;
        names[output] = prefix + output;
        made.insert(output);
      }
    }
    for (std::size_t i = 0; i < function.inputs.size(); ++i) {
      names[function.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : std::string();
    }
    std::vector<OnnxNode> passed;  // outputs that are inputs
    for (std::size_t k = 0; k < function.outputs.size() && k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (made.contains(function.outputs[k])) {
        names[function.outputs[k]] = node.outputs[k];
      } else {
        passed.push_back({"", "Identity", "", {changed(function.outputs[k], names)}, {node.outputs[k]}, {}});
      }
    }
    for (const OnnxNode& inner : function.nodes) {
      OnnxNode copy = renamed(inner, names);
      copy.name = inner.name.empty() ? std::string() : prefix + inner.name;
      bind_attributes(copy, node.attrs);
      GRAFT_TRY(add(std::move(copy), to, depth + 1));
    }
    for (OnnxNode& node_of : passed) GRAFT_TRY(add(std::move(node_of), to, depth + 1));
    return {};
  }

  std::map<std::string, const OnnxFunction*> by_name_;
  std::size_t made_ = 0;
  std::size_t calls_ = 0;
};

}  // namespace

OnnxAttr integer_attribute(std::int64_t value) {
  OnnxAttr attr;
  attr.kind = OnnxAttr::Kind::integer;
  attr.integer = value;
  return attr;
}

OnnxAttr integers_attribute(std::vector<std::int64_t> values) {
  OnnxAttr attr;
  attr.kind = OnnxAttr::Kind::integers;
  attr.integers = std::move(values);
  return attr;
}

std::int64_t integer_of(const OnnxNode& node, std::string_view name, std::int64_t fallback) {
  const OnnxAttr* found = node.attrs.of_kind(name, OnnxAttr::Kind::integer);
  return found != nullptr ? found->integer : fallback;
}

std::vector<std::string> captured_names(const OnnxNode& node) {
  std::vector<std::string> captured;
  std::set<std::string> seen;
  for (const auto& [name, attr] : node.attrs) {
    if (attr.graph != nullptr) capture(*attr.graph, captured, seen);
  }
  return captured;
}

std::set<std::string> defined_names(const OnnxGraph& graph) {
  std::set<std::string> names;
  for (const OnnxValue& input : graph.inputs) names.insert(input.name);
  for (const OnnxInitializer& initializer : graph.initializers) names.insert(initializer.name);
  for (const OnnxNode& node : graph.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

void for_each_graph(const OnnxGraph& graph, const std::function<void(const OnnxGraph&)>& see) {
  see(graph);
  for (const OnnxNode& node : graph.nodes) {
    for (const auto& [name, attr] : node.attrs) {
      if (attr.graph != nullptr) for_each_graph(*attr.graph, see);
    }
  }
}

void change_bodies(OnnxGraph& graph, const std::function<void(OnnxGraph&)>& change) {
  for (OnnxNode& node : graph.nodes) {
    for (auto& [name, attr] : node.attrs) {
      if (attr.graph == nullptr) continue;
      auto body = std::make_shared<OnnxGraph>(*attr.graph);
      change(*body);
      attr.graph = std::move(body);
    }
  }
}

OnnxNode renamed(const OnnxNode& node, const NameMap& names) {
  OnnxNode out = node;
  for (std::string& input : out.inputs) input = changed(input, names);
  for (std::string& output : out.outputs) output = changed(output, names);
  for (auto& [name, attr] : out.attrs) {
    if (attr.graph != nullptr) attr.graph = std::make_shared<OnnxGraph>(renamed_body(*attr.graph, names));
  }
  return out;
}

std::vector<const OnnxNode*> needed_nodes(const OnnxGraph& graph) {
  std::set<std::string> wanted;
  for (const OnnxValue& output : graph.outputs) wanted.insert(output.name);
  std::vector<const OnnxNode*> needed;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const OnnxNode& node = graph.nodes[i];
    const bool used = std::any_of(node.outputs.begin(), node.outputs.end(),
                                  [&](const std::string& name) { return wanted.contains(name); });
    if (!used) continue;
    needed.push_back(&node);
    wanted.insert(node.inputs.begin(), node.inputs.end());
    for (std::string& name : captured_names(node)) wanted.insert(std::move(name));
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

Status inline_functions(OnnxGraph& graph) {
  if (graph.functions.empty()) return {};
  return Functions(graph.functions).run(graph);
}

}  // namespace graft::convert
