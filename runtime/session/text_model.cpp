#include "runtime/session/text_model.h"

#include <algorithm>
#include <charconv>

#include "runtime/text/vocabulary_bytes.h"

namespace graft {
namespace {

/// The numbers of "2,7"; what is no number is passed over.
std::vector<std::uint32_t> numbers_of(const Model& model, std::string_view key) {
  std::vector<std::uint32_t> out;
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return out;
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

}  // namespace

Result<std::vector<text::ChatPart>> render_chat(const Metadata& metadata, std::string_view format,
                                                std::vector<text::ChatMessage> messages, bool ask) {
  if (!format.empty()) return text::render_chat(format, messages, ask);
  const auto own = metadata.find(kMetaChatFormat);
  const auto jinja = metadata.find(kMetaChatTemplate);
  if (own == metadata.end()) {
    std::string known;
    for (const std::string_view name : text::chat_formats()) known += (known.empty() ? "" : ", ") + std::string(name);
    return invalid(jinja == metadata.end() ? "The model has no chat template"
                                           : "The model's chat template is of no form that is recognized",
                   "; name the format to use, one of ", known, ".");
  }
  if (jinja != metadata.end() && own->second == "chatml" && !messages.empty() && messages[0].role != "system") {
    std::string system = text::chat_system_of(jinja->second);
    if (!system.empty()) messages.insert(messages.begin(), {"system", std::move(system)});
  }
  return text::render_chat(own->second, messages, ask);
}

Result<text::Tokenizer> tokenizer_of(const Model& model) {
  if (!model.tokenizer) {
    return error(Code::not_found, "The model carries no tokenizer: it was converted from a source without one.");
  }
  if (model.tokenizer->format != text::kVocabularyFormat) {
    return unsupported("The model's tokenizer is of the form \"", model.tokenizer->format, "\"; this build reads \"",
                       text::kVocabularyFormat, "\".");
  }
  GRAFT_TRY_ASSIGN(text::Vocabulary vocabulary,
                   text::vocabulary_from_bytes(std::as_bytes(std::span(model.tokenizer->bytes))));
  return text::Tokenizer::make(std::move(vocabulary));
}

std::vector<text::TokenId> stop_tokens_of(const Model& model, const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> out;
  for (const std::uint32_t id : numbers_of(model, kMetaStop)) {
    if (id < tokenizer.size()) out.push_back(static_cast<text::TokenId>(id));
  }
  if (tokenizer.vocabulary().eos != text::kNoToken) out.push_back(tokenizer.vocabulary().eos);
  return out;
}

std::optional<std::uint32_t> context_of(const Model& model) {
  const auto numbers = numbers_of(model, kMetaContext);
  if (numbers.size() != 1 || numbers[0] == 0) return std::nullopt;
  return numbers[0];
}

}  // namespace graft
