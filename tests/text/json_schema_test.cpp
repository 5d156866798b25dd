// JSON schemas as grammars: texts drawn by their masks are JSON that the schema allows, by a reader and a check of
// their own; values that a schema allows are allowed; what is not read is said.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "runtime/text/grammar/json_schema.h"
#include "runtime/text/grammar/matcher.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text::json_schema_test {
namespace {

using Json = nlohmann::ordered_json;

Tokenizer bytes_and_pieces() {
  Vocabulary vocabulary;
  vocabulary.algorithm = Algorithm::char_bpe;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocabulary.tokens.push_back(
        {.text = {'<', '0', 'x', kHex[byte / 16], kHex[byte % 16], '>'}, .kind = TokenKind::byte});
  }
  for (const char* text :
       {"{\"", "\":", "\",", "\"}", "}}", "true", "null", "name", "\"name\"", "[]", "\xC3\xA4\xE2", "12", "0.5"}) {
    vocabulary.tokens.push_back({.text = text});
  }
  return std::move(*Tokenizer::make(std::move(vocabulary)));
}

class Drawer {
 public:
  explicit Drawer(const Json& schema) : tokenizer_(bytes_and_pieces()), table_(tokenizer_) {
    const auto text = grammar_of_schema(schema.dump());
    EXPECT_TRUE(text.ok()) << text.status().message();
    auto grammar = Grammar::parse(text.ok() ? *text : "root ::= \"\"");
    EXPECT_TRUE(grammar.ok()) << grammar.status().message() << "\n" << *text;
    if (grammar.ok()) grammar_ = std::move(*grammar);
    matcher_ = std::make_unique<GrammarMatcher>(grammar_, table_);
  }

  /// One text; after `long_enough` bytes closing characters are preferred.
  std::string draw(std::mt19937& random, std::size_t long_enough) {
    EXPECT_TRUE(matcher_->restart().ok());
    std::string out;
    while (!matcher_->must_end() && out.size() < 20000) {
      if (matcher_->may_end() && random() % 3 == 0) break;
      const auto mask = *matcher_->allowed();
      std::vector<TokenId> may, closing;
      for (TokenId token = 0; token < static_cast<TokenId>(tokenizer_.size()); ++token) {
        if ((mask[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) == 0) continue;
        may.push_back(token);
        const std::string_view bytes = table_.bytes_of(token);
        if (bytes[0] == '"' || bytes[0] == '}' || bytes[0] == ']') closing.push_back(token);
      }
      if (may.empty()) break;
      const auto allowed = [&](char c) { return (mask[static_cast<std::size_t>(c) / 64] >> (c % 64) & 1) != 0; };
      if (allowed('"') && allowed('}') && allowed('x')) closing = {'"'};  // within a string
      if (allowed('a') && allowed('b') && !allowed('"')) {                // in one with a pattern
        closing = {'a', 'b'};
        if (allowed('\\')) closing.push_back('\\');
      }
      if (out.size() > long_enough && !closing.empty()) may = closing;
      const TokenId token = may[random() % may.size()];
      EXPECT_TRUE(matcher_->accept(token).ok());
      out += table_.bytes_of(token);
    }
    EXPECT_TRUE(matcher_->may_end()) << out;
    return out;
  }

  bool allows(std::string_view text) {
    EXPECT_TRUE(matcher_->restart().ok());
    for (const char c : text) {
      if (!matcher_->accept(static_cast<std::uint8_t>(c)).ok()) return false;
    }
    return matcher_->may_end();
  }

 private:
  Tokenizer tokenizer_;
  TokenTable table_;
  Grammar grammar_;
  std::unique_ptr<GrammarMatcher> matcher_;
};

/// Whether a value is of a schema, for the keywords of these tests.
bool is_of(const Json& v, const Json& s, const Json& root) {
  if (s.is_boolean()) return s.get<bool>();
  if (s.contains("$ref")) {
    const std::string ref = s["$ref"];
    return is_of(v, root.at(Json::json_pointer(ref.substr(1))), root);
  }
  if (s.contains("const") && v != s["const"]) return false;
  if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), v) == s["enum"].end()) return false;
  for (const char* key : {"anyOf", "oneOf"}) {
    if (!s.contains(key)) continue;
    const auto fits = std::count_if(s[key].begin(), s[key].end(), [&](const Json& one) { return is_of(v, one, root); });
    if (fits == 0 || (fits > 1 && key == std::string("oneOf"))) return false;
  }
  const auto type_fits = [&](const std::string& type) {
    return (type == "object" && v.is_object()) || (type == "array" && v.is_array()) ||
           (type == "string" && v.is_string()) || (type == "number" && v.is_number()) ||
           (type == "integer" && v.is_number_integer()) || (type == "boolean" && v.is_boolean()) ||
           (type == "null" && v.is_null());
  };
  if (s.contains("type")) {
    const Json types = s["type"].is_array() ? s["type"] : Json::array({s["type"]});
    if (std::none_of(types.begin(), types.end(), [&](const Json& type) { return type_fits(type); })) return false;
  }
  const auto number = [&](const char* key, double otherwise) { return s.value(key, otherwise); };
  if (v.is_number()) {
    const double x = v.get<double>();
    if (x < number("minimum", -1e300) || x > number("maximum", 1e300)) return false;
    if (x <= number("exclusiveMinimum", -1e300) || x >= number("exclusiveMaximum", 1e300)) return false;
  }
  if (v.is_string()) {
    const std::string text = v;
    const auto length = static_cast<double>(code_points(text).size());
    if (length < number("minLength", 0) || length > number("maxLength", 1e9)) return false;
    if (s.contains("pattern") && !std::regex_search(text, std::regex(s["pattern"].get<std::string>()))) return false;
  }
  if (v.is_array()) {
    const auto size = static_cast<double>(v.size());
    if (size < number("minItems", 0) || size > number("maxItems", 1e9)) return false;
    const std::size_t before = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      if (i < before ? !is_of(v[i], s["prefixItems"][i], root) : s.contains("items") && !is_of(v[i], s["items"], root))
        return false;
    }
  }
  if (v.is_object()) {
    const Json& required = s.value("required", Json::array());
    for (const Json& key : required) {
      if (!v.contains(key.get<std::string>())) return false;
    }
    for (const auto& [key, value] : v.items()) {
      const bool known = s.contains("properties") && s["properties"].contains(key);
      if (known ? !is_of(value, s["properties"][key], root)
                : s.contains("additionalProperties") && !is_of(value, s["additionalProperties"], root))
        return false;
    }
  }
  return true;
}

const std::vector<const char*> kSchemas = {
    R"({})",
    R"({"type": "object"})",
    R"({"type": "string", "minLength": 2, "maxLength": 5})",
    R"({"type": ["integer", "null", "boolean"]})",
    R"({"type": "number"})",
    R"({"type": "integer", "minimum": -17, "maximum": 1042})",
    R"({"type": "integer", "exclusiveMinimum": 7, "exclusiveMaximum": 10})",
    R"({"type": "integer", "minimum": 0.5})",
    R"({"type": "integer", "maximum": -98})",
    R"({"enum": ["a\"b", 3, null, [1, {"x": "\n"}], 0.5]})",
    R"({"const": {"a": [true]}})",
    R"({"enum": [1, "x", 2, null], "type": "integer"})",
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name"], "additionalProperties": false})",
    R"({"properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}, "additionalProperties": {"type": "boolean"}})",
    R"({"type": "object", "properties": {"na": {"type": "null"}, "name": {"type": "null"}}, "required": ["name", "other"],
        "additionalProperties": {"type": "integer"}})",
    R"({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}})",
    R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4})",
    R"({"type": "array", "items": {"type": "null"}, "minItems": 1})",
    R"({"type": "array", "maxItems": 0})",
    R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": {"type": "string"}, "minItems": 3, "maxItems": 5})",
    R"({"type": "array", "prefixItems": [{"type": "null"}, {"type": "boolean"}], "items": false})",
    R"({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}]})",
    R"({"oneOf": [{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "null"}}, "required": ["kind", "x"]},
                  {"type": "object", "properties": {"kind": {"const": "b"}}, "required": ["kind"]}, {"type": "array"}]})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "required": ["value", "next"]}}, "$ref": "#/$defs/node"})",
    R"({"type": "array", "items": {"$ref": "#"}, "maxItems": 2})",
    R"({"type": "string", "pattern": "^[A-Z][a-z]{1,3}-\\d+(\\.5|\\.25)?$"})",
    R"({"type": "string", "pattern": "ab|c[^d]"})",
    R"({"type": "string", "pattern": "^(?:\\w+ ?){1,2}\"$"})",
    R"({"type": "string", "format": "date-time"})",
    R"({"type": "string", "format": "uuid"})"};

TEST(JsonSchema, WhatIsDrawnIsJsonThatTheSchemaAllows) {
  std::mt19937 random(11);
  for (const char* text : kSchemas) {
    const Json schema = Json::parse(text);
    Drawer drawer(schema);
    for (int i = 0; i < 40; ++i) {
      const std::string drawn = drawer.draw(random, 60);
      ASSERT_TRUE(Json::accept(drawn)) << text << "\n" << drawn;
      EXPECT_TRUE(is_of(Json::parse(drawn), schema, schema)) << text << "\n" << drawn;
    }
  }
}

TEST(JsonSchema, WhatTheSchemaAllowsMayBeSaidAndNothingElse) {
  struct Row {
    const char* schema;
    std::vector<const char*> fits;
    std::vector<const char*> fits_not;
  };
  const Row rows[] = {
      {kSchemas[0],
       {"{}", "[1,2.5e3,\"\\u00e4\\n\",{\"a\":{}}]", "{\"a\": [1, null]}", "-0.5"},
       {"", "01", "[1,]", "\"\\x\"", "\"\\ud800\"", "nul", "\"\n\""}},
      {kSchemas[5],
       {"-17", "-9", "-1", "0", "9", "10", "99", "100", "999", "1000", "1042"},
       {"-18", "1043", "-0", "00", "1050", "2000", "1.0"}},
      {kSchemas[6], {"8", "9"}, {"7", "10", "88"}},
      {kSchemas[8], {"-98", "-99", "-100", "-123456"}, {"-97", "-9", "0", "98"}},
      {kSchemas[12],
       {R"({"name":"x"})", R"({"name": "x", "age": 150})"},
       {R"({"age":3})", R"({"name":"x","age":151})", R"({"age":3,"name":"x"})", R"({"name":"x","z":1})",
        R"({"name":"x",})"}},
      {kSchemas[13],
       {"{}", R"({"a":null})", R"({"b":null,"c":null})", R"({"a":null,"d":true})", R"({"d":true,"ab":false,"":true})"},
       {R"({"b":null,"a":null})", R"({"d":true,"a":true})", R"({,"a":null})"}},
      {kSchemas[14],
       {R"({"name":null,"other":1})", R"({"na":null,"name":null,"other":1,"nam":2,"names":3,"n":4})"},
       {R"({"name":null})", R"({"name":null,"other":1,"na":2})"}},
      {kSchemas[16], {"[1,2]", "[1, 2,3,4]"}, {"[1]", "[]", "[1,2,3,4,5]"}},
      {kSchemas[18], {"[]"}, {"[1]"}},
      {kSchemas[19],
       {R"([null,true,"a"])", R"([null,true,"a","b","c"])"},
       {"[null,true]", R"([null,true,"a","b","c","d"])"}},
      {kSchemas[25], {"\"Ab-1\"", "\"Abcd-12.25\""}, {"\"Abcde-1\"", "\"ab-1\"", "\"Ab-1.\"", "\"Ab-\""}},
      {kSchemas[26], {"\"xxaby\"", "\"cz\""}, {"\"cd\"", "\"\""}},
  };
  for (const Row& row : rows) {
    Drawer drawer(Json::parse(row.schema));
    for (const char* text : row.fits) EXPECT_TRUE(drawer.allows(text)) << row.schema << "\n" << text;
    for (const char* text : row.fits_not) EXPECT_FALSE(drawer.allows(text)) << row.schema << "\n" << text;
  }
}

TEST(JsonSchema, EveryIntegerOfARange) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    const auto a = static_cast<std::int64_t>(random() % 2500) - 1200;
    const auto b = a + static_cast<std::int64_t>(random() % (i % 2 == 0 ? 30 : 1500));
    Drawer drawer(Json{{"type", "integer"}, {"minimum", a}, {"maximum", b}});
    for (int k = 0; k < 150; ++k) {
      const auto x = k < 2 ? (k == 0 ? a : b) : static_cast<std::int64_t>(random() % 4000) - 2000;
      EXPECT_EQ(drawer.allows(std::to_string(x)), x >= a && x <= b) << x << " of " << a << " to " << b;
    }
  }
}

TEST(JsonSchema, SaysWhatItDoesNotRead) {
  const auto says = [](const char* schema, const char* what) {
    auto made = grammar_of_schema(schema);
    Status status = made.status();
    if (status.ok()) status = Grammar::parse(*made).status();
    ASSERT_FALSE(status.ok()) << schema;
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
    EXPECT_EQ(status.message().back(), '.');
  };
  says("", "JSON");
  says("[1]", "no object");
  says("false", "nothing is allowed");
  says(R"({"type": "text"})", "unknown \"type\"");
  says(R"({"not": {}})", "\"not\"");
  says(R"({"type": "array", "uniqueItems": true})", "\"uniqueItems\"");
  says(R"({"type": "number", "minimum": 1})", "\"minimum\"");
  says(R"({"properties": {"a": {"multipleOf": 3}}})", "#/properties/a");
  says(R"({"$ref": "http://example.org/x"})", "within the schema");
  says(R"({"$ref": "#/$defs/x"})", "not there");
  says(R"({"enum": [], "type": "string"})", "no value at all");
  says(R"({"anyOf": [{}], "type": "string"})", "beside \"anyOf\"");
  says(R"({"oneOf": [{"type": "string"}, {"type": "string", "minLength": 3}]})", "may both allow");
  says(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})", "may both allow");
  says(R"({"allOf": [{}, {}]})", "\"allOf\" of 2");
  says(R"({"type": "integer", "minimum": 3, "maximum": 2})", "no number");
  says(R"({"minLength": 3, "maxLength": 2})", "no length");
  says(R"({"minLength": 1, "pattern": "a"})", "beside");
  says(R"({"maxLength": 1e9})", "above");
  for (const char* pattern :
       {"(?=a)", "a(?<!b)", "\\\\bx", "(a)\\\\1", "a{", "*", "[z-a]", "a^", "(a", "[\\\"]", "^a|b$"}) {
    says((std::string(R"({"pattern": ")") + pattern + "\"}").c_str(), "pattern");
  }
  const auto endless = Grammar::parse(*grammar_of_schema(R"({"$ref": "#"})"));
  ASSERT_TRUE(endless.ok());
  const Tokenizer tokenizer = bytes_and_pieces();
  const TokenTable table(tokenizer);
  EXPECT_NE(GrammarMatcher(*endless, table).restart().message().find("no text at all"), std::string::npos);
  std::string deep = "{\"type\": \"null\"}";
  for (int i = 0; i < 70; ++i) deep = "{\"items\": " + deep + "}";
  says(deep.c_str(), "levels deep");
}

}  // namespace
}  // namespace graft::text::json_schema_test
