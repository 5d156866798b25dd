#include "runtime/lora/add_lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <span>
#include <type_traits>

#include "platform/base/hash.h"
#include "platform/base/numbers.h"
#include "platform/base/text.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/philox.h"

namespace graft {
namespace {

constexpr std::int64_t kMaxRank = 4096;
constexpr double kLeastSquare = 1e-24;  ///< added to squared lengths: one of 0 is divided by

/// Splits at `separator`; an empty text has no parts.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <typename Value>
Status out_of_range(std::string_view name, const Value& value, std::string_view range) {
  return invalid("The adapter option ", name, " is ", value, "; it must be ", range, ".");
}

template <typename Number>
Status parse_option(std::string_view name, std::string_view text, Number& number) {
  if (whole_number(text, number)) return {};
  return out_of_range(name, cat('"', text, '"'), std::is_integral_v<Number> ? "a whole number" : "a number");
}

Status parse_flag(std::string_view name, std::string_view text, bool& flag) {
  if (text != "yes" && text != "no") return out_of_range(name, cat('"', text, '"'), "yes or no");
  flag = text == "yes";
  return {};
}

bool is_target(std::string_view target, std::string_view name) {
  if (matches(target, name)) return true;
  const auto dotted = parts_of(name, '.');
  return std::ranges::find(dotted, target) != dotted.end();
}

/// "fc.weight" -> "fc".
std::string layer_of(std::string_view weight) {
  constexpr std::string_view kEnding = ".weight";
  return std::string(weight.ends_with(kEnding) ? weight.substr(0, weight.size() - kEnding.size()) : weight);
}

bool is_weight(const Value& value) {
  const bool kept = value.kind == ValueKind::parameter || value.kind == ValueKind::constant;
  return kept && value.shape.rank() == 2 && value.shape.is_constant();
}

bool looks_up(const Node& node) { return node.op == Op::gather && node.attrs.integer("axis") == 0; }
bool multiplies(const Node& node) { return node.op == Op::matmul && !node.attrs.flag("trans_a"); }

class Adder {
 public:
  Adder(const Graph& source, const LoraOptions& options) : source_(source), options_(options) {}

  Result<LoraGraph> run() {
    GRAFT_TRY(find_sites());
    values_.assign(source_.values().size(), kNoValue);
    for (std::uint32_t i = 0; i < source_.values().size(); ++i) GRAFT_TRY(copy_value({i}));
    for (const LoraSite& site : out_.sites) GRAFT_TRY(add_adapter(site));
    for (std::uint32_t i = 0; i < source_.nodes().size(); ++i) GRAFT_TRY(copy_node({i}));
    for (const Output& output : source_.outputs()) out_.graph.add_output(output.name, values_[output.value.index]);
    return std::move(out_);
  }

 private:
  struct Adapter {
    ValueId a;
    ValueId b;
    ValueId magnitude = kNoValue;
    ValueId squared_norm = kNoValue;
    ValueId factor = kNoValue;  ///< magnitude over length, once it is in the graph
    ValueId pissa_a = kNoValue;
    ValueId pissa_b = kNoValue;
  };

  /// The weight of a linear layer, rank 2, made by no node, times rows that are not transposed; or the table of an
  /// embedding.
  ValueId weight_of(const Node& node) const {
    const ValueId id = looks_up(node) ? node.inputs[0] : multiplies(node) ? node.inputs[1] : kNoValue;
    return id.valid() && is_weight(source_.value(id)) ? id : kNoValue;
  }

  /// What the adapter of the node's weight is called by.
  std::string layer_at(const Node& node, const std::string& weight) const {
    const bool shared = !looks_up(node) && is_looked_up_and_multiplied(source_, weight);
    return shared ? node.name : layer_of(weight);
  }

  /// Whether it is what an output is, or is before that is scaled and capped.
  bool is_output(ValueId value) const {
    return std::ranges::any_of(source_.outputs(), [&](const Output& output) {
      ValueId v = output.value;
      const auto is_scale = [](Op op) { return op == Op::affine || op == Op::tanh; };
      for (NodeId by = source_.value(v).producer; v != value && by.valid() && is_scale(source_.node(by).op);
           by = source_.value(v).producer) {
        v = source_.node(by).inputs[0];
      }
      return v == value;
    });
  }

  /// `name`: the weight's, or what stands for it.
  bool wanted(const Node& node, std::string_view name, std::vector<bool>& used) const {
    if (name.starts_with(kSentenceDense)) return false;
    if (options_.targets.empty()) return !looks_up(node) && !is_output(node.outputs[0]);
    bool any = false;
    for (std::size_t t = 0; t < options_.targets.size(); ++t) {
      // A pattern is of linear layers: it would reach any table, as those of places.
      if (looks_up(node) && options_.targets[t].find_first_of("*?") != std::string::npos) continue;
      if (!is_target(options_.targets[t], name)) continue;
      used[t] = true;
      any = true;
    }
    return any;
  }

  Status find_sites() {
    std::vector<bool> used(options_.targets.size());
    for (const Node& node : source_.nodes()) {
      const ValueId id = weight_of(node);
      if (!id.valid()) continue;
      const Value& weight = source_.value(id);
      const std::string layer = layer_at(node, weight.name);
      if (!wanted(node, layer == layer_of(weight.name) ? weight.name : layer, used)) continue;
      if (std::ranges::any_of(out_.sites, [&](const LoraSite& s) { return s.layer == layer; })) continue;
      if (looks_up(node)) {
        GRAFT_TRY(add_embedding(weight, layer));
        continue;
      }
      const bool transposed = node.attrs.flag("trans_b");
      LoraSite& site = out_.sites.emplace_back();
      site = {weight.name, layer, layer + std::string(kLoraA), layer + std::string(kLoraB)};
      if (options_.dora) site.magnitude = layer + std::string(kLoraMagnitude);
      if (options_.dora) site.squared_norm = layer + ".squared_norm";
      if (options_.pissa) site.pissa_a = layer + std::string(kPissaA);
      if (options_.pissa) site.pissa_b = layer + std::string(kPissaB);
      site.in = weight.shape[transposed ? 1 : 0].value();
      site.out = weight.shape[transposed ? 0 : 1].value();
      site.transposed = transposed;
      if (options_.pissa && options_.rank > std::min(site.in, site.out)) {
        return invalid("The adapter option r (rank) is ", options_.rank, ", but the weight \"", site.weight, "\" of ",
                       weight.shape.text(), " has only ", std::min(site.in, site.out),
                       " directions to begin with: with init=pissa a rank is at most that.");
      }
    }
    for (std::size_t t = 0; t < used.size(); ++t) {
      if (used[t]) continue;
      return invalid("The adapter target \"", options_.targets[t],
                     "\" matches no weight of a linear layer or an embedding.");
    }
    if (out_.sites.empty()) return invalid("The model has no linear layer to adapt.");
    return {};
  }

  Status add_embedding(const Value& table, const std::string& layer) {
    if (options_.dora || options_.pissa) {
      return unsupported("The adapter option ", options_.dora ? "dora=yes" : "init=pissa",
                         " is for linear layers; the target \"", table.name, "\" is an embedding.");
    }
    LoraSite& site = out_.sites.emplace_back();
    site = {table.name, layer, layer + std::string(kLoraEmbeddingA), layer + std::string(kLoraEmbeddingB)};
    site.in = table.shape[0].value();
    site.out = table.shape[1].value();
    site.embedding = true;
    return {};
  }

  Status copy_value(ValueId id) {
    const Value& value = source_.value(id);
    if (value.kind == ValueKind::temporary) return {};
    const ValueKind kind = value.kind == ValueKind::parameter ? ValueKind::constant : value.kind;
    GRAFT_TRY_ASSIGN(values_[id.index], out_.graph.add_value_like(value));
    out_.graph.mutable_value(values_[id.index]).kind = kind;
    return {};
  }

  Status add_adapter(const LoraSite& site) {
    Adapter& adapter = adapters_[site.layer];
    const Shape of_a = site.embedding ? Shape{site.in, options_.rank} : Shape{options_.rank, site.in};
    GRAFT_TRY_ASSIGN(adapter.a, out_.graph.add_value(site.a, DType::f32, of_a, ValueKind::parameter));
    GRAFT_TRY_ASSIGN(adapter.b,
                     out_.graph.add_value(site.b, DType::f32, {site.out, options_.rank}, ValueKind::parameter));
    if (options_.pissa) {
      const auto constant = [&](const std::string& name, Shape shape) {
        return out_.graph.add_value(name, DType::f32, std::move(shape), ValueKind::constant);
      };
      GRAFT_TRY_ASSIGN(adapter.pissa_a, constant(site.pissa_a, {options_.rank, site.in}));
      GRAFT_TRY_ASSIGN(adapter.pissa_b, constant(site.pissa_b, {site.out, options_.rank}));
    }
    if (!options_.dora) return {};
    GRAFT_TRY_ASSIGN(adapter.magnitude,
                     out_.graph.add_value(site.magnitude, DType::f32, {site.out}, ValueKind::parameter));
    GRAFT_TRY_ASSIGN(adapter.squared_norm,
                     out_.graph.add_value(site.squared_norm, DType::f32, {site.out}, ValueKind::constant));
    return {};
  }

  Status copy_node(NodeId id) {
    const Node& node = source_.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? values_[input.index] : kNoValue);
    const ValueId weight = weight_of(node);
    const auto adapter = weight.valid() ? adapters_.find(layer_at(node, source_.value(weight).name)) : adapters_.end();
    ValueId bias = kNoValue;  // taken out of the product, which DoRA scales
    if (adapter != adapters_.end() && options_.dora && inputs.size() > 2) {
      bias = inputs[2];
      inputs.resize(2);
    }
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(source_.value(output).name);
    GRAFT_TRY_ASSIGN(const NodeId made, out_.graph.add_node(node.op, std::move(inputs), node.attrs, node.name, names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = out_.graph.node(made).outputs[i];
      values_[node.outputs[i].index] = output;
      out_.graph.mutable_value(output).source_perm = source_.value(node.outputs[i]).source_perm;
      out_.graph.mutable_value(output).source_type = source_.value(node.outputs[i]).source_type;
    }
    if (adapter == adapters_.end()) return {};
    if (looks_up(node)) return adapt_embedding(node, adapter->second, adapter->first);
    GRAFT_TRY(adapt(node, adapter->second, adapter->first));
    if (!bias.valid()) return {};
    ValueId& y = values_[node.outputs[0].index];
    GRAFT_TRY_ASSIGN(const NodeId sum, out_.graph.add_node(Op::add, {y, bias}, {}, node.name + ".bias"));
    y = out_.graph.node(sum).outputs[0];
    return {};
  }

  /// One node's result, where nothing has failed so far.
  ValueId add(Status& status, Op op, std::vector<ValueId> inputs, Attrs attrs, const std::string& name) {
    if (!status.ok()) return kNoValue;
    const auto made = out_.graph.add_node(op, std::move(inputs), std::move(attrs), name);
    if (!made.ok()) status = made.status();
    return made.ok() ? out_.graph.node(*made).outputs[0] : kNoValue;
  }

  /// DoRA's m / |W + s B A| by rows, [out], without the sum as a matrix:
  /// |W + s B A|^2 = |W|^2 + sum over r of B^T (2 s A W^T + s^2 A A^T B^T).
  Result<ValueId> length_factor(const Node& node, Adapter& adapter, const std::string& layer) {
    if (adapter.factor.valid()) return adapter.factor;
    Status status;
    const double s = options_.scale();
    const auto times = [](double factor) { return Attrs{{"alpha", factor}, {"beta", 0.0}}; };
    const std::string name = layer + ".dora";
    const Attrs as_weight = {{"trans_b", std::int64_t{node.attrs.flag("trans_b")}}};
    const ValueId aw = add(status, Op::matmul, {adapter.a, values_[node.inputs[1].index]}, as_weight, name + ".aw");
    const ValueId aa = add(status, Op::matmul, {adapter.a, adapter.a}, {{"trans_b", std::int64_t{1}}}, name + ".aa");
    const ValueId bt = add(status, Op::transpose, {adapter.b}, {{"perm", Ints{1, 0}}}, name + ".b");
    ValueId inner = add(status, Op::affine, {add(status, Op::matmul, {aa, bt}, {}, name + ".aab")}, times(s * s), name);
    inner = add(status, Op::add, {inner, add(status, Op::affine, {aw}, times(2 * s), name)}, {}, name);
    const ValueId change = add(status, Op::reduce_sum, {add(status, Op::mul, {bt, inner}, {}, name)},
                               {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}, name + ".change");
    const ValueId squared = add(status, Op::add, {adapter.squared_norm, change}, {}, name + ".squared");
    // A row of zeros stays one: its m is 0.
    const ValueId safe = add(status, Op::affine, {squared}, {{"alpha", 1.0}, {"beta", kLeastSquare}}, name);
    const ValueId length = add(status, Op::sqrt, {safe}, {}, name + ".length");
    adapter.factor = add(status, Op::div, {adapter.magnitude, length}, {}, name + ".factor");
    if (!status.ok()) return status;
    return adapter.factor;
  }

  /// rows + scale * A's rows B^T
  Status adapt_embedding(const Node& node, const Adapter& adapter, const std::string& layer) {
    Status status;
    const std::string name = layer + ".lora";
    ValueId& y = values_[node.outputs[0].index];
    const ValueId low = add(status, Op::gather, {adapter.a, values_[node.inputs[1].index]}, node.attrs, name + ".rows");
    const ValueId change = add(status, Op::matmul, {low, adapter.b}, {{"trans_b", std::int64_t{1}}}, name + ".change");
    const ValueId scaled =
        add(status, Op::affine, {change}, {{"alpha", options_.scale()}, {"beta", 0.0}}, name + ".scaled");
    y = add(status, Op::add, {y, scaled}, {}, name);
    return status;
  }

  Status adapt(const Node& node, Adapter& adapter, const std::string& layer) {
    ValueId x = values_[node.inputs[0].index];
    const ValueId whole = x;
    if (options_.dropout > 0) {
      GRAFT_TRY_ASSIGN(const NodeId dropout,
                       out_.graph.add_node(Op::dropout, {x}, {{"p", options_.dropout}}, layer + ".lora_dropout"));
      x = out_.graph.node(dropout).outputs[0];
    }
    ValueId& y = values_[node.outputs[0].index];
    GRAFT_TRY_ASSIGN(const NodeId lora, out_.graph.add_node(Op::lora, {y, x, adapter.a, adapter.b},
                                                            {{"scale", options_.scale()}}, layer + ".lora"));
    y = out_.graph.node(lora).outputs[0];
    if (adapter.pissa_a.valid()) {
      GRAFT_TRY_ASSIGN(const NodeId pissa, out_.graph.add_node(Op::lora, {y, whole, adapter.pissa_a, adapter.pissa_b},
                                                               {{"scale", -options_.scale()}}, layer + ".pissa"));
      y = out_.graph.node(pissa).outputs[0];
    }
    if (!adapter.magnitude.valid()) return {};
    GRAFT_TRY_ASSIGN(const ValueId factor, length_factor(node, adapter, layer));
    GRAFT_TRY_ASSIGN(const NodeId scaled, out_.graph.add_node(Op::mul, {y, factor}, {}, layer + ".dora"));
    y = out_.graph.node(scaled).outputs[0];
    return {};
  }

  const Graph& source_;
  const LoraOptions& options_;
  LoraGraph out_;
  std::vector<ValueId> values_;  // by the source's index; behind an adapted layer, what the adapter gives
  std::map<std::string, Adapter, std::less<>> adapters_;  // by layer
};

/// Numbers in (0, 1) that follow from the seed and the matrix's name.
std::vector<double> uniform_units(const std::string& matrix, std::size_t count, std::uint32_t seed) {
  const Hash128 name = hash128(std::as_bytes(std::span(matrix)));
  std::vector<double> units(count);
  for (std::size_t i = 0; i < count; i += 4) {
    const auto block = static_cast<std::uint64_t>(i / 4);
    const auto words = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                               static_cast<std::uint32_t>(name.low), static_cast<std::uint32_t>(name.low >> 32)},
                              {seed, static_cast<std::uint32_t>(name.high)});
    for (std::size_t w = 0; w < std::min<std::size_t>(4, count - i); ++w) units[i + w] = (words[w] + 0.5) * 0x1p-32;
  }
  return units;
}

}  // namespace

Result<LoraOptions> parse_lora(std::string_view text) {
  LoraOptions options;
  std::set<std::string_view> given;
  bool by_root = false;
  for (const std::string_view part : parts_of(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return invalid("The adapter option \"", part, "\" is not written name=value.");
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (!given.insert(name == "rank" ? "r" : name).second)
      return invalid("The adapter option ", name, " is given twice.");
    if (name == "r" || name == "rank") {
      GRAFT_TRY(parse_option(name, value, options.rank));
    } else if (name == "alpha") {
      GRAFT_TRY(parse_option(name, value, options.alpha));
    } else if (name == "dropout") {
      GRAFT_TRY(parse_option(name, value, options.dropout));
    } else if (name == "targets") {
      if (value == "all-linear") continue;
      for (const std::string_view target : parts_of(value, '|')) options.targets.emplace_back(target);
    } else if (name == "dora") {
      GRAFT_TRY(parse_flag(name, value, options.dora));
    } else if (name == "rslora") {
      GRAFT_TRY(parse_flag(name, value, by_root));
    } else if (name == "init") {
      if (value != "default" && value != "pissa") return out_of_range(name, cat('"', value, '"'), "default or pissa");
      options.pissa = value == "pissa";
    } else {
      return invalid("There is no adapter option \"", name,
                     "\"; there are r, alpha, dropout, targets, dora, rslora and init.");
    }
  }
  if (!given.contains("alpha")) options.alpha = 2 * static_cast<double>(options.rank);
  GRAFT_TRY(check(options));
  if (options.alpha <= 0) return out_of_range("alpha", options.alpha, "above 0");
  if (by_root) options.alpha *= std::sqrt(static_cast<double>(options.rank));
  return options;
}

Status check(const LoraOptions& options) {
  if (options.rank < 1 || options.rank > kMaxRank) {
    return out_of_range("r (rank)", options.rank, cat("1 to ", kMaxRank));
  }
  if (!std::isfinite(options.alpha)) return out_of_range("alpha", options.alpha, "finite");
  if (options.pissa && options.rank > kMaxRank / 2) {  // files hold twice as many
    return out_of_range("r (rank)", options.rank, cat("1 to ", kMaxRank / 2, " with init=pissa"));
  }
  if (options.pissa && options.dora)
    return unsupported("The adapter options init=pissa and dora=yes do not go together.");
  if (options.pissa && options.alpha <= 0) return out_of_range("alpha", options.alpha, "above 0 with init=pissa");
  if (options.dropout >= 0 && options.dropout < 1) return {};
  return out_of_range("dropout", options.dropout, "in [0, 1)");
}

Result<LoraGraph> add_lora(const Graph& model, const LoraOptions& options) {
  GRAFT_TRY(check(options));
  return Adder(model, options).run();
}

std::vector<float> initial_linear(const std::string& name, std::int64_t count, std::int64_t fan_in,
                                  std::uint32_t seed) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  const std::vector<double> units = uniform_units(name, static_cast<std::size_t>(count), seed);
  std::vector<float> out(units.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>((2 * units[i] - 1) * bound);
  return out;
}

std::vector<float> initial_lora_a(const LoraSite& site, std::int64_t rank, std::uint32_t seed) {
  return initial_linear(site.a, rank * site.in, site.in, seed);
}

std::vector<float> initial_embedding_b(const LoraSite& site, std::int64_t rank, std::uint32_t seed) {
  const auto count = static_cast<std::size_t>(rank * site.out);
  const std::vector<double> units = uniform_units(site.b, 2 * count, seed);
  std::vector<float> b(count);
  for (std::size_t i = 0; i < count; ++i) {  // Box and Muller 1958
    b[i] =
        static_cast<float>(std::sqrt(-2 * std::log(units[2 * i])) * std::cos(2 * std::numbers::pi * units[2 * i + 1]));
  }
  return b;
}

bool is_looked_up_and_multiplied(const Graph& graph, std::string_view name) {
  ValueId id = graph.find_value(name);
  if (id.valid() && graph.value(id).producer.valid()) {
    const Node& product = graph.node(graph.value(id).producer);
    id = multiplies(product) ? product.inputs[1] : kNoValue;
  }
  const auto any = [&](auto reads, std::size_t input) {
    return std::ranges::any_of(graph.nodes(),
                               [&](const Node& node) { return reads(node) && node.inputs[input] == id; });
  };
  return id.valid() && any(looks_up, 0) && any(multiplies, 1);
}

}  // namespace graft
