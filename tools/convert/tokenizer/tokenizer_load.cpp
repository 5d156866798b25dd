#include "tools/convert/tokenizer/tokenizer_load.h"

#include "tools/convert/common/json_access.h"
#include "tools/convert/tokenizer/tokenizer_config.h"

namespace graft::convert {
namespace {

using text::Vocabulary;

constexpr std::uint64_t kLargestFile = std::uint64_t{256} << 20;

Result<Vocabulary> load_file(os::FileSystem& files, const std::string& path) {
  if (path.ends_with(".gguf")) {
    GRAFT_TRY_ASSIGN(const auto mapped, files.map(path));
    GRAFT_TRY_ASSIGN(const GgufFile file, GgufFile::parse(mapped->bytes()));
    return load_gguf_vocabulary(file);
  }
  const bool json = path.ends_with(".json");
  if (!json && !path.ends_with(".model")) {
    return unsupported("A tokenizer's file name ends in .gguf, .json or .model.");
  }
  GRAFT_TRY_ASSIGN(const std::string contents, os::read_text_file(files, path, kLargestFile));
  if (json) return load_tokenizer_json(contents);
  return load_sentencepiece(std::as_bytes(std::span(contents)));
}

Result<Vocabulary> load_folder(os::FileSystem& files, const std::string& folder) {
  Json config;
  if (const std::string path = folder + "/tokenizer_config.json"; os::exists(files, path)) {
    GRAFT_TRY_ASSIGN(const std::string contents, os::read_text_file(files, path, kLargestFile));
    GRAFT_TRY_ASSIGN(config, parse_json(contents).with_context(path));
    GRAFT_TRY(check_tokenizer_config(config).with_context(path));
  }
  bool by_config = false;
  return load_folder_vocabulary(files, folder, config, by_config);
}

}  // namespace

Result<Vocabulary> load_folder_vocabulary(os::FileSystem& files, const std::string& folder, const Json& config,
                                          bool& by_config) {
  Vocabulary out;
  const std::string json = folder + "/tokenizer.json", model = folder + "/tokenizer.model";
  const bool has_json = os::exists(files, json);
  if (has_json) {
    GRAFT_TRY_ASSIGN(const std::string contents, os::read_text_file(files, json, kLargestFile));
    GRAFT_TRY_ASSIGN(Json document, parse_json(contents).with_context("While reading tokenizer.json"));
    apply_tokenizer_config(config, document);
    GRAFT_TRY_ASSIGN(out, load_tokenizer_document(document).with_context(json));
  } else if (os::exists(files, model)) {
    GRAFT_TRY_ASSIGN(out, load_file(files, model));
  } else {
    return error(Code::not_found, "There is neither a tokenizer.json nor a tokenizer.model.");
  }
  const TokenizerSource source = has_json ? TokenizerSource::json : TokenizerSource::sentencepiece;
  Status applied = apply_tokenizer_config(config, source, out);
  by_config = !applied.ok();
  GRAFT_TRY(std::move(applied).with_context("tokenizer_config.json"));
  return out;
}

Result<Vocabulary> load_vocabulary(os::FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(const os::FileInfo info, files.info(path));
  if (info.type == os::EntryType::directory) return load_folder(files, path).with_context(path);
  return load_file(files, path).with_context(path);
}

}  // namespace graft::convert
