// Adapters in GGUF files, and the choice between the kinds of files.
#include <algorithm>
#include <cmath>

#include "platform/base/checked.h"
#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/adapter/adapter_parts.h"
#include "tools/convert/gguf/gguf_decoder.h"
#include "tools/convert/gguf/gguf_write.h"
#include "tools/convert/language_model/convert_decoder.h"

namespace graft::convert {
namespace {

constexpr std::uint64_t kLargestConfig = std::uint64_t{16} << 20;
constexpr std::string_view kWeight = ".weight";

Result<std::string> text_or(const GgufFile& file, const char* key, const char* otherwise) {
  if (!file.has(key)) return std::string(otherwise);
  GRAFT_TRY_ASSIGN(const std::string_view text, file.text(key));
  return std::string(text);
}

Result<double> read_alpha(const GgufFile& file, const DecoderLayout& layout) {
  GRAFT_TRY_ASSIGN(const std::string type, text_or(file, "general.type", "model"));
  if (type != "adapter") return unsupported("The file is of type \"", type, "\" and holds no adapter.");
  GRAFT_TRY_ASSIGN(const std::string kind, text_or(file, "adapter.type", "lora"));
  if (kind != "lora") return unsupported("The adapter is of type \"", kind, "\"; lora is read.");
  GRAFT_TRY_ASSIGN(const std::string architecture, text_or(file, "general.architecture", ""));
  const std::string_view own = gguf_architecture(layout.family);
  if (architecture != own) {
    return invalid("The adapter is of the architecture \"", architecture, "\", the model of \"", own, "\".");
  }
  GRAFT_TRY_ASSIGN(const double alpha, file.real("adapter.lora.alpha"));
  if (!std::isfinite(alpha)) return corrupt("Metadata \"adapter.lora.alpha\" is not finite.");
  return alpha;
}

/// Layers of the base by the names of their weights in GGUF files.
std::map<std::string, std::string> layers_by_gguf_name(const Model& base, const DecoderLayout& layout) {
  std::map<std::string, std::string> out;
  for (const Value& value : base.graph.values()) {
    if (!is_source_weight(value, layout) || !value.name.ends_with(kWeight)) continue;
    out[layout.gguf_name(value.name)] = value.name.substr(0, value.name.size() - kWeight.size());
  }
  return out;
}

Result<SourceTensor> read_tensor(const GgufFile& file, const GgufTensor& tensor) {
  const auto dtype = dtype_of_ggml(tensor.type);
  if (!dtype || !is_float(*dtype)) {
    return unsupported("The tensor \"", tensor.name, "\" is of the type ", ggml_type_name(tensor.type),
                       "; F32, F16 and BF16 are read.");
  }
  SourceTensor out;
  out.dtype = *dtype;
  out.dims.assign(tensor.dims.rbegin(), tensor.dims.rend());
  GRAFT_TRY_ASSIGN(const std::uint64_t bytes,
                   bytes_needed(out.dims, *dtype).with_context(cat("In the tensor \"", tensor.name, "\"")));
  if (!in_bounds(tensor.offset, bytes, file.data().size())) {
    return corrupt("The tensor \"", tensor.name, "\" needs ", bytes, " bytes at offset ", tensor.offset, " of ",
                   file.data().size(), ".");
  }
  out.bytes = file.data().subspan(tensor.offset, bytes);
  return out;
}

/// A .graft adapter that was trained on the other form of the base: its rows of queries and keys move.
Result<Model> fitted(Model adapter, const Model& base) {
  const auto own = layout_of(adapter.metadata);
  const auto wanted = layout_of(base.metadata);
  if (!own || !wanted || own->neighbours == wanted->neighbours) return adapter;
  GRAFT_TRY_ASSIGN(const auto tensors, adapter_tensors(adapter, wanted->neighbours, std::nullopt));
  Model out;
  out.metadata = adapter.metadata;
  out.metadata.insert_or_assign(std::string(kMetaPairs), wanted->neighbours ? "neighbours" : "halves");
  for (const ExportTensor& tensor : tensors) {
    GRAFT_TRY_ASSIGN(const ValueId value, out.graph.add_value(tensor.name, tensor.dtype, Shape::of(tensor.source.dims),
                                                              ValueKind::parameter));
    GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
    GRAFT_TRY(out.copy_weight(value, made.bytes));
  }
  return out;
}

Result<Model> open_peft(os::FileSystem& files, const std::string& folder, const Model& base,
                        const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(const std::string config,
                   os::read_text_file(files, folder + "/adapter_config.json", kLargestConfig));
  GRAFT_TRY_ASSIGN(const auto mapped, files.map(folder + "/adapter_model.safetensors"));
  auto tokens = os::read_text_file(files, folder + "/added_tokens.json", kLargestConfig);
  if (!tokens.ok() && tokens.status().code() != Code::not_found) return std::move(tokens).status();
  return read_peft(config, mapped->bytes(), base, tokens.ok() ? *tokens : std::string(), ignored).with_context(folder);
}

}  // namespace

bool is_adapter(const Model& model) { return model.metadata.contains(kMetaAdapter) && model.graph.nodes().empty(); }

Result<Model> read_gguf_adapter(std::span<const std::byte> bytes, const Model& base) {
  const auto layout = layout_of(base.metadata);
  if (!layout) {
    return unsupported("The model does not remember which language model it is, whose names an adapter in a GGUF file ",
                       "has.");
  }
  GRAFT_TRY_ASSIGN(const GgufFile file, GgufFile::parse(bytes));
  GRAFT_TRY_ASSIGN(const double alpha, read_alpha(file, *layout));
  const auto layers = layers_by_gguf_name(base, *layout);
  std::vector<SourceTensor> tensors;
  tensors.reserve(file.tensors().size());  // whose places are kept
  AdapterBuilder builder(base);
  for (const GgufTensor& tensor : file.tensors()) {
    const bool is_a = tensor.name.ends_with(".lora_a");
    const bool is_b = tensor.name.ends_with(".lora_b");
    const std::string weight(tensor.name.substr(0, std::min(tensor.name.rfind('.'), tensor.name.size())));
    const auto layer = layers.find(weight);
    if (!is_a && !is_b) return unsupported("The tensor \"", tensor.name, "\" is no matrix of an adapter.");
    if (layer == layers.end()) {
      return error(Code::not_found, "The adapter is of the weight \"", weight, "\", which the model does not have.");
    }
    GRAFT_TRY_ASSIGN(SourceTensor read, read_tensor(file, tensor));
    tensors.push_back(std::move(read));
    const bool embedding = layer->second == layout->names().embedding;
    GRAFT_TRY(is_b        ? builder.add_b(layer->second, tensors.back())
              : embedding ? builder.add_embedding_a(layer->second, tensors.back(), false)
                          : builder.add_a(layer->second, tensors.back()));
  }
  const bool neighbours = true;  // the order of GGUF files
  return builder.build(neighbours, [&](const std::string&, std::int64_t) { return alpha; });
}

Result<Model> open_adapter(os::FileSystem& files, const std::string& path, const Model& base,
                           const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(const os::FileInfo info, files.info(path));
  if (info.type == os::EntryType::directory) return open_peft(files, path, base, ignored);
  if (!ignored.empty()) return invalid("Fields are ignored in a PEFT folder's adapter_config.json only.");
  if (is_gguf(files, path)) {
    GRAFT_TRY_ASSIGN(const auto mapped, files.map(path));
    return read_gguf_adapter(mapped->bytes(), base).with_context(path);
  }
  GRAFT_TRY_ASSIGN(Model adapter, load_model(files, path, {.check = WeightCheck::at_once}));
  return fitted(std::move(adapter), base);
}

Result<Model> convert_adapter(os::FileSystem& files, const std::string& path, const Model& base, bool any_base,
                              const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(Model adapter, open_adapter(files, path, base, ignored));
  if (any_base) adapter.metadata.erase(std::string(kMetaAdapterBase));
  GRAFT_TRY(with_adapter(base, adapter));  // it must fit
  adapter.metadata.insert_or_assign(std::string(kMetaAdapterBase), name_of_base(base));
  return adapter;
}

Result<ExportReport> export_gguf_adapter(os::FileSystem& files, const std::string& path, const Model& adapter,
                                         const ExportOptions& options) {
  const auto layout = layout_of(adapter.metadata);
  const std::string_view architecture = layout ? gguf_architecture(layout->family) : std::string_view();
  if (architecture.empty()) {
    return unsupported("The adapter does not remember a language model that GGUF files have.");
  }
  if (adapter.metadata.contains(kMetaAdapterTokens)) {
    return unsupported(
        "The adapter adds tokens, for whose rows adapters in GGUF files have no place; merge it, or write ",
        "a PEFT folder.");
  }
  GRAFT_TRY_ASSIGN(const auto layers, adapter_layers(adapter));
  for (const AdapterLayer& layer : layers) {
    if (layer.dora) {
      return unsupported("The adapter of the layer \"", layer.layer,
                         "\" is DoRA, which GGUF files do not hold; merge it, or write a PEFT folder.");
    }
    const TensorNames& names = layout->names();
    if (adapter.metadata.contains(kMetaAdapterShared) &&
        (layer.layer == names.embedding || layer.layer == names.head)) {
      return unsupported("The adapter of \"", layer.layer,
                         "\" is of a matrix that is embedding and head: readers of GGUF files find an adapter by the "
                         "matrix's name, and would put it on both. Write a PEFT folder.");
    }
    if (layer.alpha == layers.front().alpha) continue;
    return unsupported("The layers \"", layers.front().layer, "\" and \"", layer.layer, "\" have the alphas ",
                       layers.front().alpha, " and ", layer.alpha, "; a GGUF file holds one for all.");
  }
  GRAFT_TRY_ASSIGN(std::vector<ExportTensor> tensors, adapter_tensors(adapter, /*neighbours=*/true, options.dtype));
  ExportReport report;
  for (ExportTensor& tensor : tensors) {
    const bool embedding = tensor.name.ends_with(kLoraEmbeddingA) || tensor.name.ends_with(kLoraEmbeddingB);
    const bool is_a = tensor.name.ends_with(embedding ? kLoraEmbeddingA : kLoraA);
    const std::string layer = tensor.name.substr(0, tensor.name.size() - (embedding ? kLoraEmbeddingA : kLoraA).size());
    const std::string weight = layout->gguf_name(layer + std::string(kWeight));
    if (weight.empty()) return unsupported("GGUF files have no name for the layer \"", layer, "\".");
    tensor.name = weight + (is_a ? ".lora_a" : ".lora_b");
    report.bytes += tensor.bytes();
  }
  report.tensors = tensors.size();
  report.files = {path};
  GgufWriter writer;
  writer.add("general.architecture", architecture);
  writer.add("general.type", "adapter");
  writer.add("adapter.type", "lora");
  writer.add("adapter.lora.alpha", static_cast<float>(layers.front().alpha));
  GRAFT_TRY(writer.write(files, path, tensors));
  return report;
}

}  // namespace graft::convert
