// graft tokenize: text as the tokens of a model, and back.
#include <charconv>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "graft/language.h"
#include "tools/common/files.h"
#include "tools/common/numbers.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TokenizeArguments {
  std::string path;
  std::string text;
  std::string file;
  bool given = false;  ///< `text` was, perhaps empty
  bool ids = false;
  bool count = false;
  bool decode = false;
  bool bare = false;
  bool parse_special = false;
  bool spell_special = false;
  bool json = false;
};

/// The model's tokenizer, without a device.
class OpenTokenizer {
 public:
  Status open(const std::string& path) {
    graft_context_options options = {};
    options.struct_size = sizeof options;
    options.device = "none";
    graft_context* context = nullptr;
    const graft_status made = graft_context_create(&options, &context);
    context_.reset(context);
    TRY(checked(made));
    graft_model* model = nullptr;
    const graft_status loaded = graft_model_load(context, path.c_str(), &model);
    const Owned<graft_model> owned(model);
    TRY(checked(loaded));
    graft_tokenizer* tokenizer = nullptr;
    const graft_status opened = graft_tokenizer_create(model, &tokenizer);
    tokenizer_.reset(tokenizer);
    return checked(opened);
  }

  Result<std::vector<std::int32_t>> encode(const std::string& text, const TokenizeArguments& given) {
    graft_encode_options options = {};
    options.struct_size = sizeof options;
    options.bare = given.bare ? 1 : 0;
    options.parse_special = given.parse_special ? 1 : 0;
    const std::int32_t* ids = nullptr;
    std::size_t count = 0;
    TRY(checked(graft_tokenizer_encode(tokenizer_.get(), text.data(), text.size(), &options, &ids, &count)));
    return std::vector<std::int32_t>(ids, ids + count);
  }

  Result<std::string> decode(const std::vector<std::int32_t>& ids, bool spell_special, bool continued) {
    graft_decode_options options = {};
    options.struct_size = sizeof options;
    options.spell_special = spell_special ? 1 : 0;
    options.continued = continued ? 1 : 0;
    const char* text = nullptr;
    std::size_t bytes = 0;
    TRY(checked(graft_tokenizer_decode(tokenizer_.get(), ids.data(), ids.size(), &options, &text, &bytes)));
    return std::string(text, bytes);
  }

 private:
  Status checked(graft_status status) const {
    if (status == GRAFT_OK) return {};
    return error(Code::invalid_argument, graft_message(context_.get()));
  }

  Owned<graft_context> context_;  // before what is made with it
  Owned<graft_tokenizer> tokenizer_;
};

/// The text to work on: the argument, --file, or all of standard input.
Result<std::string> input_text(const TokenizeArguments& options) {
  if (options.given) return options.text;
  if (!options.file.empty()) return text_of_file(options.file, SIZE_MAX);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

/// "1, 2 3": ids with commas, spaces or lines between; brackets around them, as JSON has them, are passed over.
Result<std::vector<std::int32_t>> parse_ids(const std::string& text) {
  constexpr const char* kBetween = ", \t\r\n[]";
  std::vector<std::int32_t> out;
  for (std::size_t at = text.find_first_not_of(kBetween); at < text.size(); at = text.find_first_not_of(kBetween, at)) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string item = text.substr(at, end - at);
    std::int32_t id = 0;
    const auto [last, failure] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (failure != std::errc() || last != item.data() + item.size()) return invalid("\"", item, "\" is no token id.");
    out.push_back(id);
    at = end;
  }
  return out;
}

std::string json_text(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Status print_decoded(OpenTokenizer& tokenizer, const TokenizeArguments& options, const std::string& given) {
  TRY_ASSIGN(const auto ids, parse_ids(given));
  TRY_ASSIGN(const std::string text, tokenizer.decode(ids, options.spell_special, false));
  if (options.json) {
    to_stdout("%s\n", json_text({{"text", text}, {"count", ids.size()}}, 2).c_str());
  } else {
    static_cast<void>(write_stdout(text));
    to_stdout("\n");
  }
  return {};
}

Status print_encoded(OpenTokenizer& tokenizer, const TokenizeArguments& options, const std::string& given) {
  TRY_ASSIGN(const auto ids, tokenizer.encode(given, options));
  if (options.count && !options.json) {
    to_stdout("%zu\n", ids.size());
    return {};
  }
  if (options.ids && !options.json) {
    std::string line;
    for (const std::int32_t id : ids) line += (line.empty() ? "" : " ") + std::to_string(id);
    to_stdout("%s\n", line.c_str());
    return {};
  }
  std::vector<std::string> pieces;
  if (!options.count && !options.ids) {
    for (const std::int32_t id : ids) {
      TRY_ASSIGN(std::string piece, tokenizer.decode({id}, true, true));
      pieces.push_back(std::move(piece));
    }
  }
  if (options.json) {
    Json all = {{"count", ids.size()}};
    if (!options.count) all["ids"] = ids;
    if (!options.count && !options.ids) all["tokens"] = pieces;
    to_stdout("%s\n", json_text(all, 2).c_str());
    return {};
  }
  for (std::size_t i = 0; i < ids.size(); ++i) to_stdout("%8d  %s\n", ids[i], json_text(pieces[i], -1).c_str());
  return {};
}

Status run_tokenize(const TokenizeArguments& options) {
  OpenTokenizer tokenizer;
  TRY(tokenizer.open(options.path));
  TRY_ASSIGN(const std::string given, input_text(options));
  return options.decode ? print_decoded(tokenizer, options, given) : print_encoded(tokenizer, options, given);
}

}  // namespace

Action add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeArguments>();
  app.add_option("MODEL", options->path, "A .graft file of a language model")->required();
  auto* source = app.add_option_group("Text");
  auto* text = source->add_option("TEXT", options->text, "What to work on; without it and --file, standard input");
  source->add_option("--file", options->file, "A file with the text, or with the ids to decode");
  source->require_option(0, 1);
  auto* form = app.add_option_group("Form");
  form->add_flag("--ids", options->ids, "The ids alone, on one line");
  form->add_flag("--count", options->count, "How many tokens there are, alone");
  form->add_flag("--decode", options->decode, "The other way: ids, with spaces, commas or lines between, become text");
  form->require_option(0, 1);
  app.add_flag("--bare", options->bare, "Without the tokens that the model puts before and after a text");
  app.add_flag("--parse-special", options->parse_special,
               "Special tokens that are spelled out become these; without it they are text like any other");
  app.add_flag("--spell-special", options->spell_special,
               "--decode spells special tokens out; without it they leave nothing");
  app.add_flag("--json", options->json, "Print an object: count, ids and tokens, or the text");
  app.callback([&app, options, text] {
    options->given = text->count() > 0;
    refuse_idle(app, options->decode, {"--bare", "--parse-special"}, "with --decode.");
    refuse_idle(app, !options->decode, {"--spell-special"}, "without --decode.");
  });
  return [options] { return run_tokenize(*options); };
}

}  // namespace graft::cli
