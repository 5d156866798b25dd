// Texts and conversations as ids, for comparisons with other libraries: tests/text/tokenizer_parity.js,
// tools/dev/fuzz_chats.py.
//
// Usage: encode_texts TOKENIZER < LINES
// TOKENIZER is a tokenizer.json, a GGUF file, a SentencePiece model or a folder. A line is a text as JSON; the answer
// is a line with its ids and the text that they decode to, or with the error. Or a line is a conversation: {"template":
// ..., "messages": [...], "ask": true, ...}, whose other members are the template's variables; the answer has the ids,
// the text of the prompt and, unless it asks, which ids are replies.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/text/chat/chat.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace {

using json = nlohmann::ordered_json;

graft::Result<json> answer(const graft::text::Tokenizer& tokenizer, const std::string& text) {
  GRAFT_TRY_ASSIGN(const auto ids, tokenizer.encode(text, {.parse_special = true}));
  GRAFT_TRY_ASSIGN(std::string back, tokenizer.decode(ids, {.skip_control = true}));
  return json{{"ids", ids}, {"text", std::move(back)}};
}

graft::Result<json> chat_answer(const graft::text::Tokenizer& tokenizer, json asked) {
  const auto taken = [&](const char* name) {
    const json value = asked.value(name, json());
    asked.erase(name);
    return value;
  };
  GRAFT_TRY_ASSIGN(const auto program, graft::text::jinja::Template::parse(taken("template").get<std::string>()));
  graft::text::ChatRequest request{.messages = taken("messages").dump(), .ask = taken("ask").get<bool>()};
  if (const json tools = taken("tools"); !tools.is_null()) request.tools = tools.dump();
  if (const json documents = taken("documents"); !documents.is_null()) request.documents = documents.dump();
  request.variables = asked.dump();
  GRAFT_TRY_ASSIGN(const auto parts, graft::text::render_chat(program, tokenizer, request));
  std::vector<bool> replies;
  GRAFT_TRY_ASSIGN(const auto ids, graft::text::encode_chat(tokenizer, parts, false, &replies));
  std::string text;
  for (const graft::text::ChatPart& part : parts) text += part.text;
  return json{{"ids", ids}, {"text", std::move(text)}, {"replies", replies}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: encode_texts TOKENIZER < LINES\n");
    return 2;
  }
  auto vocabulary = graft::convert::load_vocabulary(graft::os::system_files(), argv[1]);
  auto tokenizer = vocabulary.ok() ? graft::text::Tokenizer::make(std::move(*vocabulary))
                                   : graft::Result<graft::text::Tokenizer>(vocabulary.status());
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.status().message().c_str());
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const json text = json::parse(line, nullptr, false);
    if (!text.is_string() && !text.is_object()) {
      std::fprintf(stderr, "A line is neither a JSON string nor an object.\n");
      return 1;
    }
    const auto out = text.is_object() ? chat_answer(*tokenizer, text) : answer(*tokenizer, text.get<std::string>());
    const json printed = out.ok() ? *out : json{{"error", out.status().message()}};
    std::printf("%s\n", printed.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout);
  }
  return 0;
}
