// The tokenizer's own rules on small vocabularies, and Unicode's normal forms.
#include "runtime/text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/tokenizer/split.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "runtime/text/unicode/pattern.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::tokenizer_test {
namespace {

using Ids = std::vector<TokenId>;

Tokenizer made(Vocabulary vocabulary) {
  auto out = Tokenizer::make(std::move(vocabulary));
  EXPECT_TRUE(out.ok()) << out.status().message();
  return std::move(out).value();
}

/// 256 byte tokens, then "ab" (256), "abc" (257), "<eos>" (258, control), "[tool]" (259, user-defined).
Vocabulary bytes_vocabulary() {
  Vocabulary out;
  for (int byte = 0; byte < 256; ++byte) {
    append_utf8(out.tokens.emplace_back().text, byte_character(static_cast<unsigned char>(byte)));
  }
  out.tokens.push_back({.text = "ab"});
  out.tokens.push_back({.text = "abc"});
  out.tokens.push_back({.text = "<eos>", .kind = TokenKind::control});
  out.tokens.push_back({.text = "[tool]", .kind = TokenKind::user_defined});
  out.merges = {{'a', 'b'}, {256, 'c'}};
  out.splits = {Split::gpt2};
  out.eos = 258;
  out.after = {258};
  return out;
}

/// Pieces with scores; the kind follows from the spelling.
Vocabulary pieces_vocabulary(Algorithm algorithm, const std::vector<std::pair<std::string, float>>& pieces) {
  Vocabulary out;
  out.algorithm = algorithm;
  out.tokens.push_back({.text = "<unk>", .kind = TokenKind::unknown});
  for (const auto& [text, score] : pieces) out.tokens.push_back({.text = text, .score = score});
  out.unknown = 0;
  return out;
}

TEST(Tokenizer, ByteBpeMergesByRankAndAddsSpecialTokens) {
  const Tokenizer tokenizer = made(bytes_vocabulary());
  EXPECT_EQ(*tokenizer.encode("abcab"), (Ids{257, 256, 258}));
  EXPECT_EQ(*tokenizer.encode("abcab", {.add_special = false}), (Ids{257, 256}));
  EXPECT_EQ(*tokenizer.encode(""), (Ids{258}));
}

TEST(Tokenizer, ControlTokensInTextAreFoundOnRequestOnly) {
  const Tokenizer tokenizer = made(bytes_vocabulary());
  EXPECT_EQ(*tokenizer.encode("ab<eos>ab", {.add_special = false, .parse_special = true}), (Ids{256, 258, 256}));
  EXPECT_EQ(*tokenizer.encode("<eos>", {.add_special = false}), (Ids{'<', 'e', 'o', 's', '>'}));
  EXPECT_EQ(*tokenizer.encode("a[tool]", {.add_special = false}), (Ids{'a', 259}));
  EXPECT_EQ(*tokenizer.decode(Ids{256, 258, 259}), "ab[tool]");
  EXPECT_EQ(*tokenizer.decode(Ids{256, 258}, {.skip_control = false}), "ab<eos>");
}

TEST(Tokenizer, BytesThatAreNoTextSurvive) {
  const Tokenizer tokenizer = made(bytes_vocabulary());
  const std::string broken = "a\xFF\xE2\x82 b";
  const auto ids = tokenizer.encode(broken, {.add_special = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, (Ids{'a', 0xFF, 0xE2, 0x82, ' ', 'b'}));
  EXPECT_EQ(*tokenizer.decode(*ids), "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD b");
}

TEST(Tokenizer, StreamingHoldsBackPartsOfACharacter) {
  const Tokenizer tokenizer = made(bytes_vocabulary());
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(*stream.push('a'), "a");
  EXPECT_EQ(*stream.push(0xF0), "");
  EXPECT_EQ(*stream.push(0x9F), "");
  EXPECT_EQ(*stream.push(0x9A), "");
  EXPECT_EQ(*stream.push(0x80), "\xF0\x9F\x9A\x80");
  EXPECT_EQ(*stream.push(0xE2), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
  const auto outside = stream.push(260);
  ASSERT_FALSE(outside.ok());
  EXPECT_EQ(outside.status().message(), "Token 260 cannot be decoded: the vocabulary has 260 tokens.");
  EXPECT_FALSE(stream.push(-1).ok());
}

TEST(Tokenizer, ScoredBpeMergesTheBestPieceFirst) {
  // "abc" as a+bc and not ab+c: bc has the better score, and no piece joins a and bc.
  const Tokenizer tokenizer =
      made(pieces_vocabulary(Algorithm::scored_bpe, {{"a", -9}, {"b", -9}, {"c", -9}, {"ab", -2}, {"bc", -1}}));
  EXPECT_EQ(*tokenizer.encode("abc"), (Ids{1, 5}));
  EXPECT_EQ(*tokenizer.encode("axyc"), (Ids{1, 0, 3}));  // unknown neighbours are one unknown token
}

TEST(Tokenizer, UnigramTakesTheBestSum) {
  // abc = ab+c (-5) or a+bc (-4) or a+b+c (-9): greedy from the left would take ab.
  auto vocabulary = pieces_vocabulary(Algorithm::unigram, {{"a", -3}, {"b", -3}, {"c", -3}, {"ab", -2}, {"bc", -1}});
  const Tokenizer tokenizer = made(vocabulary);
  EXPECT_EQ(*tokenizer.encode("abc"), (Ids{1, 5}));
  EXPECT_EQ(*tokenizer.encode("a\xC3\xA9\xC3\xA9"
                              "b"),
            (Ids{1, 0, 2}));
  EXPECT_EQ(*tokenizer.encode("", {}), Ids{});
}

TEST(Tokenizer, ByteFallback) {
  for (const Algorithm algorithm : {Algorithm::unigram, Algorithm::scored_bpe, Algorithm::char_bpe}) {
    auto vocabulary = pieces_vocabulary(algorithm, {{"a", -3}, {"\xE2\x96\x81", -3}});
    vocabulary.tokens.push_back({.text = "<0xC3>", .kind = TokenKind::byte});
    vocabulary.tokens.push_back({.text = "<0xA9>", .kind = TokenKind::byte});
    vocabulary.byte_fallback = true;
    vocabulary.space_prefix = SpacePrefix::every;
    const Tokenizer tokenizer = made(vocabulary);
    EXPECT_EQ(*tokenizer.encode("\xC3\xA9"), (Ids{2, 3, 4}));
    EXPECT_EQ(*tokenizer.encode("a\xC3\xA8"), (Ids{2, 1, 0}));  // 0xA8 has no token
    EXPECT_EQ(*tokenizer.decode(Ids{2, 3, 4}), "\xC3\xA9");
    EXPECT_EQ(*tokenizer.decode(Ids{2, 1}, {.at_start = false}), " a");
  }
}

TEST(Tokenizer, WordPieceIsGreedyWithinAWord) {
  auto vocabulary = pieces_vocabulary(
      Algorithm::word_piece, {{"\xE2\x96\x81un", 0}, {"\xE2\x96\x81unable", 0}, {"able", 0}, {"\xE2\x96\x81!", 0}});
  vocabulary.lower_case = vocabulary.strip_accents = true;
  const Tokenizer tokenizer = made(vocabulary);
  EXPECT_EQ(*tokenizer.encode("UNable \xC3\x9Cnable! unableable unx"), (Ids{2, 2, 4, 2, 3, 0}));
  EXPECT_EQ(*tokenizer.decode(Ids{1, 3, 2}), "unable unable");
}

TEST(Tokenizer, SpecialTokensTakeTheSpaceAround) {
  auto vocabulary = bytes_vocabulary();
  vocabulary.tokens[259].strip_left = vocabulary.tokens[259].strip_right = true;
  const Tokenizer tokenizer = made(vocabulary);
  EXPECT_EQ(*tokenizer.encode("a \n[tool]  ab", {.add_special = false}), (Ids{'a', 259, 256}));
}

TEST(Tokenizer, ContradictionsAreNamed) {
  const auto message = [](Vocabulary vocabulary) {
    const auto made = Tokenizer::make(std::move(vocabulary));
    return made.ok() ? std::string() : made.status().message();
  };
  EXPECT_EQ(message({}), "The tokenizer's vocabulary has 0 tokens; 1 to 16777216 are possible.");
  auto bytes = bytes_vocabulary();
  bytes.merges = {{'a', 999}};
  EXPECT_EQ(message(bytes), "The tokenizer's merge is token 999, but the vocabulary has 260 tokens.");
  bytes.merges = {{'x', 'y'}};
  EXPECT_EQ(message(bytes),
            "Merge 0 of the vocabulary joins tokens 120 and 121, but no token is spelled as both together.");
  bytes.merges.clear();
  bytes.eos = -7;
  EXPECT_EQ(message(bytes), "The tokenizer's end-of-text token is token -7, but the vocabulary has 260 tokens.");
  bytes.eos = 258;
  bytes.character_map = std::string("\xFF\xFF\0\0abcd", 8);
  EXPECT_EQ(message(bytes), "The character map of the tokenizer gives its trie 65535 bytes, but 4 follow.");
  auto missing = bytes_vocabulary();
  missing.tokens['z'].kind = TokenKind::unused;
  const auto encoded = made(missing).encode("z");
  ASSERT_FALSE(encoded.ok());
  EXPECT_EQ(encoded.status().message(), "The vocabulary has no token for \"z\", nor an unknown token.");
}

TEST(Tokenizer, VocabulariesAsBytes) {
  auto vocabulary = bytes_vocabulary();
  vocabulary.tokens[259].strip_right = true;
  vocabulary.tokens[3].score = -2.5f;
  vocabulary.normal_form_c = vocabulary.prefix_unless_spaced = true;
  vocabulary.splits = {Split::digit, Split::qwen2};
  vocabulary.space_prefix = SpacePrefix::first;
  vocabulary.before = {1, 2};
  const std::string bytes = vocabulary_to_bytes(vocabulary);
  const auto read = [](const std::string& from) { return vocabulary_from_bytes(std::as_bytes(std::span(from))); };
  const auto back = read(bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(vocabulary_to_bytes(*back), bytes);
  EXPECT_EQ(back->splits, vocabulary.splits);
  EXPECT_EQ(back->merges, vocabulary.merges);
  EXPECT_EQ(back->before, vocabulary.before);
  EXPECT_EQ(back->eos, 258);
  EXPECT_EQ(back->tokens[3].score, -2.5f);
  EXPECT_TRUE(back->normal_form_c && back->prefix_unless_spaced && back->fuse_unknown && !back->lower_case);
  EXPECT_TRUE(back->tokens[259].strip_right && !back->tokens[259].strip_left);
  EXPECT_EQ(back->tokens[258].kind, TokenKind::control);
  EXPECT_EQ(*made(*back).encode("7ab"), *made(vocabulary).encode("7ab"));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = read(bytes.substr(0, size));
    ASSERT_FALSE(cut.ok()) << size;
    EXPECT_EQ(cut.status().message().back(), '.');
  }
  EXPECT_EQ(read(bytes + "x").status().message(), "The tokenizer is followed by 1 bytes too many.");
  for (std::size_t at = 0; at < bytes.size() * 8; ++at) {
    std::string bad = bytes;
    bad[at / 8] ^= static_cast<char>(1u << at % 8);
    if (auto vocabulary_read = read(bad); vocabulary_read.ok() && at % 97 == 0) {
      (void)Tokenizer::make(std::move(*vocabulary_read));
    }
  }
}

std::vector<std::string> spans(const std::string& text, std::vector<Split> splits) {
  const auto points = code_points(text);
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (const std::uint32_t last : split_text(points, splits)) {
    const std::size_t end = points[last - 1].begin + points[last - 1].size;
    out.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return out;
}

TEST(Split, LlamaAndQwenDifferInNumbers) {
  using Spans = std::vector<std::string>;
  EXPECT_EQ(spans("it'S  12345\r\n\r\n x", {Split::llama3}),
            (Spans{"it", "'S", " ", " ", "123", "45", "\r\n\r\n", " x"}));
  EXPECT_EQ(spans("a 12!\n\n  b", {Split::qwen2}), (Spans{"a", " ", "1", "2", "!\n\n", " ", " b"}));
  EXPECT_EQ(spans("it'S 'll\n\n a1", {Split::gpt2}), (Spans{"it", "'", "S", " '", "ll", "\n\n", " a", "1"}));
  EXPECT_EQ(spans("\t\tx  ", {Split::llama3}), (Spans{"\t", "\tx", "  "}));
  EXPECT_EQ(spans("a12 b", {Split::digit, Split::gpt2}), (Spans{"a", "1", "2", " b"}));
  EXPECT_EQ(spans("", {Split::gpt2}), Spans{});
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normal_form_c("e\xCC\x81"), "\xC3\xA9");                                 // e + acute
  EXPECT_EQ(normal_form_c("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB"), "\xED\x95\x9C");  // Hangul
  EXPECT_EQ(normal_form_c("\xE2\x84\xAB"), "\xC3\x85");                              // Angstrom sign, a singleton
  EXPECT_EQ(normal_form_c("a\xCC\x81\xCC\xA3"), "\xE1\xBA\xA1\xCC\x81");             // the dot below comes first
  EXPECT_EQ(normal_form_c("\xE0\xA5\x98"), "\xE0\xA4\x95\xE0\xA4\xBC");              // excluded from composition
  EXPECT_EQ(normal_form_c("\xC3\xA9\xFF"), "\xC3\xA9\xFF");
  EXPECT_EQ(normal_form_d(U"\u1ec7\ud55c"), U"e\u0323\u0302\u1112\u1161\u11ab");
  EXPECT_EQ(to_lower(0x130), 0x130u);  // two code points in lower case: left as it is
  EXPECT_EQ(to_lower(0x0410), 0x0430u);
  EXPECT_EQ(to_lower(0x0101), 0x0101u);
  EXPECT_EQ(to_lower(0x0100), 0x0101u);
}

TEST(Unicode, InvalidBytesStandAlone) {
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80"}) {
    for (const CodePoint& point : code_points(bad)) {
      EXPECT_EQ(point.value, kInvalidByte);
      EXPECT_EQ(point.size, 1u);
    }
  }
}

/// The matches of a pattern, each in brackets.
std::string matches(const std::string& regex, const std::string& text) {
  const auto pattern = Pattern::parse(regex);
  if (!pattern.ok()) return pattern.status().message();
  const auto points = code_points(text);
  std::vector<PatternMatch> found;
  if (const Status done = pattern->find_all(points, found); !done.ok()) return done.message();
  std::string out;
  std::uint32_t last = 0;
  const auto slice = [&](std::uint32_t a, std::uint32_t b) {
    std::string part;
    for (std::uint32_t i = a; i < b; ++i) append_utf8(part, points[i].value);
    return part;
  };
  for (const PatternMatch& match : found) {
    out += slice(last, match.begin) + "[" + slice(match.begin, match.end) + "]";
    last = match.end;
  }
  return out + slice(last, static_cast<std::uint32_t>(points.size()));
}

TEST(Pattern, MatchesAsOnigurumaDoes) {
  EXPECT_EQ(matches("a|ab", "ab"), "[a]b");
  EXPECT_EQ(matches("(?:a|ab)c", "abc ac"), "[abc] [ac]");
  EXPECT_EQ(matches("x{2,3}", "xxxxx x"), "[xxx][xx] x");
  EXPECT_EQ(matches("x{2}+", "xxxxx"), "[xxxx]x");  // braces and a plus: pairs again and again
  EXPECT_EQ(matches("x{,2}y{z", "xxy{z"), "[xxy{z]");
  EXPECT_EQ(matches("a*?b", "aab"), "[aab]");
  EXPECT_EQ(matches("a++ab|a", "aab"), "[a][a]b");
  EXPECT_EQ(matches("(?>a+)a|b", "aab"), "aa[b]");
  EXPECT_EQ(matches("(a*)*b", "aab"), "[aab]");
  EXPECT_EQ(matches("(?:ab|a)(?:c|bcd)(?:d*)", "abcd"), "[abcd]");
  EXPECT_EQ(matches("\\s+(?!\\S)|\\s+", "a   b  "), "a[  ][ ]b[  ]");
  EXPECT_EQ(matches("(?<=a)b|(?<!a)c", "abac cb"), "a[b]ac [c]b");
  EXPECT_EQ(matches("^a|b$", "a\nab\nb"), "[a]\n[a][b]\n[b]");
  EXPECT_EQ(matches("\\Aa|b\\z", "a\nab\nb"), "[a]\nab\n[b]");
  EXPECT_EQ(matches("\\bx\\b", "x xx x"), "[x] xx [x]");
  EXPECT_EQ(matches("(?i:'s)", "'S's'\xC5\xBF's"), "['S]['s]['\xC5\xBF]['s]");
  EXPECT_EQ(matches("[^\\p{L}\\d]+", "a1-\xC3\xA9_2"), "a1[-]\xC3\xA9[_]2");
  EXPECT_EQ(matches("[\\p{Lu}-]", "A-b"), "[A][-]b");
  EXPECT_EQ(matches("\\P{L}", "a1"), "a[1]");
  EXPECT_EQ(matches("\\p{Han}+",
                    "a\xE4\xBD\xA0\xE5\xA5\xBD"
                    "b"),
            "a[\xE4\xBD\xA0\xE5\xA5\xBD]b");
  EXPECT_EQ(matches("[\\x41-\\u0043]", "ABCD"), "[A][B][C]D");
  EXPECT_EQ(matches("x*", "axx"), "[]a[xx]");
}

TEST(Pattern, CharactersOfUnicode15And16HaveTheirClasses) {
  EXPECT_EQ(matches("\\p{So}", "a\xF0\x9F\xA9\xB7"), "a[\xF0\x9F\xA9\xB7]") << "pink heart, 15.0";
  EXPECT_EQ(matches("\\p{N}", "1\xF0\x9E\x93\xB1"), "[1][\xF0\x9E\x93\xB1]") << "Nag Mundari digit one, 15.0";
  EXPECT_EQ(matches("\\p{Lo}+", "\xF0\xAE\xAF\xB0"), "[\xF0\xAE\xAF\xB0]") << "ideograph of extension I, 15.1";
  EXPECT_EQ(matches("\\p{Nd}", "\xF0\x9C\xB3\xB0"), "[\xF0\x9C\xB3\xB0]") << "outlined digit zero, 16.0";
  EXPECT_EQ(matches("\\p{Lu}\\p{Ll}", "\xE1\xB2\x89\xE1\xB2\x8A"), "[\xE1\xB2\x89\xE1\xB2\x8A]")
      << "Cyrillic tje, 16.0";
  EXPECT_EQ(matches("\\p{Cn}", "\xF0\x9F\xA9\xB7"), "\xF0\x9F\xA9\xB7");
}

TEST(Pattern, WhatItRefuses) {
  const std::string begin = "The tokenizer's pattern \"";
  EXPECT_EQ(matches("(", ""), begin + "(\" has a group that is not closed.");
  EXPECT_EQ(matches("a)", ""), begin + "a)\" has a \")\" that nothing opened.");
  EXPECT_EQ(matches("[a", ""), begin + "[a\" has a class that is not closed.");
  EXPECT_EQ(matches("*", ""), begin + "*\" has a quantifier with nothing to repeat.");
  EXPECT_EQ(matches("(a)\\1", ""), begin + "(a)\\1\" has an escape, which graft does not support.");
  EXPECT_EQ(matches("\\p{Strange}", ""),
            begin + "\\p{Strange}\" has the property \"Strange\", which graft does not support.");
  EXPECT_EQ(matches("((a{900}){900}){900}", ""),
            begin + "((a{900}){900}){900}\" has too many parts or repetitions, which graft does not support.");
  EXPECT_EQ(matches(std::string(200, '('), "").substr(0, 10), begin.substr(0, 10));
}

TEST(Pattern, AHostileOneEndsInTime) {
  EXPECT_EQ(matches("(a+)+b", std::string(40, 'a')),
            "A pattern of the tokenizer takes too many steps on a text of 40 characters.");
  EXPECT_EQ(matches("(?:a|a)*b|.", std::string(60, 'a')).substr(0, 9), "A pattern");
}

}  // namespace
}  // namespace graft::text::tokenizer_test
