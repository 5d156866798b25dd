// Operators that are written as a few others of ONNX: what they become has rules.
#include <algorithm>
#include <cmath>

#include "tools/convert/onnx/import/import.h"
#include "tools/convert/onnx/import/subgraphs.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMostSteps = 4096;

}  // namespace

/// Makes ONNX nodes in the place of one; after the first error it does nothing.
class Expansion {
 public:
  Expansion(Importer& importer, const OnnxNode& node)
      : importer_(importer), node_(node), scope_(Importer::scope_of(node)) {}

  std::string make(const char* op, std::vector<std::string> inputs, OnnxAttrs attrs = {}) {
    if (!status_.ok()) return {};
    const std::string name = cat(scope_, made_++);
    importer_.wanted_.insert(name);
    fail(importer_.import_made({name, op, "", std::move(inputs), {name}, std::move(attrs)}));
    if (status_.ok() && importer_.find(name) == nullptr)
      fail(unsupported("one of the ops that it is made of is not supported"));
    return name;
  }
  std::string ints(Ints values) {
    return importer_.constant_record(scope_ + "ints", HostTensor::of_ints(std::move(values)));
  }
  std::string scalar(double value, ElemType type) {
    HostTensor tensor = HostTensor::scalar(static_cast<float>(value));
    tensor.type = type;
    return importer_.constant_record(scope_ + "scalar", std::move(tensor));
  }
  std::string index(std::int64_t value) {
    HostTensor tensor = HostTensor::of_ints({value});
    tensor.dims = {};
    return importer_.constant_record(scope_ + "index", std::move(tensor));
  }
  /// The only output of a body of one input; the input itself where there is no such body.
  std::string through(std::string_view body, const std::string& input) {
    const auto found = node_.attrs.find(body);
    if (!status_.ok() || found == node_.attrs.end()) return input;
    const OnnxGraph* graph = found->second.graph.get();
    if (graph == nullptr || graph->inputs.size() != 1 || graph->outputs.size() != 1) {
      fail(corrupt("its ", body, " does not take and give one tensor"));
      return input;
    }
    const std::string prefix = cat(scope_, body, "/");
    auto outputs = importer_.inline_body(*graph, prefix, prefix, {{graph->inputs[0].name, input}});
    fail(outputs.status());
    if (!outputs.ok() || importer_.find((*outputs)[0]) == nullptr) {
      fail(unsupported("its ", body, " cannot be converted"));
      return input;
    }
    return (*outputs)[0];
  }

  bool given(std::size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }
  const std::string& in(std::size_t i) const { return node_.inputs[i]; }
  const Record& record(const std::string& name) const { return *importer_.find(name); }
  Result<std::int64_t> size(const std::string& name, std::size_t axis) {
    const Record* record = importer_.find(name);
    if (record == nullptr || axis >= record->shape.rank()) return corrupt("its input \"", name, "\" has too few axes");
    if (record->shape[axis].is_constant()) return record->shape[axis].value();
    return unsupported("its input \"", name, "\" has the symbolic axis ", record->shape[axis].text(),
                       "; bind it (--bind NAME=SIZE)");
  }
  std::int64_t attr(std::string_view name, std::int64_t fallback) const { return integer_of(node_, name, fallback); }
  double number(std::string_view name, double fallback) const {
    const auto found = node_.attrs.find(name);
    return found == node_.attrs.end() ? fallback : found->second.number;
  }
  std::string text(std::string_view name, std::string_view fallback) const {
    const auto found = node_.attrs.find(name);
    return found == node_.attrs.end() ? std::string(fallback) : found->second.text;
  }
  void out(std::size_t k, const std::string& name) {
    if (status_.ok() && k < node_.outputs.size()) fail(importer_.add_alias(node_.outputs[k], name));
  }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  Importer& importer_;
  const OnnxNode& node_;
  std::string scope_;
  std::size_t made_ = 0;
  Status status_;
};

namespace {

Status expect_inputs(const Expansion& e, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!e.given(i)) return corrupt("its input ", i, " is missing");
  }
  return {};
}

/// A convolution of each channel over what came before; the last inputs are the next call's past.
Status causal_conv_with_state(Expansion& e) {
  GRAFT_TRY(expect_inputs(e, 2));
  GRAFT_TRY_ASSIGN(const std::int64_t channels, e.size(e.in(0), 1));
  GRAFT_TRY_ASSIGN(const std::int64_t taps, e.size(e.in(1), 2));
  const std::string activation = e.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish") {
    return corrupt("its activation is \"", activation, "\"");
  }
  std::string padded = e.in(0);
  if (e.given(3)) {
    padded = e.make("Concat", {e.in(3), e.in(0)}, {{"axis", integer_attribute(2)}});
  } else if (taps > 1) {
    padded = e.make("Pad", {e.in(0), e.ints({0, 0, taps - 1, 0, 0, 0})});
  }
  std::vector<std::string> operands = {padded, e.in(1)};
  if (e.given(2)) operands.push_back(e.in(2));
  std::string y = e.make("Conv", operands, {{"group", integer_attribute(channels)}});
  if (activation != "none") y = e.make("Mul", {y, e.make("Sigmoid", {y})});
  e.out(0, y);
  GRAFT_TRY(e.status());
  GRAFT_TRY_ASSIGN(const std::int64_t length, e.size(padded, 2));
  e.out(1, e.make("Slice", {padded, e.ints({length - taps + 1}), e.ints({length}), e.ints({2})}));
  return e.status();
}

/// A state of keys by values for each head, step by step: faded, corrected and read.
Status linear_attention(Expansion& e) {
  GRAFT_TRY(expect_inputs(e, 3));
  const std::string rule = e.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") return corrupt("its update_rule is \"", rule, "\"");
  if ((gated && !e.given(4)) || (delta && !e.given(5))) return corrupt("its decay or its beta is missing");
  const std::int64_t heads = e.attr("q_num_heads", 0), kv_heads = e.attr("kv_num_heads", 0);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    return corrupt("its heads are ", heads, " of queries and ", kv_heads, " of keys");
  }
  GRAFT_TRY_ASSIGN(const std::int64_t steps, e.size(e.in(0), 1));
  GRAFT_TRY_ASSIGN(const std::int64_t query, e.size(e.in(0), 2));
  if (steps > kMostSteps) return unsupported("it takes ", steps, " steps, and ", kMostSteps, " are unrolled at most");
  double scale = e.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(query / heads));
  const auto by_head = [&](std::size_t i, std::int64_t n) {
    return e.make("Reshape", {e.in(i), e.ints({0, 0, n, -1})});
  };
  const std::string q = e.make("Mul", {by_head(0, heads), e.scalar(scale, e.record(e.in(0)).type)});
  const std::string k = by_head(1, kv_heads), v = by_head(2, kv_heads);
  const std::string fade = gated ? e.make("Exp", {by_head(4, kv_heads)}) : std::string();
  const std::string beta = delta ? e.make("Reshape", {e.in(5), e.ints({0, 0, -1, 1})}) : std::string();
  const std::string rows = e.ints({-2}), columns = e.ints({-1});
  std::string state = e.given(3) ? e.in(3) : std::string();
  std::vector<std::string> outputs;
  for (std::int64_t t = 0; t < steps && e.status().ok(); ++t) {
    const std::string at = e.index(t);
    const auto step = [&](const std::string& of) {
      return e.make("Gather", {of, at}, {{"axis", integer_attribute(1)}});
    };
    const std::string column = e.make("Unsqueeze", {step(k), columns});
    std::string row = e.make("Unsqueeze", {step(v), rows});
    if (gated && !state.empty()) state = e.make("Mul", {state, e.make("Unsqueeze", {step(fade), columns})});
    if (delta && !state.empty()) {
      const std::string key_row = e.make("Unsqueeze", {step(k), rows});
      row = e.make("Sub", {row, e.make("MatMul", {key_row, state})});
    }
    if (delta) row = e.make("Mul", {row, e.make("Unsqueeze", {step(beta), rows})});
    const std::string written = e.make("MatMul", {column, row});
    state = state.empty() ? written : e.make("Add", {state, written});
    // Queries of a group read one state: they are its rows.
    const std::string grouped = e.make("Reshape", {step(q), e.ints({0, kv_heads, heads / kv_heads, -1})});
    outputs.push_back(e.make("Reshape", {e.make("MatMul", {grouped, state}), e.ints({0, 1, -1})}));
  }
  e.out(0, e.make("Concat", outputs, {{"axis", integer_attribute(1)}}));
  e.out(1, state);
  return e.status();
}

/// Attention whose scores and probabilities go through bodies of the file's own.
Status flex_attention(Expansion& e) {
  GRAFT_TRY(expect_inputs(e, 3));
  GRAFT_TRY_ASSIGN(const std::int64_t heads, e.size(e.in(0), 1));
  GRAFT_TRY_ASSIGN(const std::int64_t kv_heads, e.size(e.in(1), 1));
  GRAFT_TRY_ASSIGN(const std::int64_t width, e.size(e.in(0), 3));
  if (kv_heads < 1 || heads % kv_heads != 0) return corrupt("its heads are ", heads, " and ", kv_heads);
  const ElemType type = e.record(e.in(0)).type;
  const double scale = e.number("scale", 1 / std::sqrt(static_cast<double>(width)));
  const auto repeated = [&](std::size_t i) {
    if (heads == kv_heads) return e.in(i);
    const std::string apart = e.make("Unsqueeze", {e.in(i), e.ints({2})});
    const std::string spread = e.make("Expand", {apart, e.ints({1, 1, heads / kv_heads, 1, 1})});
    const Shape& shape = e.record(e.in(i)).shape;
    Ints sizes = {0, heads, shape[2].is_constant() ? shape[2].value() : -1,
                  shape[3].is_constant() ? shape[3].value() : -1};
    return e.make("Reshape", {spread, e.ints(std::move(sizes))});
  };
  const std::string keys = e.make("Transpose", {repeated(1)}, {{"perm", integers_attribute({0, 1, 3, 2})}});
  const std::string scaled = e.make("Mul", {e.in(0), e.scalar(scale, type)});
  const std::string scores = e.through("score_mod", e.make("MatMul", {scaled, keys}));
  const std::string weights = e.make("Softmax", {scores}, {{"axis", integer_attribute(-1)}});
  e.out(0, e.make("MatMul", {e.through("prob_mod", weights), repeated(2)}));
  return e.status();
}

struct ExpandEntry {
  std::string_view op;
  Status (*expand)(Expansion&);
};
constexpr ExpandEntry kExpansions[] = {
    {"CausalConvWithState", causal_conv_with_state},
    {"LinearAttention", linear_attention},
    {"ai.onnx.preview.FlexAttention", flex_attention},
};

}  // namespace

bool Importer::is_expanded(const OnnxNode& node) {
  return std::any_of(std::begin(kExpansions), std::end(kExpansions),
                     [&](const ExpandEntry& entry) { return entry.op == node.kind(); });
}

Status Importer::expand_node(std::size_t index, Report::Entry& entry) {
  const OnnxNode& node = node_at(index);
  const auto found = std::find_if(std::begin(kExpansions), std::end(kExpansions),
                                  [&](const ExpandEntry& expansion) { return expansion.op == node.kind(); });
  Expansion expansion(*this, node);
  entry.fate = Report::Fate::folded;
  entry.precision = "written as other ops";
  return found->expand(expansion);
}

}  // namespace graft::convert
