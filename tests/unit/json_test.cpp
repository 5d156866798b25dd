#include "platform/base/json.h"

#include <gtest/gtest.h>

namespace graft::test::json_test {
namespace {

json::Value parsed(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text << ": " << value.status().message();
  return value.ok() ? std::move(*value) : json::Value();
}

TEST(Json, ReadsEveryKindOfValue) {
  const json::Value all = parsed(R"( {"a": [1, -2.5e1, true, null], "b": {"c": "x"}, "a": "again"} )");
  ASSERT_TRUE(all.is_object());
  ASSERT_NE(all.find("a"), nullptr);
  EXPECT_EQ(all.find("a")->text(), "again") << "of equal names the last counts";
  EXPECT_EQ(all.members()[0].second.items()[1].number(), -25);
  EXPECT_TRUE(all.members()[0].second.items()[2].truth());
  EXPECT_EQ(all.find("b")->find("c")->text(), "x");
  EXPECT_EQ(all.find("z"), nullptr);
}

TEST(Json, EscapesBecomeUtf8) {
  EXPECT_EQ(parsed(R"("\u00e9\n\"\ud83d\ude00\u0041")").text(),
            "\xc3\xa9\n\"\xf0\x9f\x98\x80"
            "A");
}

TEST(Json, QuotedTextReadsBackAndBrokenBytesAreReplaced) {
  const std::string text = "a\"\\\n\x01\xc3\xa9";
  EXPECT_EQ(json::quoted(text), "\"a\\\"\\\\\\n\\u0001\xc3\xa9\"");
  EXPECT_EQ(parsed(json::quoted(text)).text(), text);
  EXPECT_EQ(json::quoted("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "{a:1}", "01", "1.", "-", "tru", "\"\n\"", "\"\\x\"",
                           "\"\\ud800\"", "\"\xff\"", "\"\xed\xa0\x80\"", "1 2", "1e999", "[1}"}) {
    EXPECT_FALSE(json::parse(text).ok()) << text;
  }
  const std::string deep(json::kMaxDepth + 1, '[');
  EXPECT_NE(json::parse(deep).status().message().find("nests more than 64 deep"), std::string::npos);
  const std::string fits = std::string(json::kMaxDepth, '[') + std::string(json::kMaxDepth, ']');
  EXPECT_TRUE(json::parse(fits).ok());
}

}  // namespace
}  // namespace graft::test::json_test
