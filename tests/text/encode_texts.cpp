// Texts as ids, for comparisons with other libraries: tests/text/tokenizer_parity.js.
//
// Usage: encode_texts TOKENIZER < LINES
// TOKENIZER is a tokenizer.json, a GGUF file, a SentencePiece model or a folder. A line is a text as JSON; the answer
// is a line with its ids and the text that they decode to, or with the error.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/text/tokenizer.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace {

using nlohmann::json;

graft::Result<json> answer(const graft::text::Tokenizer& tokenizer, const std::string& text) {
  GRAFT_TRY_ASSIGN(const auto ids, tokenizer.encode(text, {.parse_special = true}));
  GRAFT_TRY_ASSIGN(std::string back, tokenizer.decode(ids, {.skip_control = true}));
  return json{{"ids", ids}, {"text", std::move(back)}};
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
    if (!text.is_string()) {
      std::fprintf(stderr, "A line is no JSON string.\n");
      return 1;
    }
    const auto out = answer(*tokenizer, text.get<std::string>());
    const json printed = out.ok() ? *out : json{{"error", out.status().message()}};
    std::printf("%s\n", printed.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  }
  return 0;
}
