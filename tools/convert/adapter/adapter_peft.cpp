// Adapters of Hugging Face's PEFT: names of its modules, its configuration.
#include <algorithm>
#include <cmath>
#include <set>

#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/adapter/adapter_parts.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/huggingface/safetensors_write.h"

namespace graft::convert {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";

/// One entry of "alpha_pattern": a module's name, or the end of one.
struct Pattern {
  std::string name;
  bool whole = false;
  double value = 0;

  bool fits(std::string_view layer) const {
    if (layer == name) return true;
    return !whole && layer.ends_with(name) && layer[layer.size() - name.size() - 1] == '.';
  }
};

struct PeftConfig {
  double alpha = 8;
  bool by_root = false;  ///< scaled by alpha / sqrt(r)
  bool dora = false;
  std::vector<Pattern> alphas;

  double alpha_of(std::string_view layer, std::int64_t rank) const {
    double out = alpha;
    for (const Pattern& pattern : alphas) {
      if (pattern.fits(layer)) out = pattern.value;
    }
    return by_root ? out * std::sqrt(static_cast<double>(rank)) : out;
  }
};

Result<std::vector<Pattern>> read_patterns(const Json& config, const char* key) {
  std::vector<Pattern> out;
  const Json* patterns = member(config, key);
  if (patterns == nullptr) return out;
  if (!patterns->is_object()) return corrupt("\"", key, "\" is no object.");
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

Result<PeftConfig> read_config(std::string_view text) {
  GRAFT_TRY_ASSIGN(const Json config, parse_json(text));
  if (const auto type = string_member(config, "peft_type"); type != "LORA") {
    return unsupported("It is of the type \"", type, "\"; LORA is read.");
  }
  if (const auto bias = string_member(config, "bias"); !bias.empty() && bias != "none") {
    return unsupported("It trains biases (\"bias\": \"", bias, "\"); matrices are read.");
  }
  PeftConfig out;
  const Json* alpha = member(config, "lora_alpha");
  if (alpha == nullptr || !alpha->is_number() || !std::isfinite(alpha->get<double>())) {
    return corrupt("\"lora_alpha\" is missing or no finite number.");
  }
  out.alpha = alpha->get<double>();
  out.by_root = flag_member(config, "use_rslora", false);
  out.dora = flag_member(config, "use_dora", false);
  GRAFT_TRY_ASSIGN(out.alphas, read_patterns(config, "alpha_pattern"));
  return out;
}

/// "base_model.model.model.layers.0.mlp.up_proj.lora_A.weight" -> the layer, and which matrix; 'a' and 'b' for those of
/// an embedding, 'm' for a magnitude, 'w' for the base's own weight, ' ' for another tensor.
struct PeftName {
  std::string layer;
  char matrix = ' ';
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
  constexpr std::string_view kBase = ".base_layer.weight";
  if (name.ends_with(kBase)) return {without(kBase), 'w'};
  return {};
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

OrderedJson number(double x) {
  const bool whole = std::floor(x) == x && std::abs(x) < 1e15;
  return whole ? OrderedJson(static_cast<std::int64_t>(x)) : OrderedJson(x);
}

OrderedJson config_of(const std::vector<AdapterLayer>& layers, const Model& adapter) {
  std::map<std::pair<std::int64_t, double>, std::size_t> kinds;
  for (const AdapterLayer& layer : layers) ++kinds[{layer.rank, layer.alpha}];
  const auto [rank, alpha] = std::ranges::max_element(kinds, {}, [](const auto& entry) { return entry.second; })->first;
  std::set<std::string> targets;
  OrderedJson ranks = OrderedJson::object();
  OrderedJson alphas = OrderedJson::object();
  for (const AdapterLayer& layer : layers) {
    targets.insert(layer.layer.substr(layer.layer.rfind('.') + 1));  // rfind's npos + 1 is 0
    if (layer.rank != rank) ranks[layer.layer] = layer.rank;
    if (layer.alpha != alpha) alphas[layer.layer] = number(layer.alpha);
  }
  const auto layout = layout_of(adapter.metadata);
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
          {"task_type", layout ? OrderedJson("CAUSAL_LM") : OrderedJson(nullptr)},
          {"use_dora", layers.front().dora},
          {"use_rslora", false}};
}

}  // namespace

Result<Model> read_peft(std::string_view config, std::span<const std::byte> safetensors, const Model& base) {
  GRAFT_TRY_ASSIGN(const PeftConfig options, read_config(config).with_context("adapter_config.json"));
  const std::string context = "adapter_model.safetensors";
  SourceTensors tensors;
  std::vector<std::string> skipped;
  GRAFT_TRY(read_safetensors(safetensors, tensors, skipped).with_context(context));
  if (!skipped.empty()) return unsupported("The adapter's tensor ", skipped.front(), " is of no type that is read.");
  AdapterBuilder builder(base);
  std::size_t layers = 0, magnitudes = 0;
  for (const auto& [name, tensor] : tensors.by_name) {
    const PeftName split = split_name(name);
    if (split.matrix == ' ' || split.layer.empty()) {
      return unsupported("The adapter's tensor \"", name, "\" is no matrix A or B of a linear layer or an embedding; ",
                         "others (biases, whole modules) are not read.");
    }
    GRAFT_TRY(add_tensor(builder, split, tensor, base).with_context(context));
    magnitudes += split.matrix == 'm' ? 1 : 0;
    layers += split.matrix == 'A' || split.matrix == 'a' ? 1 : 0;
  }
  if (magnitudes != (options.dora ? layers : 0)) {
    return corrupt("The adapter of ", layers, " layers has ", magnitudes, " magnitudes, and \"use_dora\" is ",
                   options.dora ? "true." : "false.");
  }
  return builder
      .build(false, [&](const std::string& layer, std::int64_t rank) { return options.alpha_of(layer, rank); })
      .with_context(context);
}

Result<ExportReport> export_peft(os::FileSystem& files, const std::string& folder, const Model& adapter,
                                 const ExportOptions& options) {
  GRAFT_TRY_ASSIGN(const auto layers, adapter_layers(adapter));
  GRAFT_TRY_ASSIGN(std::vector<ExportTensor> tensors, adapter_tensors(adapter, false, options.dtype));
  ExportReport report;
  if (std::ranges::any_of(layers, [&](const AdapterLayer& layer) { return layer.dora != layers.front().dora; })) {
    return unsupported("Some layers of the adapter are DoRA and some are not; PEFT has one kind for all.");
  }
  for (ExportTensor& tensor : tensors) {
    tensor.name.insert(0, kPrefix);
    if (tensor.name.ends_with(kLoraEmbeddingA)) tensor.perm = {1, 0};
    report.bytes += tensor.bytes();
  }
  report.tensors = tensors.size();
  report.files = {folder + "/adapter_config.json", folder + "/adapter_model.safetensors"};
  GRAFT_TRY(os::make_directories(files, folder));
  GRAFT_TRY(os::atomic_write_file(files, report.files[0], config_of(layers, adapter).dump(2) + "\n"));
  GRAFT_TRY(write_safetensors(files, report.files[1], tensors, {{"format", "pt"}}));
  return report;
}

}  // namespace graft::convert
