// graft/language.h: tokens and conversations.
#include "graft/language.h"

#include "runtime/c_api/c_tokenizer.h"
#include "runtime/language/text_model.h"
#include "runtime/text/chat/chat.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"

using namespace graft;
using namespace graft::c_api;

namespace {

Result<std::vector<text::ChatPart>> render(const graft_tokenizer& tokenizer, const graft_chat_message* messages,
                                           std::size_t count, const graft_chat_options* given) {
  GRAFT_TRY_ASSIGN(const graft_chat_options options, read_options(given, "graft_chat_options"));
  if (messages == nullptr && count != 0) return invalid(count, " messages were promised, and they are NULL.");
  std::vector<text::ChatMessage> read;
  for (std::size_t i = 0; i < count; ++i) {
    if (messages[i].role == nullptr || messages[i].text == nullptr) {
      return invalid("Message ", i, " has no role or no text.");
    }
    read.push_back({messages[i].role, messages[i].text});
  }
  const auto given_text = [](const char* text) { return text == nullptr ? std::string() : std::string(text); };
  if (options.messages != nullptr && count != 0) return invalid("Messages are given twice: as a list and as JSON.");
  text::ChatRequest request = {.messages = options.messages == nullptr ? text::json_of(read) : options.messages,
                               .tools = given_text(options.tools),
                               .documents = given_text(options.documents),
                               .variables = given_text(options.variables),
                               .ask = options.complete == 0};
  return render_chat(tokenizer.metadata, tokenizer.tokenizer, given_text(options.format), request);
}

/// Parts without their first bytes.
std::vector<text::ChatPart> behind(std::vector<text::ChatPart> parts, std::size_t bytes) {
  std::vector<text::ChatPart> out;
  for (text::ChatPart& part : parts) {
    const std::size_t cut = std::min(bytes, part.text.size());
    bytes -= cut;
    if (cut == part.text.size()) continue;
    part.text.erase(0, cut);
    out.push_back(std::move(part));
  }
  return out;
}

std::string text_of(const std::vector<text::ChatPart>& parts) {
  std::string whole;
  for (const text::ChatPart& part : parts) whole += part.text;
  return whole;
}

/// The tokens of a conversation, behind those of what was said before where it begins so.
Result<std::vector<text::TokenId>> encode(const text::Tokenizer& tokenizer, std::vector<text::ChatPart> parts,
                                          const graft_chat_options* given) {
  GRAFT_TRY_ASSIGN(const graft_chat_options options, read_options(given, "graft_chat_options"));
  if (options.said == nullptr && options.said_bytes != 0) return invalid("What was said was promised, and is NULL.");
  if (options.said_tokens == nullptr && options.said_count != 0) {
    return invalid(options.said_count, " tokens of what was said were promised, and they are NULL.");
  }
  std::vector<text::TokenId> out;
  const std::string_view said(options.said, options.said_bytes);
  if (!said.empty() && options.said_count != 0 && text_of(parts).starts_with(said)) {
    out.assign(options.said_tokens, options.said_tokens + options.said_count);
    parts = behind(std::move(parts), said.size());
  }
  GRAFT_TRY_ASSIGN(const auto rest, text::encode_chat(tokenizer, parts, !out.empty()));
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

void give_ids(const graft_tokenizer& tokenizer, const int32_t** ids, std::size_t* count) {
  if (ids != nullptr) *ids = tokenizer.ids.data();
  if (count != nullptr) *count = tokenizer.ids.size();
}

void give_text(const graft_tokenizer& tokenizer, const char** text, std::size_t* bytes) {
  if (text != nullptr) *text = tokenizer.text.c_str();
  if (bytes != nullptr) *bytes = tokenizer.text.size();
}

}  // namespace

graft_status graft_tokenizer_create(graft_model* model, graft_tokenizer** tokenizer) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (tokenizer == nullptr) return invalid("graft_tokenizer_create needs a place for the tokenizer.");
    *tokenizer = nullptr;
    GRAFT_TRY_ASSIGN(text::Tokenizer made, tokenizer_of(model->model));
    *tokenizer = new graft_tokenizer(model->context, nullptr, std::move(made), nullptr, model->model.metadata);
    return ok_status();
  });
}

graft_status graft_tokenizer_open(graft_context* context, const void* data, size_t bytes, graft_tokenizer** tokenizer) {
  return guarded(context, [&]() -> Status {
    if (tokenizer == nullptr) return invalid("graft_tokenizer_open needs a place for the tokenizer.");
    *tokenizer = nullptr;
    if (data == nullptr) return invalid("The bytes of the tokenizer are NULL.");
    GRAFT_TRY_ASSIGN(text::Vocabulary words,
                     text::vocabulary_from_bytes(std::span(static_cast<const std::byte*>(data), bytes)));
    GRAFT_TRY_ASSIGN(text::Tokenizer made, text::Tokenizer::make(std::move(words)));
    *tokenizer = new graft_tokenizer(context, nullptr, std::move(made), nullptr, {});
    return ok_status();
  });
}

graft_status graft_generator_tokenizer(graft_generator* generator, graft_tokenizer** tokenizer) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (tokenizer == nullptr) return invalid("graft_generator_tokenizer needs a place for the tokenizer.");
    *tokenizer = nullptr;
    const text::Tokenizer* const its =
        generator->batch ? generator->batch->tokenizer() : generator->generator->tokenizer();
    if (its == nullptr) return error(Code::not_found, "The model carries no tokenizer.");
    *tokenizer = new graft_tokenizer(generator->context, generator, {}, its, generator->model->model.metadata);
    return ok_status();
  });
}

void graft_tokenizer_destroy(graft_tokenizer* tokenizer) {
  if (tokenizer != nullptr) destroy<graft_context>(tokenizer->context, tokenizer);
}

size_t graft_tokenizer_size(const graft_tokenizer* tokenizer) {
  return tokenizer == nullptr ? 0 : tokenizer->tokenizer.size();
}

const char* graft_tokenizer_algorithm(const graft_tokenizer* tokenizer) {
  return tokenizer == nullptr ? "" : text::algorithm_name(tokenizer->tokenizer.vocabulary().algorithm).data();
}

int32_t graft_tokenizer_find(const graft_tokenizer* tokenizer, const char* token) {
  return tokenizer == nullptr || token == nullptr ? text::kNoToken : tokenizer->tokenizer.find(token);
}

graft_status graft_tokenizer_encode(graft_tokenizer* tokenizer, const char* text, size_t bytes,
                                    const graft_encode_options* options, const int32_t** ids, size_t* count) {
  if (tokenizer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(tokenizer->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const graft_encode_options given, read_options(options, "graft_encode_options"));
    if (text == nullptr && bytes != 0) return invalid("A text of ", bytes, " bytes was promised, and it is NULL.");
    const text::EncodeOptions wanted = {.add_special = given.bare == 0, .parse_special = given.parse_special != 0};
    GRAFT_TRY_ASSIGN(tokenizer->ids, tokenizer->tokenizer.encode(std::string_view(text, bytes), wanted));
    give_ids(*tokenizer, ids, count);
    return ok_status();
  });
}

graft_status graft_tokenizer_decode(graft_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                    const graft_decode_options* options, const char** text, size_t* bytes) {
  if (tokenizer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(tokenizer->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const graft_decode_options given, read_options(options, "graft_decode_options"));
    if (ids == nullptr && count != 0) return invalid(count, " tokens were promised, and they are NULL.");
    const text::DecodeOptions wanted = {.skip_control = given.spell_special == 0, .at_start = given.continued == 0};
    GRAFT_TRY_ASSIGN(tokenizer->text, tokenizer->tokenizer.decode(std::span<const text::TokenId>(ids, count), wanted));
    give_text(*tokenizer, text, bytes);
    return ok_status();
  });
}

graft_status graft_chat_encode(graft_tokenizer* tokenizer, const graft_chat_message* messages, size_t message_count,
                               const graft_chat_options* options, const int32_t** ids, size_t* count) {
  if (tokenizer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(tokenizer->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const auto parts, render(*tokenizer, messages, message_count, options));
    GRAFT_TRY_ASSIGN(tokenizer->ids, encode(tokenizer->tokenizer, parts, options));
    give_ids(*tokenizer, ids, count);
    return ok_status();
  });
}

graft_status graft_chat_render(graft_tokenizer* tokenizer, const graft_chat_message* messages, size_t message_count,
                               const graft_chat_options* options, const char** text, size_t* bytes) {
  if (tokenizer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(tokenizer->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const auto parts, render(*tokenizer, messages, message_count, options));
    tokenizer->text = text_of(parts);
    give_text(*tokenizer, text, bytes);
    return ok_status();
  });
}
