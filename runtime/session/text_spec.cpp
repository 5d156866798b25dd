#include "runtime/session/text_spec.h"

#include <algorithm>
#include <cmath>

#include "platform/base/json.h"
#include "runtime/session/text_data.h"
#include "runtime/session/text_model.h"
#include "runtime/text/chat.h"
#include "runtime/text/template/value.h"
#include "runtime/text/tokenizer.h"

namespace graft {
namespace {

using JsonRecord = json::Value;

constexpr std::uint64_t kLargestFile = (std::uint64_t{1} << 30) - 1;  // what a tokenizer takes at once
constexpr std::int64_t kDefaultLength = 128;
constexpr std::string_view kOptions[] = {"tokenizer", "chat", "pack", "learn", "skip", "count"};

/// A value as JSON again, for the chat template.
std::string json_of(const JsonRecord& value) {
  std::string out;
  switch (value.kind()) {
    case JsonRecord::Kind::null: return "null";
    case JsonRecord::Kind::boolean: return value.truth() ? "true" : "false";
    case JsonRecord::Kind::string: return json::quoted(value.text());
    case JsonRecord::Kind::number: {
      const bool is_whole = std::fabs(value.number()) < 1e15 && value.number() == std::floor(value.number());
      return is_whole ? std::to_string(static_cast<std::int64_t>(value.number()))
                      : text::jinja::number_text(value.number());
    }
    case JsonRecord::Kind::array:
      for (const JsonRecord& item : value.items()) out += (out.empty() ? "" : ",") + json_of(item);
      return "[" + out + "]";
    case JsonRecord::Kind::object:
      for (const auto& [name, item] : value.members()) {
        out += (out.empty() ? "" : ",") + json::quoted(name) + ":" + json_of(item);
      }
      return "{" + out + "}";
  }
  return out;
}

class TextReader {
 public:
  TextReader(const data::Spec& spec, const Model& model, os::FileSystem& files, text::Tokenizer tokenizer)
      : spec_(spec), model_(model), files_(files), tokenizer_(std::move(tokenizer)) {}

  Result<std::vector<TokenText>> read() {
    GRAFT_TRY(check_options());
    GRAFT_TRY_ASSIGN(const auto file, files_.map(spec_.arguments[0]));
    const auto bytes = file->bytes();
    if (bytes.size() > kLargestFile) {
      return unsupported("The file \"", spec_.arguments[0], "\" has ", bytes.size(), " bytes; ", kLargestFile,
                         " can be read as text.");
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (spec_.kind == "text") {
      GRAFT_TRY(add_text(text));
      split_at_ends();
    } else {
      GRAFT_TRY(add_json(text));
    }
    return std::move(texts_);
  }

  text::TokenId padding() const {
    const text::Vocabulary& words = tokenizer_.vocabulary();
    return words.pad >= 0 ? words.pad : std::max(words.eos, 0);
  }

 private:
  Status check_options() const {
    for (const auto& [name, value] : spec_.options) {
      if (std::ranges::find(kOptions, name) != std::end(kOptions)) continue;
      return invalid("\"", spec_.kind, ":\" data sets have no option \"", name,
                     "\"; they have tokenizer, chat, pack, learn, skip and count.");
    }
    if (const std::string learn = option("learn"); !learn.empty() && learn != "all")
      return invalid("Option learn=", learn, " of a data set must be all.");
    return {};
  }

  std::string option(std::string_view name) const {
    const auto found = spec_.options.find(name);
    return found == spec_.options.end() ? std::string() : found->second;
  }

  Status add_text(std::string_view text) {
    TokenText out;
    GRAFT_TRY_ASSIGN(const auto tokens, tokenizer_.encode(text));
    out.add(tokens, true);
    texts_.push_back(std::move(out));
    return {};
  }

  /// A file of plain text may hold many, each with the token that ends it.
  void split_at_ends() {
    const TokenText all = std::move(texts_.back());
    texts_.back() = {};
    for (const text::TokenId token : all.tokens) {
      texts_.back().add({token}, true);
      if (token == tokenizer_.vocabulary().eos) texts_.emplace_back();
    }
    std::erase_if(texts_, [](const TokenText& text) { return text.tokens.empty(); });
  }

  /// One array, or an object a line.
  Status add_json(std::string_view text) {
    const std::size_t start = text.find_first_not_of(" \t\r\n");
    if (start != std::string_view::npos && text[start] == '[') {
      const auto all = json::parse(text);
      if (!all.ok()) return invalid("The file is neither an array of JSON objects nor one object a line.");
      for (std::size_t i = 0; i < all->items().size(); ++i) {
        GRAFT_TRY(add_record(all->items()[i]).with_context(cat("In record ", i)));
      }
      return {};
    }
    std::uint64_t line = 0;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view one = text.substr(begin, end - begin);
      begin = end + 1;
      ++line;
      if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const auto record = json::parse(one);
      GRAFT_TRY((record.ok() ? add_record(*record) : no_object()).with_context(cat("In line ", line)));
    }
    return {};
  }

  static Status no_object() { return invalid("It is no JSON object."); }

  static Result<std::string> text_of(const JsonRecord& record, const char* key) {
    const JsonRecord* found = record.find(key);
    if (found != nullptr && found->is_string()) return found->text();
    return invalid("The record's \"", key, "\" is missing or no text.");
  }

  Status add_record(const JsonRecord& record) {
    if (!record.is_object()) return no_object();
    if (record.find("messages") != nullptr) return add_messages(record);
    if (record.find("instruction") != nullptr) return add_instruction(record);
    if (record.find("prompt") != nullptr) return add_completion(record);
    GRAFT_TRY_ASSIGN(const std::string text, text_of(record, "text"));
    GRAFT_TRY(add_text(text));
    end_of_text(texts_.back());
    return {};
  }

  Status add_completion(const JsonRecord& record) {
    GRAFT_TRY_ASSIGN(const std::string prompt, text_of(record, "prompt"));
    GRAFT_TRY_ASSIGN(const std::string completion,
                     text_of(record, record.find("response") != nullptr ? "response" : "completion"));
    TokenText out;
    GRAFT_TRY_ASSIGN(const auto before, tokenizer_.encode(prompt));
    GRAFT_TRY_ASSIGN(const auto after, tokenizer_.encode(completion, {.add_special = false}));
    out.add(before, learn_all());
    out.add(after, true);
    end_of_text(out);
    texts_.push_back(std::move(out));
    return {};
  }

  Status add_instruction(const JsonRecord& record) {
    GRAFT_TRY_ASSIGN(std::string ask, text_of(record, "instruction"));
    GRAFT_TRY_ASSIGN(const std::string answer,
                     text_of(record, record.find("response") != nullptr ? "response" : "output"));
    if (record.find("input") != nullptr) {
      GRAFT_TRY_ASSIGN(const std::string input, text_of(record, "input"));
      if (!input.empty()) ask += "\n\n### Input:\n" + input;
    }
    const text::ChatMessage turns[] = {{"user", std::move(ask)}, {"assistant", answer}};
    return add_chat({.messages = text::json_of(turns), .ask = false});
  }

  Status add_messages(const JsonRecord& record) {
    const JsonRecord& messages = *record.find("messages");
    if (!messages.is_array()) return invalid("The record's \"messages\" is no array.");
    text::ChatRequest request = {.messages = json_of(messages), .ask = false};
    if (const JsonRecord* tools = record.find("tools"); tools != nullptr && tools->kind() != JsonRecord::Kind::null) {
      request.tools = tools->is_string() ? tools->text() : json_of(*tools);
    }
    return add_chat(request);
  }

  Status add_chat(const text::ChatRequest& request) {
    std::string format = option("chat");
    const bool says_how = model_.metadata.contains(kMetaChatTemplate) || model_.metadata.contains(kMetaChatFormat);
    if (format.empty() && !says_how) format = "alpaca";
    GRAFT_TRY_ASSIGN(const auto parts, render_chat(model_.metadata, tokenizer_, format, request));
    TokenText out;
    // A template writes the token that begins a text itself.
    if (!format.empty() || !model_.metadata.contains(kMetaChatTemplate)) out.add(tokenizer_.vocabulary().before, false);
    // Runs of parts that are learned, or are not, are encoded as one text each.
    for (std::size_t begin = 0; begin < parts.size();) {
      std::size_t end = begin + 1;
      while (end < parts.size() && parts[end].reply == parts[begin].reply) ++end;
      GRAFT_TRY_ASSIGN(const auto tokens,
                       text::encode_chat(tokenizer_, std::span(parts).subspan(begin, end - begin), begin > 0));
      out.add(tokens, parts[begin].reply || learn_all());
      begin = end;
    }
    texts_.push_back(std::move(out));
    return {};
  }

  bool learn_all() const { return option("learn") == "all"; }

  void end_of_text(TokenText& text) const {
    const text::TokenId eos = tokenizer_.vocabulary().eos;
    if (eos >= 0 && (text.tokens.empty() || text.tokens.back() != eos)) text.add({eos}, true);
  }

  const data::Spec& spec_;
  const Model& model_;
  os::FileSystem& files_;
  text::Tokenizer tokenizer_;
  std::vector<TokenText> texts_;
};

Result<text::Tokenizer> tokenizer_for(const data::Spec& spec, const Model& model, const LoadVocabulary& load) {
  if (const auto path = spec.options.find("tokenizer"); path != spec.options.end()) {
    if (!load) return unsupported("A tokenizer of other formats is read by graft convert alone; give the model one.");
    GRAFT_TRY_ASSIGN(text::Vocabulary words, load(path->second));
    return text::Tokenizer::make(std::move(words));
  }
  return tokenizer_of(model);
}

Result<std::unique_ptr<data::Source>> open_text(const data::Spec& spec, const Model& model, const TextOptions& options,
                                                os::FileSystem& files) {
  if (spec.arguments.size() != 1) return invalid("A data set of this kind is written ", spec.kind, ":FILE.");
  GRAFT_TRY_ASSIGN(text::Tokenizer tokenizer, tokenizer_for(spec, model, options.load));
  TextReader reader(spec, model, files, std::move(tokenizer));
  GRAFT_TRY_ASSIGN(const auto texts, reader.read());
  const auto given = spec.options.find("pack");
  const std::string pack = given != spec.options.end() ? given->second : spec.kind == "text" ? "yes" : "no";
  if (pack != "yes" && pack != "no" && pack != "mixed")
    return invalid("Option pack=", pack, " must be yes, no or mixed.");
  const TextWindows windows{.length = options.length == 0 ? kDefaultLength : options.length,
                            .packed = pack != "no",
                            .padding = reader.padding(),
                            .sequence_starts = options.sequence_starts || (pack == "yes" && texts.size() > 1)};
  GRAFT_TRY_ASSIGN(auto source, text_source(texts, windows));
  return data::part_of(std::move(source), spec);
}

}  // namespace

Result<std::unique_ptr<data::Source>> open_text_spec(std::string_view text, const Model& model,
                                                     const TextOptions& options, os::FileSystem& files) {
  GRAFT_TRY_ASSIGN(const data::Spec spec, data::parse_spec(text));
  return open_text(spec, model, options, files).with_context(cat("While opening data set \"", text, "\""));
}

}  // namespace graft
