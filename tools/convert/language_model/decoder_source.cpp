#include "tools/convert/language_model/decoder_source.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "platform/base/checked.h"
#include "runtime/language/text_model.h"
#include "runtime/lora/adapter.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/gguf/gguf_write.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/language_model/decoder_text.h"
#include "tools/convert/tokenizer/base64.h"
#include "tools/convert/tokenizer/tokenizer_write.h"

namespace graft::convert {
namespace {

/// The vocabulary may have grown since: it is as long as the embedding.
void take_rows(const Model& model, DecoderSource& out) {
  const ValueId table = model.graph.find_value(cat(out.layout.names().embedding, ".weight"));
  if (table.valid() && model.graph.value(table).shape.is_constant()) {
    out.spec.vocabulary = model.graph.value(table).shape[0].value();
  }
}

struct Table {
  const char* key;
  GgufType element;
};
constexpr Table kTables[] = {{"tokenizer.ggml.tokens", GgufType::string},
                             {"tokenizer.ggml.scores", GgufType::f32},
                             {"tokenizer.ggml.token_type", GgufType::i32},
                             {"tokenizer.ggml.merges", GgufType::string}};

bool same(const GgufValue& a, const GgufValue& b) {
  return a.type == b.type && a.element == b.element && a.count == b.count && a.text == b.text &&
         std::ranges::equal(a.bytes, b.bytes);
}

/// The tokenizer's tables as a GGUF file without tensors.
Result<std::string> tables_of(const text::Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> kinds;
  for (const text::Token& token : vocabulary.tokens) {
    texts.push_back(token.text);
    scores.push_back(token.score);
    kinds.push_back(static_cast<std::int32_t>(token.kind));
  }
  GgufWriter out;
  out.add(kTables[0].key, texts);
  out.add(kTables[1].key, std::span<const float>(scores));
  out.add(kTables[2].key, std::span<const std::int32_t>(kinds));
  out.add(kTables[3].key, merge_lines(vocabulary));
  return out.bytes({});
}

bool is_table(std::string_view key) {
  return std::ranges::any_of(kTables, [&](const Table& table) { return key == table.key; });
}

/// `file` again, where tables that `tables` has alike become empty ones (`keep` false), or empty ones become whole.
void copy_keys(const GgufFile& file, const GgufFile* tables, bool keep, GgufWriter& out) {
  for (const std::string_view key : file.keys()) {
    const GgufValue& value = *file.find(key);
    const GgufValue* table = tables != nullptr && is_table(key) ? tables->find(key) : nullptr;
    const bool as_long = table != nullptr && (key == kTables[3].key || value.count == table->count);
    if (table != nullptr && keep && (value.count == 0 || !as_long)) {
      out.add(key, *table);
    } else if (table != nullptr && !keep && same(value, *table)) {
      out.add(key, GgufValue{.type = GgufType::array, .element = value.element});
    } else {
      out.add(key, value);
    }
  }
}

/// The tokenizer's tables next to a file that may lack them.
struct Tables {
  std::string bytes;
  std::optional<GgufFile> file;  ///< of these bytes; nullopt where the model has no tokenizer
};
Result<std::unique_ptr<Tables>> tables_of(const Model& model) {
  auto out = std::make_unique<Tables>();
  const auto vocabulary = vocabulary_of(model);
  if (!vocabulary) return out;
  GRAFT_TRY_ASSIGN(out->bytes, tables_of(*vocabulary));
  GRAFT_TRY_ASSIGN(out->file, GgufFile::parse(std::as_bytes(std::span(out->bytes))));
  return out;
}

struct FactorsInFile {
  const char* name;
  SourceTensor tensor;
};
/// The factors of the rotary embedding, where the file has them as f32.
std::vector<FactorsInFile> rope_factors_of(const GgufFile& file) {
  constexpr std::uint64_t kMost = 4096;
  std::vector<FactorsInFile> out;
  for (const char* name : {kRopeFactors, kLongRopeFactors, kShortRopeFactors}) {
    const auto found = std::ranges::find(file.tensors(), name, &GgufTensor::name);
    if (found == file.tensors().end() || found->type != 0 || found->dims.size() != 1) continue;
    const std::uint64_t bytes = std::min(found->dims[0], kMost) * sizeof(float);
    if (found->dims[0] > kMost || !in_bounds(found->offset, bytes, file.data().size())) continue;
    const auto count = static_cast<std::int64_t>(found->dims[0]);
    out.push_back({name, SourceTensor{{count}, DType::f32, file.data().subspan(found->offset, bytes)}});
  }
  return out;
}

Result<std::string> without_tables(const GgufFile& file, const Model& model) {
  GRAFT_TRY_ASSIGN(const auto tables, tables_of(model));
  GgufWriter out;
  copy_keys(file, tables->file ? &*tables->file : nullptr, false, out);
  std::vector<ExportTensor> tensors;
  for (const auto& [name, tensor] : rope_factors_of(file)) {
    tensors.emplace_back().name = name;
    tensors.back().source = tensor;
  }
  return out.bytes(tensors);
}

/// The tensors of the model as those of a GGUF file would be: names and shapes.
SourceTensors gguf_tensors(const Model& model, const DecoderLayout& layout) {
  SourceTensors out;
  for (const Value& value : model.graph.values()) {
    std::string name = is_source_weight(value, layout) ? layout.gguf_name(value.name) : std::string();
    if (!name.empty()) out.by_name.emplace(std::move(name), export_tensor(value, {}).source);
  }
  return out;
}

std::string_view text_of(const Metadata& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string_view() : std::string_view(found->second);
}

Status read_gguf(const Model& model, std::string_view text, DecoderSource& out) {
  GRAFT_TRY_ASSIGN(const std::string small, from_base64(text));
  GRAFT_TRY_ASSIGN(const GgufFile file, GgufFile::parse(std::as_bytes(std::span(small))));
  SourceTensors tensors = gguf_tensors(model, out.layout);
  for (const auto& [name, tensor] : rope_factors_of(file)) {
    tensors.by_name.emplace(name, tensor);
    const auto* numbers = reinterpret_cast<const float*>(tensor.bytes.data());
    out.rope_factors.push_back({name, {numbers, numbers + tensor.elements()}});
  }
  GRAFT_TRY_ASSIGN(GgufModel decoder, read_gguf_decoder(file, std::move(tensors)));
  out.spec = std::move(decoder.spec);
  GRAFT_TRY_ASSIGN(const auto tables, tables_of(model));
  GgufWriter whole;
  copy_keys(file, tables->file ? &*tables->file : nullptr, true, whole);
  GRAFT_TRY_ASSIGN(out.gguf_bytes, whole.bytes({}));
  GRAFT_TRY_ASSIGN(out.gguf, GgufFile::parse(std::as_bytes(std::span(out.gguf_bytes))));
  return {};
}

Status read_config(std::string_view text, DecoderSource& out) {
  GRAFT_TRY(check_json_depth(text));
  out.config = OrderedJson::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (out.config.is_discarded()) return corrupt("The model's \"", kMetaSourceConfig, "\" is not valid JSON.");
  GRAFT_TRY_ASSIGN(HfModel model, read_hf_config(Json(out.config)));
  out.spec = std::move(model.spec);
  return {};
}

}  // namespace

void remember_config(std::string_view config, Model& model) { set_metadata(model, kMetaSourceConfig, config); }

void remember_gguf(const GgufFile& file, Model& model) {
  const auto bytes = without_tables(file, model);
  if (bytes.ok()) model.metadata[std::string(kMetaSourceGguf)] = to_base64(*bytes);
}

void remember_layout(const DecoderSpec& spec, Model& model) {
  set_metadata(model, kMetaFamily, spec.family);
  set_metadata(model, kMetaHeads, cat(spec.heads, ",", spec.kv_heads));
  const Family& family = *find_family(spec.family);
  const bool as_gguf = family.grouped ? !spec.grouped_qkv : family.neighbours && spec.rope.interleaved;
  set_metadata(model, kMetaPairs, as_gguf ? "neighbours" : "halves");
}

bool DecoderLayout::encodes() const {
  const Family* const found = find_family(family);
  return found != nullptr && found->encodes();
}

const TensorNames& DecoderLayout::names() const {
  const Family* const found = find_family(family);
  if (found == nullptr) return kLlamaNames;
  return alone && found->encodes() ? *found->alone : *found->names;
}

std::string_view DecoderLayout::module() const {
  const std::string_view embedding = names().embedding;
  return embedding.substr(0, embedding.find('.') + 1);
}

std::string DecoderLayout::folder_name(const std::string& name) const {
  return bare && name.starts_with(module()) ? name.substr(module().size()) : name;
}

std::string DecoderLayout::gguf_name(std::string_view name) const {
  const Family* const found = find_family(family);
  if (found == nullptr) return renamed(name, names(), kGgufNames);
  if (!found->encodes()) return renamed(name, names(), found->gguf_names());
  const std::string out = renamed(name, names(), found->gguf_names());
  return out.empty() ? renamed(name, *found->alone, found->gguf_names()) : out;
}

std::int64_t DecoderLayout::paired_heads(std::string_view name) const {
  const Family* const found = find_family(family);
  if (found == nullptr || !(found->neighbours || found->grouped)) return 0;
  const auto is = [&](std::string_view module) {
    const std::size_t at = name.find(module);
    return at != std::string_view::npos && (at + module.size() == name.size() || name[at + module.size()] == '.');
  };
  if (found->grouped) return is(found->names->query_key_value) ? heads : 0;
  return is(kLlamaNames.query) ? heads : is(kLlamaNames.key) ? kv_heads : 0;
}

PairOrder DecoderLayout::row_order(bool to_gguf) const {
  if (find_family(family)->grouped) return to_gguf ? PairOrder::blocks : PairOrder::groups;
  return to_gguf ? PairOrder::neighbours : PairOrder::halves;
}

std::optional<DecoderLayout> layout_of(const Metadata& metadata) {
  DecoderLayout out;
  out.family = text_of(metadata, kMetaFamily);
  out.neighbours = text_of(metadata, kMetaPairs) == "neighbours";
  const std::string_view odd = text_of(metadata, kMetaSourceNames);
  out.alone = odd.find(kNamesAlone) != std::string_view::npos;
  out.bare = odd.find(kNamesBare) != std::string_view::npos;
  const std::string_view text = text_of(metadata, kMetaHeads);
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, out.heads);
  const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = comma ? std::from_chars(first.ptr + 1, end, out.kv_heads) : first;
  const bool read = comma && second.ec == std::errc() && second.ptr == end && out.heads > 0 && out.kv_heads > 0;
  if (out.family.empty() || !read) return std::nullopt;
  return out;
}

Result<std::unique_ptr<DecoderSource>> source_of(const Model& model) {
  auto out = std::make_unique<DecoderSource>();
  const std::string_view config = text_of(model.metadata, kMetaSourceConfig);
  const std::string_view gguf = text_of(model.metadata, kMetaSourceGguf);
  const auto layout = layout_of(model.metadata);
  if (!layout || (config.empty() && gguf.empty())) {
    return error(Code::not_found,
                 "The model does not remember a Hugging Face folder or a GGUF file that it came from.");
  }
  out->layout = *layout;
  if (!gguf.empty()) {
    GRAFT_TRY(read_gguf(model, gguf, *out).with_context(cat("In the model's \"", kMetaSourceGguf, "\"")));
  } else {
    GRAFT_TRY(read_config(config, *out).with_context(cat("In the model's \"", kMetaSourceConfig, "\"")));
    // A file without a matrix for the head ties it to the embedding, whatever its configuration says.
    out->spec.tied = !model.graph.find_value(cat(out->layout.names().head, ".weight")).valid();
    out->rope_factors = gguf_rope_factors(out->spec);
  }
  take_rows(model, *out);
  return out;
}

std::optional<text::Vocabulary> vocabulary_of(const Model& model) {
  const auto tokenizer = tokenizer_of(model);  // which checks ids and merges
  if (!tokenizer.ok()) return std::nullopt;
  return tokenizer->vocabulary();
}

bool is_source_weight(const Value& value, const DecoderLayout& layout) {
  const bool kept = value.kind == ValueKind::parameter || value.kind == ValueKind::constant;
  return kept && !renamed(value.name, layout.names(), layout.names()).empty();
}

}  // namespace graft::convert
