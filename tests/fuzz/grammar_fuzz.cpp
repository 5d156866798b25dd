// Grammars and JSON schemas that texts have to follow. The input is either: a schema begins with "{". A short text is
// drawn by what may come next.
#include <algorithm>
#include <cstdint>

#include "runtime/text/grammar/json_schema.h"
#include "runtime/text/grammar/matcher.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"

using namespace graft::fuzz;
namespace text = graft::text;

namespace {

/// Bytes, and what JSON is made of.
text::Tokenizer make_tokenizer() {
  text::Vocabulary vocabulary;
  vocabulary.algorithm = text::Algorithm::char_bpe;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocabulary.tokens.push_back(
        {.text = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'}, .kind = text::TokenKind::byte});
  }
  for (const char* more : {"{\"", "\":", "\",", "\"}", "true", "ab", "abc", "root", "12"}) {
    vocabulary.tokens.push_back({.text = more});
  }
  return std::move(*text::Tokenizer::make(std::move(vocabulary)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const text::Tokenizer tokenizer = make_tokenizer();
  static const text::TokenTable table(tokenizer);
  std::string rules(reinterpret_cast<const char*>(data), size);
  if (rules.starts_with("{")) {
    const auto made = text::grammar_of_schema(rules);
    if (!made.ok()) {
      check_refusal(made.status());
      return 0;
    }
    rules = *made;
  }
  const auto grammar = text::Grammar::parse(rules);
  if (!grammar.ok()) {
    check_refusal(grammar.status());
    return 0;
  }
  text::GrammarMatcher matcher(*grammar, table);
  const graft::Status begun = matcher.restart();
  if (!begun.ok()) check_refusal(begun);
  for (std::uint32_t i = 0; begun.ok() && i < 24 && !matcher.must_end(); ++i) {
    const auto mask = matcher.allowed();
    if (!mask.ok()) {
      check_refusal(mask.status());
      return 0;
    }
    std::vector<text::TokenId> may;
    for (std::size_t token = 0; token < tokenizer.size(); ++token) {
      if (((*mask)[token / 64] >> (token % 64) & 1) != 0) may.push_back(static_cast<text::TokenId>(token));
    }
    if (may.empty()) break;
    check(matcher.accept(may[(i * 7919 + size) % may.size()]).ok());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const bool is_schema = size > 0 && data[0] == '{';
  return mutate_with(is_schema ? mutate_json : mutate_lines, data, size, max_size, seed);
}
