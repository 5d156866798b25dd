#include "runtime/language/text_model.h"

#include <algorithm>
#include <charconv>

#include "runtime/language/text_forms.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"

namespace graft {
namespace {

/// The numbers of "2,7"; what is no number is passed over.
std::vector<std::uint32_t> numbers_of(const Metadata& metadata, std::string_view key) {
  std::vector<std::uint32_t> out;
  const auto found = metadata.find(key);
  if (found == metadata.end()) return out;
  const std::string& list = found->second;
  for (std::size_t at = 0; at < list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::uint32_t number = 0;
    const auto [stop, failure] = std::from_chars(list.data() + at, list.data() + end, number);
    if (failure == std::errc() && stop == list.data() + end) out.push_back(number);
    at = end + 1;
  }
  return out;
}

constexpr std::string_view kProbe = "probe5f1c";

/// What a template prints of these messages; empty where it refuses them.
std::string probed(const text::jinja::Template& program, const text::Tokenizer& tokenizer, std::string messages) {
  const auto parts = text::render_chat(program, tokenizer, {.messages = std::move(messages), .ask = true});
  std::string out;
  if (!parts.ok()) return out;
  for (const text::ChatPart& part : *parts) out += part.text;
  return out;
}

/// Whether a template prints what a message holds as a text, rather than as a list of parts.
bool prints_texts(const text::jinja::Template& program, const text::Tokenizer& tokenizer) {
  const text::ChatMessage message[] = {{"user", std::string(kProbe)}};
  return probed(program, tokenizer, text::json_of(message)).find(kProbe) != std::string::npos;
}

/// Whether a template prints the arguments of a call well if they are an object, but encodes a text of JSON again. As
/// llama.cpp finds out.
bool prints_text_arguments_encoded(const text::jinja::Template& program, const text::Tokenizer& tokenizer) {
  const auto prints = [&](const std::string& arguments) {
    const std::string out = probed(
        program, tokenizer,
        cat(R"([{"role":"user","content":"Hi"},{"role":"assistant","content":"","tool_calls":[{"type":"function",)",
            R"("id":"call00001","function":{"name":"f","arguments":)", arguments, "}}]}]"));
    return std::ranges::any_of(
        std::initializer_list<std::string>{cat("\"", kProbe, "\":"), cat("'", kProbe, "':"),
                                           cat("<parameter=", kProbe, ">"), cat("<arg_key>", kProbe, "</arg_key>")},
        [&](const std::string& form) { return out.find(form) != std::string::npos; });
  };
  const std::string object = cat("{\"", kProbe, "\": \"x\"}");
  return !prints(json::quoted(object)) && prints(object);
}

}  // namespace

Result<std::vector<text::ChatPart>> render_chat(const Metadata& metadata, const text::Tokenizer& tokenizer,
                                                std::string_view format, const text::ChatRequest& request) {
  const auto own = metadata.find(kMetaChatTemplate);
  const auto named = metadata.find(kMetaChatFormat);
  if (format.empty() && own != metadata.end()) {
    const auto for_tools = metadata.find(kMetaToolTemplate);
    const bool has_tools = !request.tools.empty() && for_tools != metadata.end();
    GRAFT_TRY_ASSIGN(const auto program, text::jinja::Template::parse(has_tools ? for_tools->second : own->second));
    text::ChatRequest asked = request;
    asked.stops = stop_tokens_of(metadata, tokenizer);
    const auto parsed = json::parse(request.messages);
    if (parsed.ok() && has_text_arguments(*parsed) && prints_text_arguments_encoded(program, tokenizer)) {
      asked.messages = with_parsed_arguments(*parsed);
    }
    if (parsed.ok() && has_parts(*parsed) && prints_texts(program, tokenizer)) {
      GRAFT_TRY_ASSIGN(asked.messages, with_joined_parts(*json::parse(asked.messages)));
    }
    return text::render_chat(program, tokenizer, asked);
  }
  if (format.empty() && named != metadata.end()) format = named->second;
  if (format.empty()) {
    std::string known;
    for (const std::string_view name : text::chat_formats()) known += (known.empty() ? "" : ", ") + std::string(name);
    return invalid("The model has no chat template; name the format to use, one of ", known, ".");
  }
  const bool has_tools = !request.tools.empty() && request.tools != "[]";
  if (has_tools || !request.documents.empty() || !request.variables.empty()) {
    return invalid("The chat format \"", format,
                   "\" has no place for tools, documents or variables; only a model's own template has.");
  }
  const auto parsed = json::parse(request.messages);
  std::string list = request.messages;
  if (parsed.ok() && has_parts(*parsed)) {
    GRAFT_TRY_ASSIGN(list, with_joined_parts(*parsed));
  }
  GRAFT_TRY_ASSIGN(const auto messages, text::messages_of_json(list));
  return text::render_chat(format, messages, request.ask);
}

Result<text::Tokenizer> tokenizer_of(const Model& model) {
  if (!model.tokenizer) {
    const auto why = model.metadata.find(kMetaTokenizerFault);
    if (why != model.metadata.end()) return error(Code::not_found, "The model carries no tokenizer. ", why->second);
    return error(Code::not_found, "The model carries no tokenizer: it was converted from a source without one.");
  }
  const std::string& format = model.tokenizer->format;
  if (format != text::kVocabularyFormat && format != text::kVocabularyStepsFormat) {
    return unsupported("The model's tokenizer is of the form \"", format, "\"; this build reads \"",
                       text::kVocabularyFormat, "\" and \"", text::kVocabularyStepsFormat, "\".");
  }
  GRAFT_TRY_ASSIGN(text::Vocabulary vocabulary,
                   text::vocabulary_from_bytes(std::as_bytes(std::span(model.tokenizer->bytes))));
  return text::Tokenizer::make(std::move(vocabulary));
}

std::vector<text::TokenId> stop_tokens_of(const Metadata& metadata, const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> out;
  for (const std::uint32_t id : numbers_of(metadata, kMetaStop)) {
    if (id < tokenizer.size()) out.push_back(static_cast<text::TokenId>(id));
  }
  if (tokenizer.vocabulary().eos != text::kNoToken) out.push_back(tokenizer.vocabulary().eos);
  return out;
}

std::optional<std::uint32_t> context_of(const Model& model) {
  const auto numbers = numbers_of(model.metadata, kMetaContext);
  if (numbers.size() != 1 || numbers[0] == 0) return std::nullopt;
  return numbers[0];
}

}  // namespace graft
