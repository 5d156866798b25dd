#include "tools/convert/language_model/convert_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "runtime/core/op_def.h"
#include "runtime/language/text_inputs.h"
#include "runtime/run_state/data_hints.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/decoder/decoder_graph.h"
#include "tools/convert/decoder/families.h"
#include "tools/convert/gguf/gguf_decoder.h"
#include "tools/convert/huggingface/hf_config.h"
#include "tools/convert/huggingface/safetensors.h"
#include "tools/convert/language_model/decoder_source.h"
#include "tools/convert/language_model/decoder_text.h"
#include "tools/convert/language_model/sentence_modules.h"

namespace graft::convert {
namespace {

constexpr std::uint64_t kLargestConfig = std::uint64_t{16} << 20;

/// The name without its folder, also of "a/b/".
std::string file_name(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

/// Buffers that a model computes anew, which old files carry all the same.
bool is_buffer(const std::string& name) {
  const auto ends = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq", ".position_ids"};
  return std::any_of(ends.begin(), ends.end(), [&](const char* end) { return name.ends_with(end); });
}

void list(std::vector<std::string> names, const char* what, std::vector<std::string>& notes) {
  if (names.empty()) return;
  std::sort(names.begin(), names.end());
  std::string some;
  for (std::size_t i = 0; i < names.size() && i < 4; ++i) some += (i == 0 ? "" : ", ") + names[i];
  notes.push_back(cat(names.size(), " tensors ", what, ": ", some, names.size() > 4 ? ", ..." : "", "."));
}

void fill_report(const Model& model, Report& report) {
  for (const Node& node : model.graph.nodes()) {
    const OpDef& def = op_def(node.op);
    const auto* reason = std::get_if<NoGrad>(&def.gradient);
    report.entries.push_back({node.name,
                              std::string(def.name),
                              Report::Fate::converted,
                              {},
                              reason == nullptr,
                              reason != nullptr ? std::string(reason->reason) : std::string(),
                              {}});
  }
  for (const ValueId id : model.graph.of_kind(ValueKind::parameter)) {
    ++report.parameters;
    report.parameter_elements += model.graph.value(id).shape.elements();
  }
}

void note_ignored(const IgnoredFields& ignored, Report& report) {
  for (const std::string& name : ignored) report.notes.push_back(cat("The field \"", name, "\" is ignored, as asked."));
}

struct Source {
  std::string name;    ///< the file's or folder's
  std::string format;  ///< "safetensors", "gguf 3"
  DecoderSpec spec;
  const TensorNames* names = nullptr;      ///< in the source
  const TensorNames* own_names = nullptr;  ///< in the model
  SourceTensors tensors;
  std::vector<std::string> skipped;  ///< tensors of types that graft does not read
  std::string odd_names;             ///< what kMetaSourceNames shall say
};

/// `add_text(spec, model, report)`, whose status counts, adds what belongs to the model besides its weights.
template <typename AddText>
Result<ConvertedDecoder> convert(Source source, const WeightOptions& options, AddText add_text) {
  ConvertedDecoder out;
  DecoderSpec& spec = source.spec;
  const bool no_head = !options.shapes_only && source.tensors.find(cat(source.names->head, ".weight")) == nullptr;
  if (!spec.tied && no_head) {
    spec.tied = true;
    spec.notes.push_back("There is no matrix for the head: the embedding's serves, as in models that tie the two.");
  }
  // Where two tensors are one, a file may hold it under either name.
  auto& by_name = source.tensors.by_name;
  const std::string embedding = cat(source.names->embedding, ".weight");
  if (const auto head = by_name.find(cat(source.names->head, ".weight"));
      spec.tied && head != by_name.end() && !by_name.contains(embedding)) {
    auto node = by_name.extract(head);
    node.key() = embedding;
    by_name.insert(std::move(node));
    source.odd_names += kNamesHead;
  }
  if (options.importance != nullptr && (spec.encoder || spec.transposed_weights)) {
    return unsupported(
        "Blocks of ", source.name, " cannot be weighed by an importance matrix: ",
        spec.encoder ? "it is an encoder." : "its matrices are [in, out], so that blocks lie across them.");
  }
  DecoderWeights weights(source.tensors, *source.names, *source.own_names, out.model, options);
  Status built = build_decoder(spec, weights, out.model.graph);
  if (!built.ok()) {
    const std::string hint =
        source.skipped.empty() ? "" : cat(" (the file's ", source.skipped.front(), " is of a type that is not read)");
    return std::move(built).with_context(cat(source.name, " cannot be converted", hint));
  }
  Report& report = out.report;
  report.source = cat(source.name, " (", source.format, ", ", spec.family, ")");
  report.notes = spec.notes;
  for (std::string& note : weights.notes()) report.notes.push_back(std::move(note));
  report.blocks = weights.blocks();
  std::vector<std::string> unused = weights.unused();
  std::erase_if(unused, is_buffer);
  if (spec.tied) std::erase(unused, cat(source.names->head, ".weight"));
  if (spec.encoder) std::erase(unused, cat(source.names->head, ".bias"));  // the same as masked_bias
  list(std::move(unused), "of the file are no part of the model", report.notes);
  list(std::move(source.skipped), "are of types that are not read", report.notes);
  fill_report(out.model, report);
  GRAFT_TRY(add_text(spec, out.model, report));
  set_metadata(out.model, kMetaSourceFormat, cat(source.format, ", ", spec.family));
  set_metadata(out.model, kMetaSourceFile, source.name);
  set_metadata(out.model, kMetaTrainability, report.text());
  if (spec.encoder && !spec.encoder->class_names.empty()) keep_classes(&spec.encoder->class_names, out.model);
  remember_layout(spec, out.model);
  if (source.names == source.own_names || spec.encoder) set_metadata(out.model, kMetaSourceNames, source.odd_names);
  out.files = std::move(source.tensors.files);
  return out;
}

/// Renames what some programs wrote with another prefix; true where a decoder's names had none, as folders of the base
/// class have them.
bool normalize_names(const TensorNames& names, SourceTensors& tensors) {
  std::map<std::string, SourceTensor, std::less<>> out;
  for (auto& [name, tensor] : tensors.by_name) {
    std::string plain = name;
    if (plain.starts_with("language_model.")) plain = plain.substr(15);
    if (plain.starts_with("model.language_model.")) plain = "model." + plain.substr(21);
    out.emplace(std::move(plain), std::move(tensor));
  }
  tensors.by_name = std::move(out);
  const std::size_t module = names.embedding.find('.') + 1;
  const bool bare = tensors.find(cat(names.embedding.substr(module), ".weight")) != nullptr;
  if (!bare || tensors.find(cat(names.embedding, ".weight")) != nullptr) return false;
  out.clear();
  for (auto& [name, tensor] : tensors.by_name) {
    const bool head = name.starts_with(names.head) && name[names.head.size()] == '.';
    out.emplace(head ? name : cat(names.embedding.substr(0, module), name), std::move(tensor));
  }
  tensors.by_name = std::move(out);
  return true;
}

/// Old files call the weights of norms "gamma" and "beta".
bool rename_gamma(SourceTensors& tensors) {
  bool found = false;
  std::map<std::string, SourceTensor, std::less<>> out;
  for (auto& [name, tensor] : tensors.by_name) {
    std::string plain = name;
    for (const auto& [old, now] : kNamesOfNorms) {
      if (!name.ends_with(old)) continue;
      plain.replace(name.size() - old.size(), old.size(), now);
      found = true;
    }
    out.emplace(std::move(plain), std::move(tensor));
  }
  tensors.by_name = std::move(out);
  return found;
}

/// An encoder's folder without a head has names without the module that the encoder is in others.
void choose_names(const Family& family, Source& source) {
  if (rename_gamma(source.tensors)) source.odd_names += kNamesGamma;
  const auto has = [&](const TensorNames& names) {
    return source.tensors.find(cat(names.embedding, ".weight")) != nullptr;
  };
  if (has(*family.names) || !has(*family.alone)) return;
  source.names = source.own_names = family.alone;
  source.odd_names += kNamesAlone;
}

}  // namespace

namespace {

struct Config {  // NOLINT(bugprone-exception-escape): the JSON library does not say what it never throws
  std::string text;
  Json json;
  HfModel model;
};

Result<Config> read_config(os::FileSystem& files, const std::string& path, const IgnoredFields& ignored,
                           std::vector<std::string>& found) {
  Config config;
  GRAFT_TRY_ASSIGN(config.text, os::read_text_file(files, path, kLargestConfig));
  GRAFT_TRY_ASSIGN(config.json, parse_json(config.text).with_context(path));
  if (!ignored.empty()) {  // the model does not have them, and remembers a file without
    clear_fields(config.json, ignored, found);
    OrderedJson ordered = OrderedJson::parse(config.text, nullptr, /*allow_exceptions=*/false);
    clear_fields(ordered, ignored, found);
    config.text = ordered.dump(2, ' ', false, OrderedJson::error_handler_t::replace);
  }
  GRAFT_TRY_ASSIGN(config.model, read_hf_config(config.json).with_context(path));
  return config;
}

}  // namespace

Result<ConvertedDecoder> shapes_of_config(os::FileSystem& files, const std::string& path, WeightOptions options,
                                          const IgnoredFields& ignored) {
  std::vector<std::string> found;
  GRAFT_TRY_ASSIGN(Config config, read_config(files, path, ignored, found));
  GRAFT_TRY(check_found(ignored, found));
  const HfModel& model = config.model;
  options.shapes_only = true;
  return convert({file_name(path), "config.json", model.spec, model.names, model.names, {}, {}, {}}, options,
                 [](const DecoderSpec&, Model&, Report&) { return ok_status(); });
}

Result<ConvertedDecoder> convert_folder(os::FileSystem& files, const std::string& folder,
                                        const WeightOptions& options, const IgnoredFields& ignored) {
  std::vector<std::string> found;
  GRAFT_TRY_ASSIGN(Config read, read_config(files, folder + "/config.json", ignored, found));
  HfModel& config = read.model;
  Source source = {file_name(folder), "safetensors", std::move(config.spec), config.names, config.names, {}, {}, {}};
  GRAFT_TRY_ASSIGN(source.tensors, open_safetensors(files, folder, source.skipped));
  if (source.spec.encoder) {
    choose_names(*find_family(source.spec.family), source);
  } else if (normalize_names(*source.names, source.tensors)) {
    source.odd_names += kNamesBare;
  }
  const FolderText text = read_folder_text(files, folder, std::move(read.json), ignored, found);
  GRAFT_TRY(check_found(ignored, found));
  return convert(std::move(source), options, [&](const DecoderSpec& spec, Model& out, Report& report) -> Status {
    note_ignored(ignored, report);
    GRAFT_TRY(add_folder_text(files, folder, text, spec, out, report).with_context(folder));
    add_sentence_modules(files, folder, out, report);
    remember_config(read.text, out);
    return {};
  });
}

namespace {

/// How vectors of texts are pooled, where the file says so in a way that graft has.
void add_gguf_pooling(const GgufFile& file, Model& model) {
  const auto architecture = file.text("general.architecture");
  if (!architecture.ok()) return;
  const auto type = file.integer(cat(*architecture, ".pooling_type"));
  if (!type.ok() || *type < 1 || *type > 3) return;
  remember_pooling(*type == 1 ? Pooling::mean : *type == 2 ? Pooling::cls : Pooling::last, false, model.metadata);
}

}  // namespace

Result<ConvertedDecoder> convert_gguf(std::span<const std::byte> bytes, const std::string& name,
                                      const WeightOptions& options, const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(GgufFile file, GgufFile::parse(bytes).with_context(name));
  std::vector<std::string> found;
  for (const std::string& key : ignored) {
    if (file.erase(key)) found.push_back(key);
  }
  GRAFT_TRY(check_found(ignored, found));
  GRAFT_TRY_ASSIGN(GgufModel model, read_gguf_decoder(file).with_context(name));
  const TensorNames& names = find_family(model.spec.family)->gguf_names();
  Source source = {
      name, "gguf", std::move(model.spec), &names, model.own_names, std::move(model.tensors), std::move(model.skipped),
      {}};
  if (source.spec.encoder) source.odd_names += kNamesAlone;
  return convert(std::move(source), options, [&](const DecoderSpec& spec, Model& out, Report& report) {
    note_ignored(ignored, report);
    add_gguf_text(file, spec, out, report);
    add_gguf_pooling(file, out);
    remember_gguf(file, out);
    return ok_status();
  });
}

Result<ConvertedDecoder> convert_gguf(os::FileSystem& files, const std::string& path, const WeightOptions& options,
                                      const IgnoredFields& ignored) {
  GRAFT_TRY_ASSIGN(auto mapped, files.map(path));
  GRAFT_TRY_ASSIGN(ConvertedDecoder out, convert_gguf(mapped->bytes(), file_name(path), options, ignored));
  out.files.push_back(std::move(mapped));
  return out;
}

bool is_gguf(os::FileSystem& files, const std::string& path) {
  const auto file = files.open(path, os::OpenMode::read);
  std::array<std::byte, 4> magic{};
  return file.ok() && (*file)->read_at(0, magic).ok() && std::memcmp(magic.data(), "GGUF", magic.size()) == 0;
}

}  // namespace graft::convert
