// Adapters of Hugging Face's PEFT: names of its modules, its configuration.
#include <algorithm>
#include <cmath>
#include <set>

#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/adapter/adapter_parts.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/huggingface/safetensors_write.h"

namespace graft::convert {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kTokenRows = ".trainable_tokens_delta";  // rows as they are, whatever PEFT's name says

constexpr std::string_view kHarmless = R"(peft_type task_type peft_version auto_mapping base_model_name_or_path revision
  inference_mode target_modules exclude_modules layers_to_transform layers_pattern lora_dropout fan_in_fan_out
  megatron_core qalora_group_size eva_config init_weights base_model_class parent_library)";
/// What PEFT's LoraConfig has. Some starts change the base's weights, and an adapter is then not for the plain base.
constexpr KnownFields kLora = {
    R"({"r": 8, "lora_alpha": 8, "use_rslora": false, "use_dora": false, "rank_pattern": {}, "alpha_pattern": {},
        "trainable_token_indices": null})",
    kHarmless,
    R"({"bias": ["none"], "init_lora_weights": [true, false, "gaussian", "eva", "orthogonal"],
        "modules_to_save": [null, []], "target_parameters": [null, []], "layer_replication": [null, []],
        "alora_invocation_tokens": [null, []], "lora_bias": [false], "use_qalora": [false], "loftq_config": [{}],
        "megatron_config": [null], "corda_config": [null], "arrow_config": [null], "lora_ga_config": [null],
        "use_bdlora": [null, false], "ensure_weight_tying": [false]})"};
constexpr KnownFields kTrainableTokens = {R"({"token_indices": null})", kHarmless};

/// One entry of "alpha_pattern" or "rank_pattern": a module's name, or the end of one.
struct Pattern {
  std::string name;
  bool whole = false;
  double value = 0;

  bool fits(std::string_view layer) const {
    if (layer == name) return true;
    return !whole && layer.ends_with(name) && layer[layer.size() - name.size() - 1] == '.';
  }
};

/// The first entry of the file that fits, as PEFT has it.
double value_of(const std::vector<Pattern>& patterns, std::string_view layer, double otherwise) {
  const auto found = std::ranges::find_if(patterns, [&](const Pattern& pattern) { return pattern.fits(layer); });
  return found == patterns.end() ? otherwise : found->value;
}

struct PeftConfig {
  double rank = 8;
  double alpha = 8;
  bool by_root = false;  ///< scaled by alpha / sqrt(r)
  bool dora = false;
  std::vector<Pattern> ranks;
  std::vector<Pattern> alphas;
  std::vector<std::int64_t> tokens;  ///< whose rows are trained, in the order of these

  double alpha_of(std::string_view layer, std::int64_t given) const {
    const double out = value_of(alphas, layer, alpha);
    return by_root ? out * std::sqrt(static_cast<double>(given)) : out;
  }
};

/// `config` has the file's order.
Result<std::vector<Pattern>> read_patterns(const OrderedJson& config, const char* key) {
  std::vector<Pattern> out;
  const auto patterns = config.find(key);
  if (patterns == config.end() || patterns->is_null()) return out;
  if (!patterns->is_object()) return corrupt("\"", key, "\" is not an object.");
  for (const auto& [name, value] : patterns->items()) {
    Pattern pattern{name, name.starts_with('^'), value.is_number() ? value.get<double>() : NAN};
    if (pattern.whole) pattern.name.erase(0, 1);
    if (pattern.name.find_first_of("^$*+?()[]{}|\\") != std::string::npos || pattern.name.empty()) {
      return unsupported("\"", key, "\" names modules by the regular expression \"", name,
                         "\"; whole names and their ends are read.");
    }
    if (!std::isfinite(pattern.value)) return corrupt("\"", key, "\" gives \"", name, "\" no finite number.");
    out.push_back(std::move(pattern));
  }
  return out;
}

/// A list of ids, or an object of equal lists by module.
Status read_token_ids(const Json& config, const char* key, std::vector<std::int64_t>& out) {
  const Json* given = member(config, key);
  if (given == nullptr || given->is_null()) return {};
  const auto bad = [&] { return unsupported("\"", key, "\" is neither a list of ids nor equal lists by module."); };
  const Json* list = given;
  if (given->is_object() && !given->empty()) {
    list = &given->begin().value();
    for (const auto& [module, ids] : given->items()) {
      if (ids != *list) return bad();
    }
  }
  if (!list->is_array()) return bad();
  for (const Json& id : *list) {
    if (!id.is_number_integer()) return bad();
    out.push_back(id.get<std::int64_t>());
  }
  return {};
}

Result<PeftConfig> read_config(std::string_view text, const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(Json config, parse_json(text));
  std::vector<std::string> found;
  clear_fields(config, ignored, found);
  GRAFT_TRY(check_found(ignored, found));
  const auto type = string_member(config, "peft_type");
  PeftConfig out;
  if (type == "TRAINABLE_TOKENS") {
    GRAFT_TRY(check_fields(config, {&kTrainableTokens, 1}, "an adapter"));
    GRAFT_TRY(read_token_ids(config, "token_indices", out.tokens));
    return out;
  }
  if (type != "LORA") return unsupported("It is of the type \"", type, "\"; LORA and TRAINABLE_TOKENS are read.");
  GRAFT_TRY(check_fields(config, {&kLora, 1}, "an adapter"));
  GRAFT_TRY(read_token_ids(config, "trainable_token_indices", out.tokens));
  out.rank = number_member(config, "r", out.rank);
  const Json* alpha = member(config, "lora_alpha");
  if (alpha == nullptr || !alpha->is_number() || !std::isfinite(alpha->get<double>())) {
    return corrupt("\"lora_alpha\" is missing or no finite number.");
  }
  out.alpha = alpha->get<double>();
  out.by_root = flag_member(config, "use_rslora", false);
  out.dora = flag_member(config, "use_dora", false);
  const OrderedJson ordered = OrderedJson::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  GRAFT_TRY_ASSIGN(out.alphas, read_patterns(ordered, "alpha_pattern"));
  GRAFT_TRY_ASSIGN(out.ranks, read_patterns(ordered, "rank_pattern"));
  return out;
}

/// "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight" -> the layer, and which matrix; 'a' and 'b' for those of
/// an embedding, 'm' for a magnitude, 't' for rows of tokens, 'w' for the base's own weight, ' ' for another tensor.
struct PeftName {
  std::string layer;
  char matrix = ' ';
  std::string in_file = {};  ///< the layer as the file calls it; empty: the same
};
PeftName split_name(std::string_view name) {
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const std::string_view prefix : {"language_model.", "model.language_model."}) {
    if (!name.starts_with(prefix)) continue;
    const bool inner = prefix.starts_with("model.");
    const std::string_view rest = name.substr(prefix.size());
    PeftName out = split_name(rest);
    if (inner) out.layer.insert(0, "model.");
    return out;
  }
  for (const char* ending : {"", ".weight", ".default.weight"}) {
    const std::string whole = cat(kLoraMagnitude, ending);
    if (name.ends_with(whole)) return {std::string(name.substr(0, name.size() - whole.size())), 'm'};
  }
  const auto without = [&](std::string_view ending) {
    return std::string(name.substr(0, name.size() - ending.size()));
  };
  for (const char matrix : {'A', 'B'}) {
    for (const char* ending : {".weight", ".default.weight"}) {
      const std::string whole = cat(".lora_", matrix, ending);
      if (name.ends_with(whole)) return {without(whole), matrix};
    }
    for (const char* ending : {"", ".default"}) {
      const std::string whole = cat(".lora_embedding_", matrix, ending);
      if (name.ends_with(whole)) return {without(whole), matrix == 'A' ? 'a' : 'b'};
    }
  }
  for (const std::string_view wrapper : {".token_adapter", ""}) {
    for (const char* ending : {"", ".default"}) {
      const std::string whole = cat(wrapper, kTokenRows, ending);
      if (name.ends_with(whole)) return {without(whole), 't'};
    }
  }
  for (const std::string_view base : {".token_adapter.base_layer.weight", ".base_layer.weight"}) {
    if (name.ends_with(base)) return {without(base), 'w'};
  }
  return {};
}

/// The layer as the base calls it: adapters of a base class lack the module that it is in others.
PeftName named_by_base(PeftName name, const Model& base) {
  const auto layout = layout_of(base.metadata);
  if (!layout || layout->encodes()) return name;
  const auto has = [&](const std::string& layer) { return base.graph.find_value(layer + ".weight").valid(); };
  const std::string whole = cat(layout->module(), name.layer);
  if (has(name.layer) || !has(whole)) return name;
  return {whole, name.matrix, name.layer};
}

/// PEFT refuses an adapter whose matrices have another rank than the configuration says.
Status check_rank(const PeftConfig& config, const PeftName& name, const SourceTensor& tensor) {
  const bool has_rank = (name.matrix == 'A' || name.matrix == 'a') && tensor.dims.size() == 2;
  const double rank = value_of(config.ranks, name.in_file.empty() ? name.layer : name.in_file, config.rank);
  if (!has_rank || static_cast<double>(tensor.dims[0]) == rank) return {};
  return corrupt("The rank of the layer \"", shown(name.layer), "\" is ", rank,
                 " by adapter_config.json (\"r\", \"rank_pattern\"), and ", tensor.dims[0], " by its matrices.");
}

/// PEFT saves the weights of adapted embeddings and heads beside their matrices, in case that they were resized.
Status check_own_weight(const std::string& layer, const SourceTensor& tensor, const Model& base) {
  ValueId id = base.graph.find_value(layer + ".weight");
  const auto layout = layout_of(base.metadata);
  if (!id.valid() && layout) id = base.graph.find_value(cat(layout->names().embedding, ".weight"));  // a tied head
  if (id.valid() && base.graph.value(id).shape == Shape::of(tensor.dims)) return {};
  return unsupported("The adapter has a weight of the base, \"", layer, "\", of another shape, ",
                     Shape::of(tensor.dims).text(), "; vocabularies that were resized are not read.");
}

Status add_tensor(AdapterBuilder& builder, const PeftName& name, const SourceTensor& tensor, const Model& base) {
  switch (name.matrix) {
    case 'A': return builder.add_a(name.layer, tensor);
    case 'a': return builder.add_embedding_a(name.layer, tensor, true);
    case 'm': return builder.add_magnitude(name.layer, tensor);
    case 'w': return check_own_weight(name.layer, tensor, base);
    default: return builder.add_b(name.layer, tensor);
  }
}

/// The tokens of these ids, which must be the ones behind the base's own.
Result<NewTokens> tokens_of_ids(const std::vector<std::int64_t>& ids, std::string_view added_tokens,
                                const Model& base) {
  if (added_tokens.empty()) {
    return unsupported(
        "The adapter trains rows of tokens, and added_tokens.json, which has their texts, is not there.");
  }
  GRAFT_TRY_ASSIGN(const Json texts, parse_json(added_tokens));
  if (!texts.is_object()) return corrupt("added_tokens.json is no object.");
  std::map<std::int64_t, std::string> by_id;
  for (const auto& [text, id] : texts.items()) {
    if (id.is_number_integer()) by_id[id.get<std::int64_t>()] = text;
  }
  std::vector<NewToken> tokens;
  for (const std::int64_t id : ids) {
    if (!by_id.contains(id))
      return unsupported("The adapter trains the row of token ", id, ", which it does not name.");
    tokens.push_back({by_id[id]});
  }
  GRAFT_TRY_ASSIGN(NewTokens placed, place_new_tokens(base, tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == placed.first + static_cast<std::int64_t>(i)) continue;
    return unsupported("The adapter trains the row of token ", ids[i], "; new tokens of this base have the ids from ",
                       placed.first, " on, in their order.");
  }
  return placed;
}

Status add_token_rows(const std::vector<std::pair<std::string, const SourceTensor*>>& rows, const NewTokens& tokens,
                      Model& adapter) {
  for (const auto& [layer, tensor] : rows) {
    if (tensor->dims.size() != 2 || tensor->dims[0] != tokens.count() || tensor->dims[1] < 1) {
      return corrupt("The rows of \"", layer, "\" are of shape ", Shape::of(tensor->dims).text(), " for ",
                     tokens.count(), " tokens.");
    }
    ExportTensor made;
    made.source = *tensor;
    made.dtype = DType::f32;
    GRAFT_TRY_ASSIGN(const ExportBytes bytes, export_bytes(made));
    GRAFT_TRY_ASSIGN(const ValueId id, adapter.graph.add_value(cat(layer, kNewRows), DType::f32,
                                                               Shape::of(tensor->dims), ValueKind::parameter));
    GRAFT_TRY(adapter.copy_weight(id, bytes.bytes));
  }
  remember_new_tokens(tokens, adapter.metadata);
  return {};
}

OrderedJson number(double x) {
  const bool whole = std::floor(x) == x && std::abs(x) < 1e15;
  return whole ? OrderedJson(static_cast<std::int64_t>(x)) : OrderedJson(x);
}

OrderedJson task_type(const Model& adapter) {
  const auto layout = layout_of(adapter.metadata);
  if (!layout) return nullptr;
  return layout->encodes() || layout->bare ? "FEATURE_EXTRACTION" : "CAUSAL_LM";
}

OrderedJson config_of(const std::vector<AdapterLayer>& layers, const Model& adapter) {
  std::map<std::pair<std::int64_t, double>, std::size_t> kinds;
  for (const AdapterLayer& layer : layers) ++kinds[{layer.rank, layer.alpha}];
  const auto [rank, alpha] = std::ranges::max_element(kinds, {}, [](const auto& entry) { return entry.second; })->first;
  std::set<std::string> targets;
  const auto layout = layout_of(adapter.metadata);
  OrderedJson ranks = OrderedJson::object();
  OrderedJson alphas = OrderedJson::object();
  for (const AdapterLayer& layer : layers) {
    targets.insert(layer.layer.substr(layer.layer.rfind('.') + 1));  // rfind's npos + 1 is 0
    const std::string name = layout ? layout->folder_name(layer.layer) : layer.layer;
    if (layer.rank != rank) ranks[name] = layer.rank;
    if (layer.alpha != alpha) alphas[name] = number(layer.alpha);
  }
  return {{"base_model_name_or_path", nullptr},
          {"bias", "none"},
          {"fan_in_fan_out", layout && layout->family == "gpt2"},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", number(alpha)},
          {"lora_dropout", 0.0},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", rank},
          {"rank_pattern", ranks},
          {"alpha_pattern", alphas},
          {"target_modules", targets},
          {"task_type", task_type(adapter)},
          {"use_dora", layers.front().dora},
          {"use_rslora", false}};
}

/// Hugging Face's added_tokens.json.
OrderedJson added_tokens(const NewTokens& tokens) {
  OrderedJson out = OrderedJson::object();
  for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
    out[tokens.tokens[i].text] = tokens.first + static_cast<std::int64_t>(i);
  }
  return out;
}

/// Which rows are trained: of all modules that have rows, or where that is the embedding alone, of what is tied to it.
/// Without adapters it is another of PEFT's types.
void add_token_ids(const NewTokens& tokens, const Model& adapter, OrderedJson& config) {
  OrderedJson ids = OrderedJson::array();
  for (std::int64_t i = 0; i < tokens.count(); ++i) ids.push_back(tokens.first + i);
  OrderedJson modules = OrderedJson::object();
  for (const Value& value : adapter.graph.values()) {
    if (!value.name.ends_with(kNewRows)) continue;
    const std::string layer = value.name.substr(0, value.name.size() - kNewRows.size());
    modules[layer.substr(layer.rfind('.') + 1)] = ids;  // rfind's npos + 1 is 0
  }
  if (!config.is_null()) {
    config["trainable_token_indices"] = modules.size() == 1 ? ids : modules;
    return;
  }
  OrderedJson targets = OrderedJson::array();
  for (const auto& [module, of] : modules.items()) targets.push_back(module);
  config = {{"base_model_name_or_path", nullptr},
            {"inference_mode", true},
            {"init_weights", true},
            {"peft_type", "TRAINABLE_TOKENS"},
            {"target_modules", targets},
            {"task_type", task_type(adapter)},
            {"token_indices", ids}};
}

}  // namespace

Result<Model> read_peft(std::string_view config, std::span<const std::byte> safetensors, const Model& base,
                        std::string_view added_tokens, const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(const PeftConfig options, read_config(config, ignored).with_context("adapter_config.json"));
  const std::string context = "adapter_model.safetensors";
  SourceTensors tensors;
  std::vector<std::string> skipped;
  GRAFT_TRY(read_safetensors(safetensors, tensors, skipped).with_context(context));
  if (!skipped.empty()) return unsupported("The adapter's tensor ", skipped.front(), " is of no type that is read.");
  AdapterBuilder builder(base);
  std::size_t layers = 0, magnitudes = 0;
  std::map<std::string, std::string> in_file;  ///< layers that the file calls otherwise
  std::vector<std::pair<std::string, const SourceTensor*>> rows;
  for (const auto& [name, tensor] : tensors.by_name) {
    const PeftName split = named_by_base(split_name(name), base);
    if (split.matrix == ' ' || split.layer.empty()) {
      return unsupported("The adapter's tensor \"", name, "\" is no matrix A or B of a linear layer or an embedding; ",
                         "others (biases, whole modules) are not read.");
    }
    if (split.matrix == 't') {
      rows.emplace_back(split.layer, &tensor);
      continue;
    }
    if (split.matrix == 'w' && !options.tokens.empty()) continue;  // the base's table, resized
    GRAFT_TRY(check_rank(options, split, tensor));
    if (!split.in_file.empty()) in_file[split.layer] = split.in_file;
    GRAFT_TRY(add_tensor(builder, split, tensor, base).with_context(context));
    magnitudes += split.matrix == 'm' ? 1 : 0;
    layers += split.matrix == 'A' || split.matrix == 'a' ? 1 : 0;
  }
  if (magnitudes != (options.dora ? layers : 0)) {
    return corrupt("The adapter of ", layers, " layers has ", magnitudes, " magnitudes, and \"use_dora\" is ",
                   options.dora ? "true." : "false.");
  }
  Model adapter;
  adapter.metadata[std::string(kMetaAdapter)] = "lora";
  if (!builder.empty() || rows.empty()) {
    const auto alpha_of = [&](const std::string& layer, std::int64_t rank) {
      const auto theirs = in_file.find(layer);
      return options.alpha_of(theirs == in_file.end() ? layer : theirs->second, rank);
    };
    GRAFT_TRY_ASSIGN(adapter, builder.build(false, alpha_of).with_context(context));
  }
  if (rows.empty()) return adapter;
  GRAFT_TRY_ASSIGN(const NewTokens tokens, tokens_of_ids(options.tokens, added_tokens, base));
  GRAFT_TRY(add_token_rows(rows, tokens, adapter).with_context(context));
  return adapter;
}

Result<ExportReport> export_peft(os::FileSystem& files, const std::string& folder, const Model& adapter,
                                 const ExportOptions& options) {
  GRAFT_TRY_ASSIGN(const auto layers, adapter_layers(adapter));
  GRAFT_TRY_ASSIGN(std::vector<ExportTensor> tensors, adapter_tensors(adapter, false, options.dtype));
  ExportReport report;
  if (std::ranges::any_of(layers, [&](const AdapterLayer& layer) { return layer.dora != layers.front().dora; })) {
    return unsupported("Some layers of the adapter are DoRA and some are not; PEFT has one kind for all.");
  }
  GRAFT_TRY_ASSIGN(const auto tokens, new_tokens_of(adapter.metadata));
  const auto layout = layout_of(adapter.metadata);
  for (ExportTensor& tensor : tensors) {
    if (tensor.name.ends_with(kNewRows)) {
      tensor.name.resize(tensor.name.size() - kNewRows.size());
      tensor.name += cat(layers.empty() ? "" : ".token_adapter", kTokenRows);
    }
    tensor.name = cat(kPrefix, layout ? layout->folder_name(tensor.name) : tensor.name);
    if (tensor.name.ends_with(kLoraEmbeddingA)) tensor.perm = {1, 0};
    report.bytes += tensor.bytes();
  }
  report.tensors = tensors.size();
  report.files = {folder + "/adapter_config.json", folder + "/adapter_model.safetensors"};
  GRAFT_TRY(os::make_directories(files, folder));
  OrderedJson config = layers.empty() ? OrderedJson() : config_of(layers, adapter);
  if (tokens) {
    add_token_ids(*tokens, adapter, config);
    report.files.push_back(folder + "/added_tokens.json");
    GRAFT_TRY(os::atomic_write_file(files, report.files.back(), added_tokens(*tokens).dump(2) + "\n"));
  }
  GRAFT_TRY(os::atomic_write_file(files, report.files[0], config.dump(2) + "\n"));
  GRAFT_TRY(write_safetensors(files, report.files[1], tensors, {{"format", "pt"}}));
  return report;
}

}  // namespace graft::convert
