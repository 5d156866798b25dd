#include "runtime/run_state/resize_head.h"

#include <algorithm>
#include <cstring>

#include "platform/base/numbers.h"
#include "platform/base/text.h"
#include "runtime/core/copy_graph.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/lora/adapter.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/run_state/run_state.h"

namespace graft {
namespace {

constexpr std::int64_t kMostClasses = 1 << 24;

/// The last layer. Ids of the source.
struct Head {
  ValueId weight;
  std::size_t axis = 0;  ///< of its classes
  ValueId bias = kNoValue;
  std::size_t bias_axis = 0;
  std::int64_t classes = 0;
  std::int64_t fan_in = 0;
  NodeId product;
};

bool is_weight(const Value& value) { return value.kind == ValueKind::parameter || value.kind == ValueKind::constant; }

class HeadFinder {
 public:
  explicit HeadFinder(const Graph& graph) : graph_(graph) {}

  Result<Head> find(const Output& output) {
    for (ValueId at = output.value;;) {
      const NodeId by = graph_.value(at).producer;
      if (!by.valid()) return refuse(output, cat("\"", graph_.value(at).name, "\" is not computed by a layer"));
      const Node& node = graph_.node(by);
      if (node.op == Op::matmul || node.op == Op::conv) return layer(output, by);
      if (node.op == Op::add && is_weight(graph_.value(node.inputs[0])) != is_weight(graph_.value(node.inputs[1]))) {
        const std::size_t which = is_weight(graph_.value(node.inputs[0])) ? 0 : 1;
        if (!head_.bias.valid()) head_.bias = node.inputs[which];
        at = node.inputs[1 - which];
        continue;
      }
      if (!leads_back(node)) {
        return refuse(output,
                      cat("\"", node.name, "\" (", op_name(node.op), ") stands between the output and a layer"));
      }
      at = node.inputs[0];
    }
  }

 private:
  /// What may follow a head: it computes from one value, and classes stay apart.
  static bool leads_back(const Node& node) {
    constexpr Op kOps[] = {Op::softmax,  Op::log_softmax, Op::sigmoid, Op::tanh,      Op::affine,      Op::clip,
                           Op::relu,     Op::reshape,     Op::cast,    Op::transpose, Op::reduce_mean, Op::avg_pool,
                           Op::max_pool, Op::reduce_max,  Op::dropout, Op::exp,       Op::log,         Op::softplus};
    return std::ranges::find(kOps, node.op) != std::end(kOps);
  }

  static Status refuse(const Output& output, const std::string& why) {
    return unsupported("The output \"", output.name, "\" has no head that could be resized: ", why,
                       ". A head is a linear layer or a convolution with a weight of its own.");
  }

  Result<Head> layer(const Output& output, NodeId by) {
    const Node& node = graph_.node(by);
    const Value& weight = graph_.value(node.inputs[1]);
    const bool conv = node.op == Op::conv;
    const std::string named = cat("the weight \"", weight.name, "\" of \"", node.name, "\"");
    if (!is_weight(weight)) return refuse(output, cat("\"", node.name, "\" has no weight of its own"));
    if (weight.dtype != DType::f32) {
      return refuse(output, cat(named, " is of type ", dtype_name(weight.dtype), ", not f32 (graft convert --expand)"));
    }
    if (!weight.shape.is_constant() || weight.shape.rank() != (conv ? 4u : 2u)) {
      return refuse(output, cat(named, " has the shape ", weight.shape.text()));
    }
    if (conv && node.attrs.integer("groups") != 1) return refuse(output, cat("\"", node.name, "\" has groups"));
    head_.product = by;
    head_.weight = node.inputs[1];
    head_.axis = conv || node.attrs.flag("trans_b") ? 0 : 1;
    head_.classes = weight.shape[head_.axis].value();
    head_.fan_in = static_cast<std::int64_t>(weight.shape.elements()) / head_.classes;
    if (node.inputs.size() > 2 && node.inputs[2].valid()) head_.bias = node.inputs[2];
    GRAFT_TRY(check_read_once(output, head_.weight));
    if (!head_.bias.valid()) return head_;
    GRAFT_TRY(check_read_once(output, head_.bias));
    const Value& bias = graph_.value(head_.bias);
    const bool fits = bias.dtype == DType::f32 && bias.shape.is_constant() && is_weight(bias) &&
                      static_cast<std::int64_t>(bias.shape.elements()) == head_.classes;
    if (!fits) {
      return refuse(output, cat("the bias \"", bias.name, "\" of shape ", bias.shape.text(),
                                " is not one number for each of ", head_.classes, " classes"));
    }
    for (std::size_t i = 0; i < bias.shape.rank(); ++i) {
      if (bias.shape[i].value() == head_.classes) head_.bias_axis = i;
    }
    return head_;
  }

  Status check_read_once(const Output& output, ValueId weight) const {
    const Node* first = nullptr;
    for (const Node& node : graph_.nodes()) {
      if (std::ranges::find(node.inputs, weight) == node.inputs.end()) continue;
      if (first != nullptr) {
        return refuse(output, cat("the weight \"", graph_.value(weight).name, "\" is read by \"", first->name,
                                  "\" and by \"", node.name, "\""));
      }
      first = &node;
    }
    return {};
  }

  const Graph& graph_;
  Head head_;
};

Result<Output> output_of(const Graph& graph, const std::string& name) {
  std::string all;
  for (const Output& output : graph.outputs()) {
    if (output.name == name || (name.empty() && graph.outputs().size() == 1)) return output;
    all += cat(all.empty() ? "\"" : ", \"", output.name, "\"");
  }
  if (name.empty()) return invalid("The model has several outputs: say which one has the classes, of ", all, ".");
  return error(Code::not_found, "The model has no output \"", name, "\"; there are ", all, ".");
}

/// The graph with a head of so many classes. Reshapes behind it that spell the number out follow.
Result<Graph> resized_graph(const Graph& source, const Head& head, std::int64_t classes) {
  std::vector<bool> behind(source.values().size());
  const auto adapt = [&](Graph&, const Node& node, std::vector<ValueId>&, Attrs& attrs) -> Status {
    const bool reads = std::ranges::any_of(node.inputs, [&](ValueId v) { return v.valid() && behind[v.index]; });
    if (!reads && source.find_node(node.name) != head.product) return {};
    for (const ValueId output : node.outputs) behind[output.index] = true;
    if (node.op != Op::reshape) return {};
    Shape shape = attrs.shape("shape");
    const auto spells = [&](const Dim& dim) { return dim.is_constant() && dim.value() == head.classes; };
    const auto count = std::ranges::count_if(shape, spells);
    if (count > 1) {
      return unsupported("The reshape to ", shape.text(), " has several axes of ", head.classes,
                         ": which one is that of the classes is not known.");
    }
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (spells(shape[i])) shape[i] = Dim(classes);
    }
    attrs.set("shape", shape);
    return {};
  };
  const auto longer = [&](Graph& copy, const Value& value) -> Result<ValueId> {
    const ValueId id = source.find_value(value.name);
    if (id != head.weight && id != head.bias) return copy.add_value_like(value);
    Value changed = value;
    changed.kind = ValueKind::parameter;
    changed.contents = {};
    changed.shape[id == head.weight ? head.axis : head.bias_axis] = Dim(classes);
    return copy.add_value_like(changed);
  };
  GRAFT_TRY_ASSIGN(GraphCopy made, copy_graph(source, adapt, longer));
  for (const Output& output : source.outputs()) made.graph.add_output(output.name, made.values[output.value.index]);
  return std::move(made.graph);
}

/// Whether one axis alone has become `to`, where it was `from`.
bool has_grown(const Shape& before, const Shape& after, std::int64_t from, std::int64_t to) {
  std::size_t changed = 0;
  for (std::size_t i = 0; i < before.rank(); ++i) {
    if (before.rank() != after.rank()) return false;
    if (before[i] == after[i]) continue;
    ++changed;
    if (before[i] != Dim(from) || after[i] != Dim(to)) return false;
  }
  return changed == 1 || from == to;
}

/// Old rows, and new ones behind them. `kept`: how many old ones.
Status fill(const Model& base, ValueId old, std::size_t axis, const Head& head, std::int64_t kept, std::uint32_t seed,
            Model& model) {
  const Value& before = base.graph.value(old);
  const ValueId id = model.graph.find_value(before.name);
  const Shape& shape = model.graph.value(id).shape;
  std::vector<std::int64_t> dims, old_dims;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    dims.push_back(shape[i].value());
    old_dims.push_back(before.shape[i].value());
  }
  const std::int64_t to = dims[axis], fresh = to - kept;
  const std::int64_t width = static_cast<std::int64_t>(shape.elements()) / to;
  const std::vector<float> rows = initial_linear(before.name, fresh * width, head.fan_in, seed);
  std::vector<float> numbers(shape.elements());
  for (std::int64_t row = 0; row < fresh; ++row) {  // of a class; classes are the first axis, or the last one
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t at = axis == 0 ? (kept + row) * width + i : i * to + kept + row;
      numbers[static_cast<std::size_t>(at)] = rows[static_cast<std::size_t>(row * width + i)];
    }
  }
  if (kept > 0) {
    const auto contents = base.weight(old);
    if (!contents) return invalid("The weight \"", before.name, "\" has no contents.");
    (void)overlay(*contents, old_dims, kept, std::as_writable_bytes(std::span(numbers)), dims, to, sizeof(float));
  }
  return model.copy_weight(id, std::as_bytes(std::span(numbers)));
}

Status set_classes(const HeadOptions& options, std::int64_t from, Model& model) {
  std::vector<std::string> names = classes_of(model);
  const std::int64_t fresh = options.replace ? options.classes : options.classes - from;
  if (options.names.empty()) {
    if (names.empty()) return {};
    if (options.replace) {  // the next training's data say
      model.metadata.erase(std::string(kMetaClasses));
      return {};
    }
    return invalid("The model knows its ", names.size(), " classes by their names; the ", fresh,
                   " new ones need names as well.");
  }
  if (static_cast<std::int64_t>(options.names.size()) != fresh) {
    return invalid("There are ", options.names.size(), " names for ", fresh, options.replace ? "" : " new",
                   " classes.");
  }
  if (options.replace) names.clear();
  if (!options.replace && static_cast<std::int64_t>(names.size()) != from) {
    return invalid("The model has names for ", names.size(), " of its ", from,
                   " classes, so that the new ones cannot have any.");
  }
  for (const std::string& name : options.names) {
    if (std::ranges::find(names, name) != names.end())
      return invalid("There is a class \"", shown(name), "\" already.");
    names.push_back(name);
  }
  keep_classes(&names, model);
  return {};
}

}  // namespace

bool overlay(std::span<const std::byte> old, std::span<const std::int64_t> old_dims, std::int64_t from,
             std::span<std::byte> now, std::span<const std::int64_t> dims, std::int64_t to, std::size_t element) {
  if (old_dims.size() != dims.size() || dims.empty()) return false;
  std::size_t old_count = 1, count = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (old_dims[i] != dims[i] && (old_dims[i] != from || dims[i] != to)) return false;
    old_count *= static_cast<std::size_t>(old_dims[i]);
    count *= static_cast<std::size_t>(dims[i]);
  }
  if (old.size() != old_count * element || now.size() != count * element) return false;
  const auto row_old = static_cast<std::size_t>(old_dims.back()), row = static_cast<std::size_t>(dims.back());
  std::vector<std::int64_t> at(dims.size() - 1);
  for (std::size_t r = 0; row_old != 0 && r < old_count / row_old; ++r) {
    std::size_t to_row = 0, rest = r;
    for (std::size_t i = at.size(); i-- > 0; rest /= static_cast<std::size_t>(old_dims[i])) {
      at[i] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(old_dims[i]));
    }
    bool inside = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      inside = inside && at[i] < dims[i];
      to_row = to_row * static_cast<std::size_t>(dims[i]) + static_cast<std::size_t>(at[i]);
    }
    if (!inside) continue;
    std::memcpy(now.data() + to_row * row * element, old.data() + r * row_old * element,
                std::min(row_old, row) * element);
  }
  return true;
}

Result<Model> resize_head(const Model& base, const HeadOptions& options) {
  if (base.metadata.contains(kMetaAdapter)) {
    return invalid("The model has adapters: merge them or take them off before its head is resized.");
  }
  GRAFT_TRY_ASSIGN(const Output output, output_of(base.graph, options.output));
  GRAFT_TRY_ASSIGN(const Head head, HeadFinder(base.graph).find(output));
  const std::int64_t least = options.replace ? 1 : head.classes + 1;
  if (options.classes < least || options.classes > kMostClasses) {
    return invalid("The head of \"", output.name, "\" has ", head.classes, " classes, and ", options.classes,
                   " were asked for; ", least, " to ", kMostClasses, " can be had",
                   options.replace ? "." : ", or another number with a head that begins anew (replace).");
  }
  Model model;
  GRAFT_TRY_ASSIGN(model.graph, resized_graph(base.graph, head, options.classes));
  const Shape& before = base.graph.value(output.value).shape;
  const Shape& after = model.graph.value(output_of(model.graph, output.name)->value).shape;
  if (!has_grown(before, after, head.classes, options.classes)) {
    return unsupported("With ", options.classes, " classes the output \"", output.name, "\" of shape ", before.text(),
                       " would be of shape ", after.text(), ": its head cannot be resized.");
  }
  model.metadata = base.metadata;
  model.symbol_defaults = base.symbol_defaults;
  model.tokenizer = base.tokenizer;
  model.signatures = base.signatures;
  for (Signature& signature : model.signatures) {
    for (auto* values : {&signature.inputs, &signature.outputs}) {
      for (Output& of : *values) of.value = model.graph.find_value(base.graph.value(of.value).name);
    }
  }
  for (std::uint32_t i = 0; i < base.graph.values().size(); ++i) {
    const ValueId id{i};
    if (!base.weight(id) || id == head.weight || id == head.bias) continue;
    GRAFT_TRY(model.borrow_weight(model.graph.find_value(base.graph.value(id).name), base, id));
  }
  const std::int64_t kept = options.replace ? 0 : head.classes;
  GRAFT_TRY(fill(base, head.weight, head.axis, head, kept, options.seed, model));
  if (head.bias.valid()) GRAFT_TRY(fill(base, head.bias, head.bias_axis, head, kept, options.seed, model));
  GRAFT_TRY(set_classes(options, head.classes, model));
  std::string text = cat(options.replace ? "replace " : "widen ", head.classes, ' ', options.classes, ' ', options.seed,
                         ' ', structure_hash(base.graph), '\n', base.graph.value(head.weight).name, '\n');
  if (head.bias.valid()) text += base.graph.value(head.bias).name + '\n';
  model.metadata.insert_or_assign(std::string(kMetaHead), text);
  return model;
}

bool ResizedHead::holds(std::string_view tensor) const {
  return std::ranges::any_of(parameters, [&](const std::string& name) {
    return tensor.starts_with(name) && (tensor.size() == name.size() || tensor[name.size()] == '/');
  });
}

std::optional<ResizedHead> resized_head_of(const Metadata& metadata) {
  const auto found = metadata.find(kMetaHead);
  if (found == metadata.end()) return {};
  ResizedHead head;
  std::string_view rest = found->second;
  head.text = rest.substr(0, rest.find('\n'));
  const auto until = [&rest](char end) {
    const std::string_view part = rest.substr(0, rest.find(end));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    return part;
  };
  const std::string_view how = until(' ');
  const bool known = how == "replace" || how == "widen";
  head.replaced = how == "replace";
  if (!known || !whole_number(until(' '), head.from) || !whole_number(until(' '), head.to)) return {};
  (void)until(' ');  // the seed
  head.model = until('\n');
  while (!rest.empty()) head.parameters.emplace_back(until('\n'));
  return head;
}

}  // namespace graft
