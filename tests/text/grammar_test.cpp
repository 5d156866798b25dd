// Grammars: which texts they allow, against regular expressions of the standard library and a JSON reader; which tokens
// may come next; what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "runtime/text/grammar/json_schema.h"
#include "runtime/text/grammar/matcher.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::grammar_test {
namespace {

/// A token for each byte, whose id is its value, and some for more, from 256 on.
Tokenizer bytes_and(const std::vector<std::string>& more = {}) {
  Vocabulary vocabulary;
  vocabulary.algorithm = Algorithm::char_bpe;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocabulary.tokens.push_back(
        {.text = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'}, .kind = TokenKind::byte});
  }
  for (const std::string& text : more) vocabulary.tokens.push_back({.text = text});
  auto made = Tokenizer::make(std::move(vocabulary));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(*made);
}

class Judge {
 public:
  explicit Judge(const std::string& grammar, const std::vector<std::string>& more = {})
      : tokenizer_(bytes_and(more)), table_(tokenizer_), grammar_(Grammar::parse(grammar)) {
    EXPECT_TRUE(grammar_.ok()) << grammar_.status().message() << "\n" << grammar;
    if (grammar_.ok()) matcher_ = std::make_unique<GrammarMatcher>(*grammar_, table_);
  }
  bool restart() {
    const Status begun = matcher_ ? matcher_->restart() : internal_error("There is no grammar.");
    EXPECT_TRUE(begun.ok()) << begun.message();
    return begun.ok();
  }
  bool allows(std::string_view text) {
    if (!restart()) return false;
    for (const char c : text) {
      const auto mask = matcher_->allowed();
      EXPECT_TRUE(mask.ok()) << mask.status().message();
      const auto token = static_cast<std::uint8_t>(c);
      const bool told = mask.ok() && ((*mask)[token / 64] >> (token % 64) & 1) != 0;
      const bool taken = matcher_->accept(token).ok();
      EXPECT_EQ(told, taken) << text;
      if (!taken) return false;
    }
    return matcher_->may_end();
  }
  std::string bytes_of(TokenId token) const { return std::string(table_.bytes_of(token)); }
  GrammarMatcher& matcher() { return *matcher_; }

 private:
  Tokenizer tokenizer_;
  TokenTable table_;
  Result<Grammar> grammar_;
  std::unique_ptr<GrammarMatcher> matcher_;
};

TEST(Grammar, AllowsWhatRegularExpressionsMatch) {
  struct Row {
    const char* grammar;
    const char* regex;
  };
  const Row rows[] = {
      {"root ::= (\"a\" | \"b\"+)* \"c\"? [a-c]{2,3}", "(a|b+)*c?[a-c]{2,3}"},
      {"root ::= \"ab\"{2} x # twice\nx ::= | \"c\" x", "(ab){2}c*"},
      {"root ::= (\"a\"? \"b\"?)* [^ab]", "(a?b?)*[^ab]"},
      {"root ::= ((\"a\"?)*)* \"b\"", "a*b"},
      {"root ::= x{,2} y{1,}\nx ::= \"a\" |\n  \"bb\"\ny ::= (\n [b-c] )", "(a|bb){0,2}[bc]+"},
      {"root ::= .{2} \"\\x61\" | \"\\u0062\"", "(..a|b)"},
      {"root ::= \"a\"{0} \"c\"", "c"},
      {"root ::= [a\\-c] [^\\]\\\\]", "[ac-][^\\]\\\\]"},
  };
  std::mt19937 random(5);
  for (const Row& row : rows) {
    Judge judge(row.grammar);
    const std::regex regex(row.regex);
    int matched = 0;
    for (int i = 0; i < 1500; ++i) {
      std::string text;
      for (auto left = random() % 7; left > 0; --left) text += "aabbcc-"[random() % 7];
      const bool expected = std::regex_match(text, regex);
      matched += expected ? 1 : 0;
      EXPECT_EQ(judge.allows(text), expected) << row.regex << ": " << text;
    }
    EXPECT_GT(matched, 0) << row.regex;
  }
}

TEST(Grammar, CountsAndNests) {
  Judge balanced("root ::= \"(\" root \")\" root | \"\"");
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (auto left = random() % 9; left > 0; --left) text += "()"[random() % 2];
    int depth = 0;
    bool fits = true;
    for (const char c : text) fits = (depth += c == '(' ? 1 : -1) >= 0 && fits;
    EXPECT_EQ(balanced.allows(text), fits && depth == 0) << text;
  }
  EXPECT_TRUE(balanced.allows(std::string(3000, '(') + std::string(3000, ')')));
}

TEST(Grammar, ClassesAreOfCharactersNotOfBytes) {
  Judge judge("root ::= [\xC3\xA4-\xE2\x82\xAC] [^\xF0\x9F\x98\x80]");  // U+00E4 to U+20AC, not U+1F600
  for (const char32_t first : {0xE3u, 0xE4u, 0x7FFu, 0x800u, 0xFFFu, 0x1000u, 0x20ACu, 0x20ADu}) {
    for (const char32_t second : {U'a', U'\n', U'\u07ff', U'\ud7ff', U'\ue000', U'\uffff', U'\U00010000', U'\U0001F5FF',
                                  U'\U0001F600', U'\U0001F601', U'\U0010FFFF'}) {
      std::string text;
      append_utf8(text, first);
      append_utf8(text, second);
      EXPECT_EQ(judge.allows(text), first >= 0xE4 && first <= 0x20AC && second != 0x1F600) << text;
    }
  }
  for (const char* wrong :
       {"\xC3", "\xC3\xA5\xED\xA0\x80", "\xC3\xA5\xC0\x80", "\xC3\xA5\xF4\x90\x80\x80", "\xC3\xA5\x80"}) {
    EXPECT_FALSE(judge.allows(wrong)) << "no UTF-8";
  }
}

TEST(Grammar, TokensOfManyBytesAreAllowedWhereAllOfThemAre) {
  const std::vector<std::string> more = {"ab", "abc", "b", "bc", "abcabc", "abd", "cab", "abcabcabcd"};
  Judge judge("root ::= (\"ab\" \"c\")+", more);
  ASSERT_TRUE(judge.restart());
  std::string text;
  std::mt19937 random(3);
  for (int i = 0; i < 60; ++i) {
    const auto mask = *judge.matcher().allowed();
    std::vector<TokenId> may;
    for (TokenId token = 0; token < 256 + static_cast<TokenId>(more.size()); ++token) {
      const std::string whole = text + judge.bytes_of(token);
      bool fits = !judge.bytes_of(token).empty();
      for (std::size_t at = 0; at < whole.size(); ++at) fits = fits && whole[at] == "abc"[at % 3];
      EXPECT_EQ((mask[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) != 0, fits) << text << " + " << token;
      if (fits) may.push_back(token);
    }
    EXPECT_EQ(judge.matcher().may_end(), !text.empty() && text.size() % 3 == 0);
    const TokenId next = may[random() % may.size()];
    ASSERT_TRUE(judge.matcher().accept(next).ok());
    text += judge.bytes_of(next);
  }
  EXPECT_FALSE(judge.matcher().accept('x').ok());
  EXPECT_FALSE(judge.matcher().accept(1000).ok());
  Judge ends("root ::= \"a\"");
  ASSERT_TRUE(ends.restart());
  EXPECT_FALSE(ends.matcher().must_end());
  ASSERT_TRUE(ends.matcher().accept('a').ok());
  EXPECT_TRUE(ends.matcher().must_end());
}

TEST(Grammar, RefusesWhatIsNone) {
  const auto says = [](const std::string& grammar, const std::string& what) {
    const auto made = Grammar::parse(grammar);
    ASSERT_FALSE(made.ok()) << grammar;
    EXPECT_NE(made.status().message().find(what), std::string::npos) << made.status().message();
  };
  says("", "no rule \"root\"");
  says("x ::= \"a\"", "no rule \"root\"");
  says("root ::= y", "\"y\" is used and never defined");
  says("root ::= \"a\"\nroot ::= \"b\"", "Line 2");
  says("root = \"a\"", "\"::=\" is missing");
  says("root ::= \"a", "closing quote");
  says("root ::= \"a\nb\"", "line ends");
  says("root ::= [b-a]", "ends before it begins");
  says("root ::= []", "holds no character");
  says("root ::= (\"a\"", "\")\" is missing");
  says("root ::= \"a\")", "cannot stand here");
  says("root ::= *", "repeats nothing");
  says("root ::= \"a\"{2,1}", "at least 2");
  says("root ::= \"a\"{9999999}", "more than");
  says("root ::= \"\\q\"", "escape");
  says("root ::= \"\\uD800\"", "no character");
  says("root ::= <[1000]>", "tokens by name");
  says("root ::= root \"a\" | \"b\"", "\"root\" begins with itself");
  says("root ::= x\nx ::= y? z\ny ::= \"a\"\nz ::= x \"b\" | \"c\"", "begins with itself");
  says(std::string(200, '('), "a rule begins with its name");
  says("root ::= " + std::string(200, '('), "nested parentheses");
  says("root ::= ((((\"a\"{1000}){1000}){1000}){1000}){1000000}", "too large");
  EXPECT_TRUE(Grammar::parse("root ::= ((\"a\"{1000}){1000}){1000}").ok()) << "what repeats is a rule of its own";
}

TEST(Grammar, WhatIsTooAmbiguousEndsInASentence) {
  const std::string twins =
      "root ::= (\"a\" root \"a\" | \"a\" root \"b\" | \"a\" x root | \"a\")\nx ::= \"a\"* \"a\"*";
  Judge judge(twins);
  ASSERT_TRUE(judge.restart());
  Status last;
  for (int i = 0; i < 3000 && last.ok(); ++i) {
    last = judge.matcher().allowed().status();
    if (last.ok()) last = judge.matcher().accept('a');
  }
  EXPECT_TRUE(last.ok() || last.message().find("too ambiguous") != std::string::npos) << last.message();
  Judge nothing("root ::= \"a\" root");
  EXPECT_TRUE(nothing.restart()) << "no text is ever complete, but each goes on";
}

}  // namespace
}  // namespace graft::text::grammar_test
