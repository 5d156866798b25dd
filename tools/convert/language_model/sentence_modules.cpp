#include "tools/convert/language_model/sentence_modules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "platform/base/numbers.h"
#include "platform/base/text.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/language/text_inputs.h"
#include "runtime/lora/adapter.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/huggingface/safetensors_write.h"

namespace graft::convert {
namespace {

constexpr std::uint64_t kLargestModules = std::uint64_t{1} << 20;
constexpr std::array<std::pair<const char*, Pooling>, 3> kModes = {{{"pooling_mode_mean_tokens", Pooling::mean},
                                                                    {"pooling_mode_cls_token", Pooling::cls},
                                                                    {"pooling_mode_lasttoken", Pooling::last}}};

Json json_of(os::FileSystem& files, const std::string& path) {
  const auto text = os::read_text_file(files, path, kLargestModules);
  if (!text.ok()) return {};
  auto json = parse_json(*text);
  return json.ok() ? std::move(*json) : Json();
}

/// A folder's name within the model's folder, and nothing else.
bool is_plain_name(std::string_view path) {
  return !path.empty() && path.front() != '.' && std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

/// nullopt: none, several or another than graft has.
std::optional<Pooling> read_pooling(const Json& config) {
  std::optional<Pooling> out;
  if (!config.is_object()) return out;
  int modes = 0;
  for (const auto& [name, value] : config.items()) {
    if (name.starts_with("pooling_mode_") && value.is_boolean() && value.get<bool>()) ++modes;
  }
  for (const auto& [name, pooling] : kModes) {
    if (flag_member(config, name, false)) out = pooling;
  }
  return modes == 1 ? out : std::nullopt;
}

/// What sentence-transformers does to a text before the network, and graft embed does not.
void note_texts(os::FileSystem& files, const std::string& folder, const Model& model, Report& report) {
  const Json cut = json_of(files, folder + "/sentence_bert_config.json");
  if (cut.is_object()) {
    if (flag_member(cut, "do_lower_case", false)) {
      report.notes.push_back(
          "sentence_bert_config.json asks for lower case (do_lower_case); graft embed takes texts as they are.");
    }
    const auto length = integer_member(cut, "max_seq_length", 1, std::numeric_limits<std::int32_t>::max());
    const auto context = model.metadata.find(kMetaContext);
    std::int64_t most = 0;
    if (length.ok() && context != model.metadata.end() && whole_number(context->second, most) && *length < most) {
      report.notes.push_back(cat("sentence_bert_config.json cuts texts to ", *length,
                                 " tokens (max_seq_length); graft embed takes up to ", most, "."));
    }
  }
  const Json texts = json_of(files, folder + "/config_sentence_transformers.json");
  const std::string_view name = string_member(texts, "default_prompt_name");
  const Json* prompts = member(texts, "prompts");
  if (name.empty() || prompts == nullptr) return;
  const std::string_view prompt = string_member(*prompts, std::string(name).c_str());
  if (prompt.empty()) return;
  report.notes.push_back(cat("config_sentence_transformers.json puts \"", shown(prompt),
                             "\" before each text (default_prompt_name); graft embed puts nothing there."));
}

constexpr std::string_view kIdentity = "torch.nn.modules.linear.Identity";

/// Adds the linear layers that come after the pooling. Without an activation they may come before it as well: the
/// weights of a pooling add up to 1.
class DenseLayers {
 public:
  DenseLayers(os::FileSystem& files, Model& model, Report& report) : files_(files), model_(model), report_(report) {
    for (const Output& output : model.graph.outputs()) {
      if (output.name == "last_hidden_state") value_ = output.value;
    }
  }

  /// unsupported: a layer that graft does not have; then all later ones are left out as well.
  Status add(const std::string& folder) {
    if (!value_.valid()) return unsupported("the model has no last hidden state");
    const Json config = json_of(files_, folder + "/config.json");
    const std::string_view activation = string_member(config, "activation_function");
    if (activation != kIdentity) return unsupported("its activation is ", shown(activation));
    std::vector<std::string> skipped;
    GRAFT_TRY_ASSIGN(const SourceTensors tensors, open_safetensors(files_, folder, skipped));
    const Shape& given = model_.graph.value(value_).shape;
    const SourceTensor* const weight = tensors.find("linear.weight");
    if (weight == nullptr || weight->dims.size() != 2 || Dim(weight->dims[1]) != given[2]) {
      return unsupported("there is no matrix \"linear.weight\" for vectors of ", given[2].text());
    }
    const SourceTensor* const bias = tensors.find("linear.bias");
    const bool fits = bias == nullptr || bias->dims == std::vector<std::int64_t>{weight->dims[0]};
    if (!fits) return unsupported("its \"linear.bias\" has another size than its matrix");
    const std::string name = cat(kSentenceDense, count_++, ".linear");
    GRAFT_TRY_ASSIGN(const ValueId matrix, parameter(name + ".weight", *weight));
    std::vector<ValueId> inputs = {value_, matrix};
    if (bias != nullptr) {
      GRAFT_TRY_ASSIGN(inputs.emplace_back(), parameter(name + ".bias", *bias));
    }
    Builder b(model_.graph);
    value_ = b.node(Op::matmul, std::move(inputs), {{"trans_b", std::int64_t{1}}}, name);
    return b.status();
  }

  void finish() {
    if (count_ != 0) model_.graph.add_output(std::string(kSentenceOutput), value_);
  }

 private:
  Result<ValueId> parameter(const std::string& name, const SourceTensor& tensor) {
    GRAFT_TRY_ASSIGN(const ValueId out,
                     model_.graph.add_value(name, DType::f32, Shape::of(tensor.dims), ValueKind::parameter));
    GRAFT_TRY_ASSIGN(HostBuffer numbers, to_f32(tensor, name));
    GRAFT_TRY(model_.set_weight(out, std::move(numbers)));
    ++report_.parameters;
    report_.parameter_elements += tensor.elements();
    return out;
  }

  os::FileSystem& files_;
  Model& model_;
  Report& report_;
  ValueId value_;
  int count_ = 0;
};

OrderedJson module_entry(int index, const char* path, const char* type) {
  return {{"idx", index},
          {"name", std::to_string(index)},
          {"path", path},
          {"type", cat("sentence_transformers.models.", type)}};
}

}  // namespace

void add_sentence_modules(os::FileSystem& files, const std::string& folder, Model& model, Report& report) {
  const std::string path = folder + "/modules.json";
  if (!os::exists(files, path)) return;
  const Json modules = json_of(files, path);
  if (!modules.is_array()) {
    report.notes.push_back("modules.json is no list, and is passed over.");
    return;
  }
  std::optional<Pooling> pooling;
  bool normalize = false;
  bool dense = true;  // such layers still become part of the model
  DenseLayers layers(files, model, report);
  for (const Json& module : modules) {
    const std::string_view type = string_member(module, "type"), where = string_member(module, "path");
    const std::string_view name = type.substr(type.rfind('.') + 1);  // rfind's npos + 1 is 0
    if (name == "Transformer") continue;
    if (name == "Normalize") {
      normalize = true;
    } else if (name == "Pooling") {
      if (is_plain_name(where)) pooling = read_pooling(json_of(files, cat(folder, "/", where, "/config.json")));
      if (!pooling) {
        report.notes.push_back(
            "The pooling that modules.json asks for is none of mean, cls and last alone; graft embed "
            "takes the mean.");
      }
    } else if (name == "Dense" && dense && !normalize && is_plain_name(where)) {
      const Status added = layers.add(cat(folder, "/", where));
      dense = added.ok();
      if (!dense) {
        report.notes.push_back(cat("The module \"Dense\" in ", where, " is left out (", added.message(),
                                   "): vectors are those before it."));
      }
    } else {
      dense = false;
      report.notes.push_back(
          cat("The module \"", shown(name), "\" of modules.json is left out: vectors are those before it."));
    }
  }
  layers.finish();
  if (pooling) remember_pooling(*pooling, normalize, model.metadata);
  note_texts(files, folder, model, report);
}

namespace {

/// A Dense module's folder: `weight` and, where there is one, `bias`.
Status write_dense(os::FileSystem& files, const std::string& folder, ExportTensor weight,
                   std::optional<ExportTensor> bias, std::vector<std::string>& written) {
  GRAFT_TRY(os::make_directories(files, folder));
  const std::vector<std::int64_t> dims = weight.dims();
  const OrderedJson config = {{"in_features", dims[1]},
                              {"out_features", dims[0]},
                              {"bias", bias.has_value()},
                              {"activation_function", kIdentity}};
  written.push_back(folder + "/config.json");
  GRAFT_TRY(os::atomic_write_file(files, written.back(), config.dump(2) + "\n"));
  weight.name = "linear.weight";
  std::vector<ExportTensor> tensors = {std::move(weight)};
  if (bias) tensors.push_back(std::move(*bias));
  if (tensors.size() > 1) tensors.back().name = "linear.bias";
  written.push_back(folder + "/model.safetensors");
  return write_safetensors(files, written.back(), tensors, {{"format", "pt"}});
}

std::optional<ExportTensor> dense_tensor(const Model& model, int number, std::string_view ending) {
  const ValueId id = model.graph.find_value(cat(kSentenceDense, number, ".linear", ending));
  const auto bytes = id.valid() ? model.weight(id) : std::nullopt;
  if (!bytes) return std::nullopt;
  return export_tensor(model.graph.value(id), *bytes);
}

}  // namespace

int dense_layers(const Model& model) {
  int count = 0;
  while (dense_tensor(model, count, ".weight")) ++count;
  return count;
}

Status write_sentence_modules(os::FileSystem& files, const std::string& folder, const Model& model, std::int64_t width,
                              std::vector<std::string>& written) {
  const auto pooling = pooling_of(model.metadata);
  if (!pooling) return {};
  const auto write = [&](const std::string& name, const OrderedJson& json) -> Status {
    written.push_back(cat(folder, "/", name));
    return os::atomic_write_file(files, written.back(), json.dump(2) + "\n");
  };
  OrderedJson modules = {module_entry(0, "", "Transformer"), module_entry(1, "1_Pooling", "Pooling")};
  const int dense = dense_layers(model);
  for (int i = 0; i < dense; ++i) {
    const std::string path = cat(i + 2, "_Dense");
    modules.push_back(module_entry(i + 2, path.c_str(), "Dense"));
    GRAFT_TRY(write_dense(files, cat(folder, "/", path), *dense_tensor(model, i, ".weight"),
                          dense_tensor(model, i, ".bias"), written));
  }
  const std::string last = cat(dense + 2, "_Normalize");
  if (normalizes(model.metadata)) modules.push_back(module_entry(dense + 2, last.c_str(), "Normalize"));
  OrderedJson config = {{"word_embedding_dimension", width}};
  for (const auto& [name, mode] : kModes) config[name] = mode == *pooling;
  config["pooling_mode_max_tokens"] = false;
  config["pooling_mode_mean_sqrt_len_tokens"] = false;
  GRAFT_TRY(os::make_directories(files, folder + "/1_Pooling"));
  if (normalizes(model.metadata)) GRAFT_TRY(os::make_directories(files, cat(folder, "/", last)));
  GRAFT_TRY(write("modules.json", modules));
  return write("1_Pooling/config.json", config);
}

}  // namespace graft::convert
