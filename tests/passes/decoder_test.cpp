// Which graphs generate text, and what is said of those that do not.
#include <gtest/gtest.h>

#include "platform/base/text.h"
#include "runtime/passes/decode_graph.h"
#include "tests/support/parse_graph.h"

namespace graft::test::passes_decoder_test {
namespace {

std::string answer(std::string_view inputs, std::string_view table, std::string_view nodes) {
  auto parsed = parse_graph(cat(inputs, "parameter t: f32", table, "\n", nodes));
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  if (!parsed.ok()) return "";
  const auto ports = passes::decoder_ports(parsed->graph);
  return ports.ok() ? cat(ports->batch, " ", ports->seq, " ", ports->vocabulary) : ports.status().message();
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr std::string_view kTokens = "input x: i32[b, s]\n";

TEST(PassesDecoder, TokensInAndScoresOfAVocabularyOut) {
  EXPECT_EQ(answer(kTokens, "[7, 9]", "y = gather(t, x) {axis=0}\noutput y\n"), "b s 9")
      << "the only output, of any name";
  EXPECT_EQ(answer(kTokens, "[7, 9]", "logits = gather(t, x) {axis=0}\nz = exp(logits)\noutput z\noutput logits\n"),
            "b s 9");
  EXPECT_TRUE(contains(answer(kTokens, "[7, 9]", "y = gather(t, x) {axis=0}\nz = exp(y)\noutput y\noutput z\n"),
                       "no output \"logits\""));
}

TEST(PassesDecoder, OtherShapesAreNamed) {
  const auto refused = [](std::string_view inputs, std::string_view table, std::string_view nodes,
                          std::string_view says) {
    const std::string text = answer(inputs, table, nodes);
    EXPECT_TRUE(contains(text, says)) << text;
  };
  constexpr std::string_view kLooked = "y = gather(t, x) {axis=0}\noutput y\n", kLogits = "f32[batch, seq, vocabulary]";
  refused("input x: i32[b, s]\ninput z: f32[2]\n", "[7, 9]", kLooked, "2 inputs");
  refused("input x: i32[b]\n", "[7, 9]", kLooked, "takes i32[batch, seq]");
  refused("input x: i32[b, b]\n", "[7, 9]", kLooked, "takes i32[batch, seq]");
  refused("input x: i32[b, 4]\n", "[7, 9]", kLooked, "takes i32[batch, seq]");
  refused("input x: i32[3, s]\n", "[7, 9]", kLooked, "takes i32[batch, seq]");
  refused(kTokens, "[7, 9, 2]", kLooked, kLogits);
  refused(kTokens, "[7]", kLooked, kLogits);
  refused(kTokens, "[7, 9]", "l = gather(t, x) {axis=0}\ny = transpose(l) {perm=[1, 0, 2]}\noutput y\n", kLogits);
  refused(kTokens, "[7, 9]", "l = gather(t, x) {axis=0}\ny = reduce_sum(l) {axes=[0], keepdims=1}\noutput y\n",
          kLogits);
  refused(kTokens, "[7, 9]", "l = gather(t, x) {axis=0}\ny = reduce_sum(l) {axes=[1], keepdims=1}\noutput y\n",
          kLogits);
}

}  // namespace
}  // namespace graft::test::passes_decoder_test
