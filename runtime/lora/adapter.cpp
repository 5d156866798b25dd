#include "runtime/lora/adapter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "platform/base/half.h"
#include "platform/base/numbers.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/narrow.h"
#include "runtime/core/quantized.h"
#include "runtime/lora/base_names.h"
#include "runtime/lora/pissa.h"

namespace graft {
namespace {

Status copy_floats(Model& model, std::string_view name, std::span<const float> numbers) {
  return model.copy_weight(model.graph.find_value(name), std::as_bytes(numbers));
}

Result<std::span<const float>> floats_of(const Model& model, std::string_view name) {
  const ValueId id = model.graph.find_value(name);
  const auto bytes = id.valid() ? model.weight(id) : std::nullopt;
  if (!bytes || model.graph.value(id).dtype != DType::f32) {
    return error(Code::not_found, "The adapter has no matrix \"", name, "\".");
  }
  return std::span(reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float));
}

template <typename Number>
Status read_number(const Model& adapter, std::string_view key, Number& number) {
  const auto found = adapter.metadata.find(key);
  if (found == adapter.metadata.end()) return invalid("This is no adapter: its metadata has no \"", key, "\".");
  const std::string& text = found->second;
  if (whole_number(text, number)) return ok_status();
  return invalid("The adapter's \"", key, "\" is \"", shown(text), "\", which is no such number.");
}

/// The alphas of layers that have their own, by the layer's name.
Result<std::map<std::string, double, std::less<>>> own_alphas(const Model& adapter) {
  std::map<std::string, double, std::less<>> out;
  const auto found = adapter.metadata.find(kMetaAdapterAlphas);
  if (found == adapter.metadata.end()) return out;
  const std::string& text = found->second;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t space = text.rfind(' ', end);
    double alpha = 0;
    const bool split = space != std::string::npos && space > begin;
    if (!split || !whole_number(std::string_view(text).substr(space + 1, end - space - 1), alpha)) {
      return invalid("The adapter's \"", kMetaAdapterAlphas, "\" is not lines of names and numbers.");
    }
    out[text.substr(begin, space - begin)] = alpha;
    begin = end + 1;
  }
  return out;
}

/// Whether an adapter without matrices adds tokens.
bool only_adds_tokens(const Model& adapter) {
  return adapter.metadata.contains(kMetaAdapterTokens) && !adapter.metadata.contains(kMetaAdapterRank);
}

/// The adapter's layers by the names of the base's weights.
Result<std::vector<AdapterLayer>> entries_of(const Model& base, const Model& adapter) {
  GRAFT_TRY_ASSIGN(std::vector<AdapterLayer> out, adapter_layers(adapter));
  for (AdapterLayer& entry : out) {
    // A layer's name may also be that of its result.
    const bool dotted = base.graph.find_value(entry.layer + ".weight").valid();
    if (!dotted && !base.graph.find_value(entry.layer).valid()) {
      return error(Code::not_found, "The adapter is of the layer \"", entry.layer,
                   "\", which the model does not have.");
    }
    if (dotted) entry.layer += ".weight";
  }
  return out;
}

/// The dropout before the adapter of this layer.
double dropout_of(const Graph& adapted, std::string_view layer) {
  const std::string name = cat(layer, ".lora_dropout");
  const auto found = std::ranges::find(adapted.nodes(), name, &Node::name);
  return found == adapted.nodes().end() ? 0 : found->attrs.number("p");
}

/// Weights of equal rank, alpha and kind together: they are targets by their whole names. `adapted`: the model that has
/// them on, whose dropout and beginnings (PiSSA) stay; null for those of a file.
std::vector<LoraOptions> grouped(const std::vector<AdapterLayer>& entries, const Graph* adapted = nullptr) {
  std::vector<LoraOptions> out;
  for (const AdapterLayer& entry : entries) {
    LoraOptions wanted;
    wanted.rank = entry.rank;
    wanted.alpha = entry.alpha;
    wanted.dora = entry.dora;
    if (adapted != nullptr) {
      std::string_view layer = entry.layer;
      if (layer.ends_with(".weight")) layer.remove_suffix(7);
      wanted.dropout = dropout_of(*adapted, layer);
      wanted.pissa = adapted->find_value(cat(layer, kPissaA)).valid();
    }
    auto group = std::ranges::find_if(out, [&](const auto& o) {
      return o.rank == wanted.rank && o.alpha == wanted.alpha && o.dora == wanted.dora && o.dropout == wanted.dropout &&
             o.pissa == wanted.pissa;
    });
    if (group == out.end()) group = out.insert(out.end(), wanted);
    group->targets.push_back(entry.layer);
  }
  return out;
}

/// One adapted weight with what its adapter is multiplied by.
struct Site : LoraSite {
  std::int64_t rank = 0;
  double scale = 0;

  std::vector<std::string> parameters() const {
    std::vector<std::string> names = {a, b};
    if (!magnitude.empty()) names.push_back(magnitude);
    return names;
  }
};

/// Of each row of the weight as [out, in]; ones where there are only shapes to plan with.
Result<std::vector<float>> squared_norms(const Model& base, const LoraSite& site) {
  std::vector<float> out(static_cast<std::size_t>(site.out), 1.0f);
  if (base.weight_bytes() == 0) return out;
  GRAFT_TRY_ASSIGN(const std::vector<float> weight, weight_as_floats(base, site.weight));
  const auto in = static_cast<std::size_t>(site.in);
  for (std::size_t n = 0; n < out.size(); ++n) {
    double sum = 0;
    for (std::size_t k = 0; k < in; ++k) {
      const double w = weight[site.transposed ? n * in + k : k * out.size() + n];
      sum += w * w;
    }
    out[n] = static_cast<float>(sum);
  }
  return out;
}

/// A weight that something else reads as well, as the embedding of a model whose head it is: the adapter is of the
/// products, or of the lookups, alone.
Status check_read_by_adapted_alone(const Graph& graph, const LoraSite& site) {
  const ValueId id = graph.find_value(site.weight);
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool adapted = site.embedding ? node.op == Op::gather && i == 0
                                          : node.op == Op::matmul && i == 1 && !node.attrs.flag("trans_a");
      if (node.inputs[i] != id || adapted) continue;
      return unsupported("The weight \"", site.weight, "\" is also read by \"", node.name,
                         "\", which its adapter does not change: added to it, the adapter would change both. Keep the "
                         "adapter beside the model.");
    }
  }
  return ok_status();
}

struct Attached {
  Model model;
  std::vector<Site> sites;
  std::vector<TokenTable> tables;  ///< that go on in new rows
};

/// `tokens`: null for none.
Result<Attached> attach(const Model& base, std::span<const LoraOptions> groups, const NewTokens* tokens) {
  Attached out;
  const Graph* graph = &base.graph;
  for (const LoraOptions& options : groups) {
    GRAFT_TRY_ASSIGN(LoraGraph made, add_lora(*graph, options));
    for (const LoraSite& site : made.sites) out.sites.push_back({site, options.rank, options.scale()});
    out.model.graph = std::move(made.graph);
    graph = &out.model.graph;
  }
  if (tokens != nullptr) {
    GRAFT_TRY_ASSIGN(TokenRowsGraph made, add_token_rows(*graph, tokens->first, tokens->count()));
    out.tables = std::move(made.tables);
    out.model.graph = std::move(made.graph);
  }
  for (const Site& site : out.sites) {  // those of earlier groups were frozen by later ones
    for (const std::string& name : site.parameters()) {
      out.model.graph.mutable_value(out.model.graph.find_value(name)).kind = ValueKind::parameter;
    }
  }
  GRAFT_TRY(borrow_rest(base, out.model));
  if (tokens != nullptr) {
    GRAFT_TRY_ASSIGN(out.model.tokenizer, tokenizer_with(base, *tokens));
    remember_new_tokens(*tokens, out.model.metadata);
  }
  for (const Site& site : out.sites) {
    if (site.magnitude.empty()) continue;
    GRAFT_TRY_ASSIGN(const std::vector<float> squares, squared_norms(base, site));
    GRAFT_TRY(copy_floats(out.model, site.squared_norm, squares));
  }
  if (base.weight_bytes() > 0) out.model.metadata.insert_or_assign(std::string(kMetaAdapterBase), name_of_base(base));
  out.model.metadata.erase(std::string(kMetaAdapterShared));
  for (const Site& site : out.sites) {
    if (!is_looked_up_and_multiplied(base.graph, site.weight)) continue;
    out.model.metadata.insert_or_assign(std::string(kMetaAdapterShared), "yes");
  }
  out.model.metadata.insert_or_assign(std::string(kMetaAdapter), "lora");
  if (groups.empty()) return out;
  out.model.metadata.insert_or_assign(std::string(kMetaAdapterRank), cat(groups.front().rank));
  out.model.metadata.insert_or_assign(std::string(kMetaAdapterAlpha), exact_text(groups.front().alpha));
  return out;
}

void copy_adapter_metadata(const Model& from, Model& to) {
  for (const std::string_view key :
       {kMetaAdapterRank, kMetaAdapterAlpha, kMetaAdapterAlphas, kMetaPooling, kMetaNormalize}) {
    const auto found = from.metadata.find(key);
    if (found != from.metadata.end()) to.metadata.insert_or_assign(found->first, found->second);
  }
}

Result<Attached> attach(const Model& base, const Model& adapter) {
  GRAFT_TRY(check_base(base_text(adapter), name_of_base(base)));
  GRAFT_TRY_ASSIGN(const std::vector<AdapterLayer> entries, entries_of(base, adapter));
  GRAFT_TRY_ASSIGN(const std::optional<NewTokens> tokens, new_tokens_of(adapter.metadata));
  GRAFT_TRY_ASSIGN(Attached out, attach(base, grouped(entries), tokens ? &*tokens : nullptr));
  copy_adapter_metadata(adapter, out.model);
  return out;
}

/// New tokens' rows that `before` has already keep its numbers.
Status keep_token_rows(const Model& before, const std::vector<TokenTable>& tables, Model& model) {
  for (const TokenTable& table : tables) {
    if (!before.graph.find_value(table.rows).valid()) continue;
    GRAFT_TRY_ASSIGN(const auto kept, floats_of(before, table.rows));
    GRAFT_TRY_ASSIGN(const auto begun, floats_of(model, table.rows));
    std::vector<float> rows(begun.begin(), begun.end());
    if (kept.size() > rows.size()) return invalid("There are fewer new tokens than the model has already.");
    std::ranges::copy(kept, rows.begin());
    GRAFT_TRY(copy_floats(model, table.rows, rows));
  }
  return {};
}

/// weight += scale B A, or its transpose where the weight is [in, out]; with magnitudes, rows of that length.
std::vector<float> merged(std::span<const float> weight, std::span<const float> a, std::span<const float> b,
                          std::span<const float> magnitude, const Site& site) {
  std::vector<float> sum(weight.begin(), weight.end());
  const auto in = static_cast<std::size_t>(site.in);
  const auto out = static_cast<std::size_t>(site.out);
  const auto rank = static_cast<std::size_t>(site.rank);
  std::vector<double> row(in);
  for (std::size_t n = 0; n < out; ++n) {
    std::fill(row.begin(), row.end(), 0.0);
    for (std::size_t r = 0; r < rank; ++r) {
      const double factor = site.scale * b[n * rank + r];
      for (std::size_t k = 0; k < in; ++k) row[k] += factor * a[site.embedding ? k * rank + r : r * in + k];
    }
    const auto at = [&](std::size_t k) -> float& { return sum[site.transposed ? n * in + k : k * out + n]; };
    double squares = 0;
    for (std::size_t k = 0; k < in; ++k) {
      row[k] += at(k);
      squares += row[k] * row[k];
    }
    const double factor = magnitude.empty() || squares == 0 ? 1 : magnitude[n] / std::sqrt(squares);
    for (std::size_t k = 0; k < in; ++k) at(k) = static_cast<float>(factor * row[k]);
  }
  return sum;
}

/// A merged weight is f32 and can be trained, or blocks that are frozen.
Status set_merged(Model& model, const std::string& name, const std::vector<float>& numbers,
                  std::optional<DType> blocks) {
  const ValueId id = model.graph.find_value(name);
  Value& value = model.graph.mutable_value(id);
  const std::int64_t columns = value.shape[value.shape.rank() - 1].value();
  const auto fitting = blocks ? fitting_blocks(*blocks, static_cast<std::uint64_t>(columns)) : DType::f32;
  if (!fitting) {
    return invalid("Rows of the weight \"", name, "\" have ", columns, " elements, no multiple of the ",
                   dtype_block(*blocks).elements, " of a ", dtype_name(*blocks), " block.");
  }
  const DType dtype = *fitting;
  if (value.dtype != dtype) value.kind = blocks ? ValueKind::constant : ValueKind::parameter;
  value.dtype = dtype;
  if (!blocks) return copy_floats(model, name, numbers);
  std::vector<std::byte> bytes(storage_bytes(dtype, numbers.size()));
  if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) {
    return invalid("The merged weight \"", name, "\" holds a number that is not finite, which no block can.");
  }
  quantize(dtype, numbers, bytes);
  GRAFT_TRY(check_blocks(name, numbers, dtype, bytes));
  return model.copy_weight(id, bytes);
}

}  // namespace

Result<std::vector<AdapterLayer>> adapter_layers(const Model& adapter) {
  std::int64_t rank = 0;
  double alpha = 0;
  if (only_adds_tokens(adapter)) return std::vector<AdapterLayer>();
  GRAFT_TRY(read_number(adapter, kMetaAdapterRank, rank));
  GRAFT_TRY(read_number(adapter, kMetaAdapterAlpha, alpha));
  GRAFT_TRY_ASSIGN(const auto alphas, own_alphas(adapter));
  std::vector<AdapterLayer> out;
  for (const Value& value : adapter.graph.values()) {
    const bool embedding = value.name.ends_with(kLoraEmbeddingA);
    if (!embedding && !value.name.ends_with(kLoraA)) continue;
    if (value.shape.rank() != 2 || !value.shape.is_constant()) {
      return invalid("The adapter's \"", value.name, "\" of shape ", value.shape.text(), " is no matrix.");
    }
    const std::size_t ending = (embedding ? kLoraEmbeddingA : kLoraA).size();
    const std::string layer = value.name.substr(0, value.name.size() - ending);
    const auto own = alphas.find(layer);
    out.push_back({layer, value.shape[embedding ? 1 : 0].value(), own == alphas.end() ? alpha : own->second,
                   adapter.graph.find_value(layer + std::string(kLoraMagnitude)).valid(), embedding});
  }
  if (out.empty()) return invalid("The adapter adapts nothing.");
  return out;
}

namespace {

/// What the matrices of fresh adapters begin with.
Status start(const Model& base, const LoraOptions& options, std::uint32_t seed, Attached& made) {
  if (options.pissa) return start_pissa(base, {made.sites.begin(), made.sites.end()}, options, made.model);
  for (const Site& site : made.sites) {
    if (site.embedding) {
      GRAFT_TRY(copy_floats(made.model, site.a, std::vector<float>(static_cast<std::size_t>(site.in * options.rank))));
      GRAFT_TRY(copy_floats(made.model, site.b, initial_embedding_b(site, options.rank, seed)));
      continue;
    }
    GRAFT_TRY(copy_floats(made.model, site.a, initial_lora_a(site, options.rank, seed)));
    GRAFT_TRY(copy_floats(made.model, site.b, std::vector<float>(static_cast<std::size_t>(site.out * options.rank))));
    if (site.magnitude.empty()) continue;
    GRAFT_TRY_ASSIGN(const auto squares, floats_of(made.model, site.squared_norm));
    std::vector<float> lengths(squares.begin(), squares.end());
    for (float& x : lengths) x = std::sqrt(x);
    GRAFT_TRY(copy_floats(made.model, site.magnitude, lengths));
  }
  return {};
}

}  // namespace

Result<Model> with_lora(const Model& base, const LoraOptions& options, std::uint32_t seed) {
  GRAFT_TRY_ASSIGN(Attached made, attach(base, std::span(&options, 1), nullptr));
  GRAFT_TRY(start(base, options, seed, made));
  return std::move(made.model);
}

Result<Model> with_new_tokens(const Model& base, std::span<const NewToken> tokens, const LoraOptions* lora,
                              std::uint32_t seed, const Model* before) {
  GRAFT_TRY_ASSIGN(const NewTokens placed, place_new_tokens(base, tokens));
  GRAFT_TRY_ASSIGN(Attached made, attach(base, {lora, lora == nullptr ? 0u : 1u}, &placed));
  if (lora != nullptr) GRAFT_TRY(start(base, *lora, seed, made));
  GRAFT_TRY(fill_token_rows(base, made.tables, placed, true, made.model));
  if (before != nullptr) GRAFT_TRY(keep_token_rows(*before, made.tables, made.model));
  return std::move(made.model);
}

Result<Model> with_more_tokens(const Model& base, const Model& adapted, std::span<const NewToken> tokens) {
  GRAFT_TRY_ASSIGN(const std::optional<NewTokens> there, new_tokens_of(adapted.metadata));
  std::vector<NewToken> all = there ? there->tokens : std::vector<NewToken>();
  all.insert(all.end(), tokens.begin(), tokens.end());
  GRAFT_TRY_ASSIGN(const NewTokens placed, place_new_tokens(base, all));
  GRAFT_TRY_ASSIGN(const std::vector<AdapterLayer> entries, entries_of(base, adapted));
  GRAFT_TRY_ASSIGN(Attached made, attach(base, grouped(entries, &adapted.graph), &placed));
  copy_adapter_metadata(adapted, made.model);
  for (const Site& site : made.sites) {
    std::vector<std::string> names = site.parameters();
    if (!site.pissa_a.empty()) names.insert(names.end(), {site.pissa_a, site.pissa_b});
    for (const std::string& name : names) {
      GRAFT_TRY_ASSIGN(const auto numbers, floats_of(adapted, name));
      GRAFT_TRY(copy_floats(made.model, name, numbers));
    }
  }
  GRAFT_TRY(fill_token_rows(base, made.tables, placed, true, made.model));
  GRAFT_TRY(keep_token_rows(adapted, made.tables, made.model));
  return std::move(made.model);
}

Result<Model> adapter_of(const Model& adapted) {
  Model adapter;
  if (!adapted.metadata.contains(kMetaAdapter)) return invalid("The model has no adapters.");
  for (const std::string_view key :
       {kMetaAdapter, kMetaAdapterRank, kMetaAdapterAlpha, kMetaAdapterTokens, kMetaAdapterBase, kMetaAdapterShared,
        kMetaAdapterAlphas, kMetaFamily, kMetaHeads, kMetaPairs, kMetaSourceNames, kMetaPooling, kMetaNormalize}) {
    if (const auto found = adapted.metadata.find(key); found != adapted.metadata.end()) adapter.metadata.insert(*found);
  }
  bool twice = false;
  for (const ValueId id : adapted.graph.of_kind(ValueKind::parameter)) {
    const Value& value = adapted.graph.value(id);
    if (has_pissa(adapted.graph, value.name)) {
      GRAFT_TRY(add_with_start(adapted, value.name, adapter));
      twice = true;
      continue;
    }
    GRAFT_TRY_ASSIGN(const ValueId made,
                     adapter.graph.add_value(value.name, value.dtype, value.shape, ValueKind::parameter));
    if (!adapted.weight(id)) return invalid("The adapter's matrix \"", value.name, "\" has no contents.");
    GRAFT_TRY(adapter.borrow_weight(made, adapted, id));
  }
  if (!twice) return adapter;
  std::int64_t rank = 0;
  double alpha = 0;
  GRAFT_TRY(read_number(adapter, kMetaAdapterRank, rank));
  GRAFT_TRY(read_number(adapter, kMetaAdapterAlpha, alpha));
  adapter.metadata.insert_or_assign(std::string(kMetaAdapterRank), cat(2 * rank));
  adapter.metadata.insert_or_assign(std::string(kMetaAdapterAlpha), exact_text(2 * alpha));
  return adapter;
}

Result<Model> with_adapter(const Model& base, const Model& adapter) {
  GRAFT_TRY_ASSIGN(Attached made, attach(base, adapter));
  std::vector<std::string> names;
  for (const Site& site : made.sites) {
    for (std::string& name : site.parameters()) names.push_back(std::move(name));
  }
  for (const TokenTable& table : made.tables) names.push_back(table.rows);
  for (const std::string& name : names) {
    GRAFT_TRY_ASSIGN(const auto numbers, floats_of(adapter, name));
    GRAFT_TRY(made.model.view_weight(made.model.graph.find_value(name), std::as_bytes(numbers)));
  }
  if (made.tables.empty()) return std::move(made.model);
  GRAFT_TRY_ASSIGN(const auto tokens, new_tokens_of(adapter.metadata));
  GRAFT_TRY(fill_token_rows(base, made.tables, *tokens, false, made.model));
  return std::move(made.model);
}

namespace {

/// The base with longer tables, to be filled; or as it is.
Result<Model> with_room(const Model& base, const Attached& made, const std::optional<NewTokens>& tokens) {
  if (!tokens) return borrow_model(base);
  Model model;
  const std::int64_t rows = std::max(made.tables.front().table_rows, tokens->first + tokens->count());
  GRAFT_TRY_ASSIGN(model.graph, with_longer_tables(base.graph, made.tables, rows));
  model.metadata = base.metadata;
  model.symbol_defaults = base.symbol_defaults;
  model.tokenizer = made.model.tokenizer;
  model.signatures = base.signatures;
  for (Signature& signature : model.signatures) {
    for (auto* values : {&signature.inputs, &signature.outputs}) {
      for (Output& of : *values) of.value = model.graph.find_value(base.graph.value(of.value).name);
    }
  }
  for (std::uint32_t i = 0; i < base.graph.values().size(); ++i) {
    const std::string& name = base.graph.values()[i].name;
    if (!base.weight({i}) || std::ranges::find(made.tables, name, &TokenTable::weight) != made.tables.end()) continue;
    GRAFT_TRY(model.borrow_weight(model.graph.find_value(name), base, {i}));
  }
  return model;
}

/// Puts the new rows into the tables.
Status fill_tables(const Model& base, const Model& adapter, const Attached& made, const NewTokens& tokens,
                   Model& model) {
  for (const TokenTable& table : made.tables) {
    GRAFT_TRY_ASSIGN(const auto rows, floats_of(adapter, table.rows));
    if (rows.size() != static_cast<std::size_t>(tokens.count() * table.width)) {
      return invalid("The adapter's \"", table.rows, "\" has ", rows.size(), " numbers; ", tokens.count(), " rows of ",
                     table.width, " are needed.");
    }
    GRAFT_TRY_ASSIGN(HostBuffer bytes, table_with_rows(base, table, tokens.first, rows));
    GRAFT_TRY(model.set_weight(model.graph.find_value(table.weight), std::move(bytes)));
  }
  return {};
}

}  // namespace

Result<Model> merge_adapter(const Model& base, const Model& adapter, std::optional<DType> blocks) {
  GRAFT_TRY_ASSIGN(const Attached made, attach(base, adapter));
  GRAFT_TRY_ASSIGN(const auto tokens, new_tokens_of(adapter.metadata));
  GRAFT_TRY_ASSIGN(Model model, with_room(base, made, tokens));
  for (const std::string_view key : {kMetaPooling, kMetaNormalize}) {
    const auto found = adapter.metadata.find(key);
    if (found != adapter.metadata.end()) model.metadata.insert_or_assign(found->first, found->second);
  }
  if (tokens) GRAFT_TRY(fill_tables(base, adapter, made, *tokens, model));
  for (const Site& site : made.sites) {
    GRAFT_TRY(check_read_by_adapted_alone(base.graph, site));
    const Value& weight = base.graph.value(base.graph.find_value(site.weight));
    GRAFT_TRY_ASSIGN(const auto w, weight_as_floats(base, site.weight));
    GRAFT_TRY_ASSIGN(const auto a, floats_of(adapter, site.a));
    GRAFT_TRY_ASSIGN(const auto b, floats_of(adapter, site.b));
    std::span<const float> magnitude;
    if (!site.magnitude.empty()) {
      GRAFT_TRY_ASSIGN(magnitude, floats_of(adapter, site.magnitude));
    }
    if (!magnitude.empty() && magnitude.size() != static_cast<std::size_t>(site.out)) {
      return invalid("The adapter's \"", site.magnitude, "\" has ", magnitude.size(), " numbers; the layer has ",
                     site.out, " outputs.");
    }
    if (a.size() != static_cast<std::size_t>(site.in * site.rank) ||
        b.size() != static_cast<std::size_t>(site.out * site.rank)) {
      return invalid("The adapter's matrices \"", site.a, "\" and \"", site.b, "\" do not fit \"", site.weight,
                     "\" of shape ", weight.shape.text(), ".");
    }
    std::vector<float> sum = merged(w, a, b, magnitude, site);
    const auto table = std::ranges::find(made.tables, site.weight, &TokenTable::weight);
    if (table != made.tables.end()) {  // an adapter of the head is of the tokens that were there
      GRAFT_TRY_ASSIGN(const auto rows, floats_of(adapter, table->rows));
      const auto first = static_cast<std::size_t>(tokens->first * table->width);
      std::copy(w.begin() + static_cast<std::ptrdiff_t>(std::min(first, w.size())), w.end(),
                sum.begin() + static_cast<std::ptrdiff_t>(std::min(first, w.size())));
      sum.resize(std::max(sum.size(), first + rows.size()));
      std::ranges::copy(rows, sum.begin() + static_cast<std::ptrdiff_t>(first));
    }
    GRAFT_TRY(set_merged(model, site.weight, sum, blocks));
  }
  return model;
}

}  // namespace graft
