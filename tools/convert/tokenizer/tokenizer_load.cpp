#include "tools/convert/tokenizer/tokenizer_load.h"

#include "tools/convert/common/json_access.h"

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

/// The tokens that tokenizer_config.json names: a string, or an object with its content.
Status read_config(os::FileSystem& files, const std::string& path, Vocabulary& out) {
  GRAFT_TRY_ASSIGN(const std::string contents, os::read_text_file(files, path, kLargestFile));
  GRAFT_TRY_ASSIGN(const Json config, parse_json(contents));
  const std::pair<const char*, text::TokenId*> named[] = {
      {"bos_token", &out.bos}, {"eos_token", &out.eos}, {"pad_token", &out.pad}, {"mask_token", &out.mask}};
  for (const auto& [name, id] : named) {
    const Json* value = member(config, name);
    if (value == nullptr) continue;
    const std::string_view spelled =
        value->is_object() ? string_member(*value, "content") : string_member(config, name);
    for (std::size_t i = 0; i < out.tokens.size() && !spelled.empty(); ++i) {
      if (out.tokens[i].text == spelled) *id = static_cast<text::TokenId>(i);
    }
  }
  return {};
}

Result<Vocabulary> load_folder(os::FileSystem& files, const std::string& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
    const std::string path = folder + "/" + name;
    if (!os::exists(files, path)) continue;
    GRAFT_TRY_ASSIGN(Vocabulary out, load_file(files, path));
    const std::string config = folder + "/tokenizer_config.json";
    if (os::exists(files, config)) GRAFT_TRY(read_config(files, config, out).with_context(config));
    return out;
  }
  return error(Code::not_found, "There is neither a tokenizer.json nor a tokenizer.model.");
}

}  // namespace

Result<Vocabulary> load_vocabulary(os::FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(const os::FileInfo info, files.info(path));
  if (info.type == os::EntryType::directory) return load_folder(files, path).with_context(path);
  return load_file(files, path).with_context(path);
}

}  // namespace graft::convert
