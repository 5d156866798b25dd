#include "tools/convert/language_model/export_model.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "runtime/core/quantized.h"
#include "tools/convert/decoder/decoder_compare.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/gguf/gguf_decoder.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/huggingface/safetensors_write.h"
#include "tools/convert/language_model/decoder_source.h"
#include "tools/convert/language_model/sentence_modules.h"
#include "tools/convert/tokenizer/tokenizer_write.h"

namespace graft::convert {
namespace {

/// Matrices whose rows are no whole blocks of what was asked for, by what they become.
using Unfit = std::map<DType, std::vector<std::string>>;

/// The dtype that was asked for, or where rows are no whole blocks of it the nearest that they can be, as llama.cpp
/// does.
DType chosen(const ExportTensor& tensor, const ExportOptions& options, Unfit& unfit) {
  if (!options.dtype) return tensor.dtype;
  const auto row = static_cast<std::uint64_t>(tensor.dims().back());
  const DType dtype = fitting_blocks(*options.dtype, row).value_or(DType::f16);
  if (dtype != *options.dtype) unfit[dtype].push_back(tensor.name);
  return dtype;
}

void note_unfit(const Unfit& unfit, const ExportOptions& options, ExportReport& report) {
  for (const auto& [dtype, names] : unfit) {
    report.notes.push_back(cat(names.size(), names.size() == 1 ? " matrix becomes " : " matrices become ",
                               dtype_name(dtype), ": the rows are no whole number of ", dtype_name(*options.dtype),
                               " blocks (", names.front(), names.size() > 1 ? ", ..." : "", ")."));
  }
}

Status check_dtype(const ExportOptions& options) {
  if (!options.dtype || !is_quantized(*options.dtype)) return {};
  return unsupported("safetensors files hold no ", dtype_name(*options.dtype),
                     " blocks; f32, f16 and bf16 can be written.");
}

/// Blocks become f32, which safetensors has.
void for_safetensors(ExportTensor& tensor, const ExportOptions& options) {
  if (is_float(tensor.dtype) || is_quantized(tensor.dtype)) {
    tensor.dtype = options.dtype.value_or(is_quantized(tensor.dtype) ? DType::f32 : tensor.dtype);
  }
}

void count(const std::vector<ExportTensor>& tensors, ExportReport& report) {
  report.tensors = tensors.size();
  for (const ExportTensor& tensor : tensors) report.bytes += tensor.bytes();
}

/// The model's tensors of the source, in the graph's order.
std::vector<ExportTensor> weights_of(const Model& model, const DecoderLayout& layout) {
  std::vector<ExportTensor> out;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const Value& value = model.graph.values()[i];
    const auto bytes = model.weight({i});
    if (bytes && is_source_weight(value, layout)) out.push_back(export_tensor(value, *bytes));
  }
  return out;
}

bool is_norm(const std::string& name, const DecoderLayout& layout) {
  const std::string gguf = layout.gguf_name(name);
  return gguf.find("norm") != std::string::npos && gguf.ends_with(".weight");
}

bool is_layer_matrix(const ExportTensor& tensor, const DecoderLayout& layout) {
  return tensor.source.dims.size() == 2 && tensor.name.starts_with(layout.names().layer);
}

/// From the layout of a folder to that of a GGUF file, or back.
void move_layout(ExportTensor& tensor, const DecoderLayout& layout, bool to_gguf) {
  if (const std::int64_t heads = layout.paired_heads(tensor.name); heads != 0) {
    tensor.pairs = layout.row_order(to_gguf);
    tensor.heads = heads;
  }
  // Folders of Gemma hold the weights of norms less one, folders of GPT-2 matrices as [in, out].
  const Family* const family = find_family(layout.family);
  if (family != nullptr && family->unit_norms && is_norm(tensor.name, layout)) tensor.added = to_gguf ? 1.0f : -1.0f;
  if (layout.family == "gpt2" && is_layer_matrix(tensor, layout)) tensor.perm = {1, 0};
}

Status check_pairs(const DecoderSource& source) {
  const RopeSpec& rope = source.spec.rope;
  if (!gguf_pairs_neighbours(gguf_architecture(source.spec.family)) || rope.rotated == 0) return {};
  return unsupported("Of a head's ", source.spec.head_dim, " elements ", rope.rotated,
                     " turn; the two formats order the rows of such heads differently.");
}

// ---- Hugging Face folders

/// The name that a folder had for it.
std::string folder_name(const std::string& name, const Model& model) {
  const auto odd = model.metadata.find(kMetaSourceNames);
  if (odd == model.metadata.end()) return name;
  const auto layout = layout_of(model.metadata);
  const bool head = odd->second.find(kNamesHead) != std::string::npos;
  if (head && layout && name == cat(layout->names().embedding, ".weight")) return cat(layout->names().head, ".weight");
  for (const auto& [old, now] : kNamesOfNorms) {
    if (odd->second.find(kNamesGamma) == std::string::npos || !name.ends_with(now)) continue;
    return cat(name.substr(0, name.size() - now.size()), old);
  }
  return layout ? layout->folder_name(name) : name;
}

Result<OrderedJson> folder_config(const DecoderSource& source, const std::vector<ExportTensor>& tensors) {
  OrderedJson config = source.config;
  if (source.gguf) {
    GRAFT_TRY_ASSIGN(config, write_hf_config(source.spec));
  }
  if (const auto text = config.find("text_config"); text != config.end() && text->is_object()) {
    OrderedJson inner = *text;  // of a model of text and images, the part that there is
    const Family& family = *find_family(source.spec.family);
    inner["model_type"] = family.model_type;
    inner["architectures"] = {family.class_name};
    config = std::move(inner);
  }
  if (!source.spec.encoder) config["tie_word_embeddings"] = source.spec.tied;
  if (config.contains("vocab_size")) config["vocab_size"] = source.spec.vocabulary;
  const auto f32 = [](const ExportTensor& tensor) { return tensor.dtype == DType::f32; };
  const DType dtype = tensors.empty() || std::ranges::any_of(tensors, f32) ? DType::f32 : tensors.front().dtype;
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = dtype == DType::f32   ? "float32"
                                                               : dtype == DType::f16 ? "float16"
                                                                                     : "bfloat16";
  return config;
}

std::vector<std::int64_t> stops_of(const Model& model) {
  std::vector<std::int64_t> out;
  const auto found = model.metadata.find(kMetaStop);
  if (found == model.metadata.end()) return out;
  const std::string& text = found->second;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    std::int64_t id = 0;
    const auto [end, failed] = std::from_chars(at, text.data() + text.size(), id);
    if (failed != std::errc()) break;
    out.push_back(id);
    at = end + 1;
  }
  return out;
}

OrderedJson tokenizer_config(const text::Vocabulary& vocabulary, const Model& model) {
  const bool pieces = vocabulary.algorithm == text::Algorithm::scored_bpe;
  OrderedJson out = {{"tokenizer_class", pieces ? "LlamaTokenizer" : "PreTrainedTokenizerFast"}};
  const std::pair<const char*, text::TokenId> named[] = {{"bos_token", vocabulary.bos},
                                                         {"eos_token", vocabulary.eos},
                                                         {"unk_token", vocabulary.unknown},
                                                         {"pad_token", vocabulary.pad},
                                                         {"mask_token", vocabulary.mask}};
  for (const auto& [key, id] : named) {
    if (id != text::kNoToken) out[key] = vocabulary.tokens[static_cast<std::size_t>(id)].text;
  }
  if (pieces) out["add_bos_token"] = !vocabulary.before.empty();
  if (pieces) out["add_eos_token"] = !vocabulary.after.empty();
  if (const auto jinja = model.metadata.find(kMetaChatTemplate); jinja != model.metadata.end()) {
    out["chat_template"] = jinja->second;
    if (const auto tools = model.metadata.find(kMetaToolTemplate); tools != model.metadata.end()) {
      out["chat_template"] = {{{"name", "default"}, {"template", jinja->second}},
                              {{"name", "tool_use"}, {"template", tools->second}}};
    }
  }
  return out;
}

std::string pretty(const OrderedJson& json) {
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Status write_tokenizer(os::FileSystem& files, const std::string& folder, const Model& model, ExportReport& report) {
  const auto write = [&](const std::string& name, const std::string& text) -> Status {
    report.files.push_back(cat(folder, "/", name));
    return os::atomic_write_file(files, report.files.back(), text);
  };
  if (const auto stops = stops_of(model); !stops.empty()) {
    OrderedJson ids = stops.size() == 1 ? OrderedJson(stops.front()) : OrderedJson(stops);
    GRAFT_TRY(write("generation_config.json", pretty({{"eos_token_id", std::move(ids)}})));
  }
  const auto vocabulary = vocabulary_of(model);
  if (!vocabulary) return {};
  const auto file = tokenizer_file(*vocabulary);
  if (!file.ok()) {
    report.notes.push_back(cat("The tokenizer is left out: ", file.status().message()));
    return {};
  }
  GRAFT_TRY(write(file->name, file->contents));
  return write("tokenizer_config.json", pretty(tokenizer_config(*vocabulary, model)));
}

// ---- GGUF files

struct FileType {
  std::uint32_t number;  ///< "general.file_type"
  DType dtype;           ///< of most matrices
};
/// Where a type has several numbers, the first is written.
constexpr FileType kFileTypes[] = {{0, DType::f32},   {1, DType::f16},   {2, DType::q4_0},  {3, DType::q4_1},
                                   {7, DType::q8_0},  {8, DType::q5_0},  {9, DType::q5_1},  {15, DType::q4_k},
                                   {14, DType::q4_k}, {17, DType::q5_k}, {16, DType::q5_k}, {18, DType::q6_k},
                                   {32, DType::bf16}};

DType dtype_of_most(const std::vector<ExportTensor>& tensors) {
  std::map<DType, std::uint64_t> elements;
  for (const ExportTensor& tensor : tensors) elements[tensor.dtype] += tensor.source.elements();
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? DType::f32 : most->first;
}

/// The source's own number for as long as it is true.
std::uint32_t file_type(const std::vector<ExportTensor>& tensors, const DecoderSource& source) {
  const DType most = dtype_of_most(tensors);
  const auto noted = source.gguf ? source.gguf->integer("general.file_type") : Result<std::int64_t>(-1);
  std::optional<std::uint32_t> out;
  for (const FileType& type : kFileTypes) {
    if (type.dtype != most) continue;
    if (noted.ok() && *noted == type.number) return type.number;
    if (!out) out = type.number;
  }
  return out.value_or(0);
}

/// Keys that say how the numbers are stored, whichever file the others come from.
void add_storage_keys(const std::vector<ExportTensor>& tensors, const DecoderSource& source, GgufWriter& out) {
  out.add("general.file_type", file_type(tensors, source));
  const bool blocks = std::ranges::any_of(tensors, [](const ExportTensor& t) { return is_quantized(t.dtype); });
  if (blocks) out.add("general.quantization_version", std::uint32_t{2});
}

/// llama.cpp's numbers of what is pooled.
void add_pooling(std::string_view architecture, const Model& model, GgufWriter& out) {
  constexpr std::pair<std::string_view, std::uint32_t> kPoolings[] = {{"mean", 1}, {"cls", 2}, {"last", 3}};
  const auto found = model.metadata.find(kMetaPooling);
  for (const auto& [name, number] : kPoolings) {
    if (found != model.metadata.end() && found->second == name) out.add(cat(architecture, ".pooling_type"), number);
  }
}

Status add_new_keys(const DecoderSource& source, const Model& model, const std::vector<ExportTensor>& tensors,
                    GgufWriter& out, ExportReport& report) {
  GRAFT_TRY(write_gguf_decoder(source.spec, out));
  add_pooling(gguf_architecture(source.spec.family), model, out);
  out.add("general.type", "model");
  if (const auto name = model.metadata.find(kMetaSourceFile); name != model.metadata.end()) {
    out.add("general.name", std::string_view(name->second));
  }
  if (const auto vocabulary = vocabulary_of(model)) {
    const auto embedding = std::ranges::find(tensors, "token_embd.weight", &ExportTensor::name);
    const std::size_t rows = embedding != tensors.end() ? static_cast<std::size_t>(embedding->dims().front()) : 0;
    const Status added = add_gguf_tokenizer(*vocabulary, rows, out, report.notes);
    if (!added.ok()) report.notes.push_back(cat("The tokenizer is left out: ", added.message()));
  }
  if (const auto jinja = model.metadata.find(kMetaChatTemplate); jinja != model.metadata.end()) {
    out.add("tokenizer.chat_template", std::string_view(jinja->second));
    if (const auto tools = model.metadata.find(kMetaToolTemplate); tools != model.metadata.end()) {
      out.add("tokenizer.chat_template.tool_use", std::string_view(tools->second));
    }
  }
  return {};
}

/// What was written is read again, so that nothing is lost without a word.
Status check_gguf(const DecoderSource& source, const std::vector<ExportTensor>& tensors, const GgufWriter& writer,
                  ExportReport& report) {
  GRAFT_TRY_ASSIGN(const std::string bytes, writer.bytes({}));
  GRAFT_TRY_ASSIGN(const GgufFile file, GgufFile::parse(std::as_bytes(std::span(bytes))));
  SourceTensors named;
  for (const ExportTensor& tensor : tensors) {
    named.by_name.emplace(tensor.name, SourceTensor{tensor.dims(), tensor.dtype, tensor.source.bytes});
  }
  GRAFT_TRY_ASSIGN(const GgufModel read, read_gguf_decoder(file, std::move(named)));
  for (const std::string& difference : decoder_differences(source.spec, read.spec)) {
    if (!difference.starts_with(kWindowDifference)) {
      return unsupported("GGUF cannot say ", difference, " of this model.");
    }
    if (windows_matter(source.spec, read.spec)) {
      return unsupported("llama.cpp does not read ", difference, " of this model; convert it with the field ",
                         "\"sliding_window\" ignored to export one that sees all keys.");
    }
    report.notes.push_back(cat("GGUF cannot say ", difference, ", which are all within the model's context."));
  }
  return {};
}

/// What errors of its columns weigh, where the matrix becomes blocks and somebody knows.
Status weigh(const ExportOptions& options, ExportTensor& tensor) {
  if (options.importance == nullptr || !is_quantized(tensor.dtype) || tensor.dtype == tensor.source.dtype) return {};
  tensor.scales.searched = true;
  GRAFT_TRY_ASSIGN(tensor.scales.importance,
                   importance_of(*options.importance, tensor.name, static_cast<std::size_t>(tensor.dims().back())));
  return {};
}

void note_importance(const std::vector<ExportTensor>& tensors, const ExportOptions& options, ExportReport& report) {
  if (options.importance == nullptr) return;
  const auto with = std::ranges::count_if(tensors, [](const ExportTensor& t) { return !t.scales.importance.empty(); });
  report.notes.push_back(importance_note(static_cast<std::size_t>(with)));
}

/// Of encoders; and rows in front of the first token's position.
void leave_out_heads(const DecoderSource& source, const Model& model, std::vector<ExportTensor>& tensors,
                     ExportReport& report) {
  const auto is_head = [&](const ExportTensor& tensor) { return source.layout.gguf_name(tensor.name).empty(); };
  const auto heads = std::ranges::count_if(tensors, is_head);
  std::erase_if(tensors, is_head);
  if (heads != 0) {
    report.notes.push_back(
        cat("GGUF holds the encoder alone: ", heads, " tensors of its head and pooler are left out."));
  }
  if (const int dense = dense_layers(model); dense != 0) {
    report.notes.push_back(cat("GGUF files that graft writes hold no Dense layers: ", dense, " of them are left out."));
  }
  const auto first = static_cast<std::size_t>(source.spec.first_position);
  for (ExportTensor& tensor : tensors) {
    if (first == 0 || source.layout.gguf_name(tensor.name) != "position_embd.weight") continue;
    const std::size_t row = tensor.source.bytes.size() / static_cast<std::size_t>(tensor.source.dims[0]);
    tensor.source.bytes = tensor.source.bytes.subspan(first * row);
    tensor.source.dims[0] -= static_cast<std::int64_t>(first);
  }
}

Result<std::vector<ExportTensor>> gguf_tensors(const DecoderSource& source, const Model& model,
                                               const ExportOptions& options, ExportReport& report) {
  std::vector<ExportTensor> out = weights_of(model, source.layout);
  if (source.spec.encoder) leave_out_heads(source, model, out, report);
  Unfit unfit;
  for (ExportTensor& tensor : out) {
    if (!source.gguf) move_layout(tensor, source.layout, true);
    const bool matrix = tensor.source.dims.size() > 1;
    const bool added = tensor.name.find("position_embeddings") != std::string::npos ||
                       tensor.name.find("token_type_embeddings") != std::string::npos;  // as they are, by llama.cpp
    tensor.dtype = matrix && !added ? chosen(tensor, options, unfit) : DType::f32;
    tensor.name = source.layout.gguf_name(tensor.name);
    GRAFT_TRY(weigh(options, tensor));
  }
  note_importance(out, options, report);
  note_unfit(unfit, options, report);
  for (const RopeFactors& factors : source.rope_factors) {
    ExportTensor& tensor = out.emplace_back();
    tensor.name = factors.name;
    tensor.source.dims = {static_cast<std::int64_t>(factors.numbers.size())};
    tensor.source.bytes = std::as_bytes(std::span(factors.numbers));
  }
  return out;
}

// ---- plain safetensors

bool is_kept(const Value& value) {
  if (value.kind == ValueKind::parameter || value.kind == ValueKind::state) return true;
  // Constants of other types were folded at conversion: no tensors of the source.
  return value.kind == ValueKind::constant && value.dtype != DType::f32 && value.dtype != DType::i32 &&
         value.dtype != DType::boolean;
}

}  // namespace

std::string ExportReport::json() const {
  nlohmann::ordered_json out = {{"files", files}, {"tensors", tensors}, {"bytes", bytes}, {"notes", notes}};
  if (!blocks.empty()) out["blocks"] = errors_json(blocks);
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Result<ExportReport> export_folder(os::FileSystem& files, const std::string& folder, const Model& model,
                                   const ExportOptions& options) {
  GRAFT_TRY(check_dtype(options));
  GRAFT_TRY_ASSIGN(const auto source, source_of(model));
  std::vector<ExportTensor> tensors = weights_of(model, source->layout);
  if (source->gguf) GRAFT_TRY(check_pairs(*source));
  for (ExportTensor& tensor : tensors) {
    if (source->gguf) move_layout(tensor, source->layout, false);
    for_safetensors(tensor, options);
    tensor.name = folder_name(tensor.name, model);
  }
  GRAFT_TRY_ASSIGN(const OrderedJson config, folder_config(*source, tensors));
  GRAFT_TRY(os::make_directories(files, folder));
  ExportReport report;
  count(tensors, report);
  report.files = {folder + "/config.json", folder + "/model.safetensors"};
  GRAFT_TRY(os::atomic_write_file(files, report.files[0], pretty(config)));
  GRAFT_TRY(write_safetensors(files, report.files[1], tensors, {{"format", "pt"}}));
  GRAFT_TRY(write_tokenizer(files, folder, model, report));
  GRAFT_TRY(write_sentence_modules(files, folder, model, source->spec.hidden, report.files));
  return report;
}

Result<ExportReport> export_gguf(os::FileSystem& files, const std::string& path, const Model& model,
                                 const ExportOptions& options) {
  GRAFT_TRY_ASSIGN(const auto source, source_of(model));
  ExportReport report;
  if (!source->gguf) GRAFT_TRY(check_pairs(*source));
  GRAFT_TRY_ASSIGN(const std::vector<ExportTensor> tensors, gguf_tensors(*source, model, options, report));
  GgufWriter writer;
  if (source->gguf) {
    writer.align(static_cast<std::uint32_t>(source->gguf->alignment()));
    for (const std::string_view key : source->gguf->keys()) {
      if (key == "general.file_type") {
        writer.add(key, file_type(tensors, *source));
      } else if (key.ends_with(".vocab_size")) {
        writer.add(key, static_cast<std::uint32_t>(source->spec.vocabulary));
      } else {
        writer.add(key, *source->gguf->find(key));
      }
    }
  } else {
    GRAFT_TRY(add_new_keys(*source, model, tensors, writer, report));
    add_storage_keys(tensors, *source, writer);
    GRAFT_TRY(check_gguf(*source, tensors, writer, report));
  }
  count(tensors, report);
  report.files = {path};
  GRAFT_TRY(writer.write(files, path, tensors, [&](const ExportTensor&, const ExportBytes& made) {
    if (made.error) report.blocks.push_back(*made.error);
  }));
  if (!report.blocks.empty()) report.notes.push_back(errors_note(report.blocks));
  return report;
}

Result<ExportReport> export_safetensors(os::FileSystem& files, const std::string& path, const Model& model,
                                        const ExportOptions& options) {
  GRAFT_TRY(check_dtype(options));
  std::vector<ExportTensor> tensors;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const Value& value = model.graph.values()[i];
    const auto bytes = model.weight({i});
    if (!bytes || !is_kept(value)) continue;
    tensors.push_back(export_tensor(value, *bytes));
    for_safetensors(tensors.back(), options);
    tensors.back().name = folder_name(value.name, model);
  }
  if (tensors.empty()) return invalid("The model has no parameters to be written.");
  ExportReport report;
  count(tensors, report);
  report.files = {path};
  GRAFT_TRY(write_safetensors(files, path, tensors, {{"format", "pt"}}));
  return report;
}

}  // namespace graft::convert
