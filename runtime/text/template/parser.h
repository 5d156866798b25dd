// What reads templates: statements in parse_statements.cpp, expressions in parse_expressions.cpp.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template/lexer.h"
#include "runtime/text/template/syntax.h"

namespace graft::text::jinja {

inline constexpr int kDeepestNesting = 200;  // of blocks and brackets as they are read
inline constexpr int kDeepestTree = 150;     // of what is run: chains of operators are nested too

using Body = std::vector<NodePtr>;

/// Sticky: after an error everything reads as the template's end.
class Parser {
 public:
  explicit Parser(std::vector<TemplateToken> tokens) : tokens_(std::move(tokens)) {}

  Result<Body> run() {
    Body body = statements({});
    if (error_.ok() && current().type != TokenType::end) fail("something stands behind the end");
    if (!error_.ok()) return error_;
    return body;
  }

 private:
  // Tokens.
  const TemplateToken& current() const { return tokens_[at_]; }
  const TemplateToken& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void advance() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  bool is_symbol(std::string_view text) const { return current().type == TokenType::symbol && current().text == text; }
  bool is_word(std::string_view text) const { return current().type == TokenType::name && current().text == text; }
  bool is_any_word(std::initializer_list<std::string_view> words) const {
    return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return is_word(word); });
  }
  bool take_symbol(std::string_view text) {
    if (!is_symbol(text)) return false;
    advance();
    return true;
  }
  bool take_word(std::string_view text) {
    if (!is_word(text)) return false;
    advance();
    return true;
  }
  std::string shown_token() const {
    switch (current().type) {
      case TokenType::block_end:
      case TokenType::variable_end: return "the tag's end";
      case TokenType::end: return "the template's end";
      case TokenType::string: return "a text";
      default: return cat("'", shown(current().text), "'");
    }
  }
  template <typename... Parts>
  void fail(const Parts&... parts) {
    if (error_.ok()) error_ = invalid("line ", current().line, ": ", parts...);
    at_ = tokens_.size() - 1;
  }
  void expect_symbol(std::string_view text) {
    if (!take_symbol(text)) fail("'", text, "' is needed where ", shown_token(), " stands");
  }
  std::string expect_name() {
    if (current().type != TokenType::name) {
      fail("a name is needed where ", shown_token(), " stands");
      return {};
    }
    std::string out = current().text;
    advance();
    return out;
  }
  void expect_word(std::string_view text) {
    if (!take_word(text)) fail("'", text, "' is needed where ", shown_token(), " stands");
  }
  void expect_block_end() {
    if (current().type != TokenType::block_end) return fail("the tag's end is needed where ", shown_token(), " stands");
    advance();
  }

  // Nodes.
  NodePtr make(NodeKind kind) const {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->line = current().line;
    return node;
  }
  NodePtr make(NodeKind kind, int line, NodePtr first, NodePtr second = nullptr) {
    NodePtr node = make(kind);
    node->line = line;
    add(*node, std::move(first));
    if (second != nullptr) add(*node, std::move(second));
    return node;
  }
  void deepen(Node& node, const NodePtr& part) {
    if (part != nullptr) node.depth = std::max(node.depth, part->depth + 1);
    if (node.depth > kDeepestTree) fail("it is nested more than ", kDeepestTree, " deep");
  }
  void add(Node& node, NodePtr part) {
    deepen(node, part);
    node.parts.push_back(std::move(part));
  }
  void add_body(Node& node, Body body) {
    for (const NodePtr& part : body) deepen(node, part);
    node.bodies.push_back(std::move(body));
  }
  /// Counts how deep reading is nested; false and an error where that is too deep.
  struct Level {
    explicit Level(Parser& of) : parser(of) {
      if (++parser.level_ > kDeepestNesting) parser.fail("it is nested more than ", kDeepestNesting, " deep");
    }
    ~Level() { --parser.level_; }
    Parser& parser;
  };

  // Statements.
  Body statements(std::initializer_list<std::string_view> ends);
  /// From behind a tag's end to the word that ends the block; that word is current.
  Body body_until(std::initializer_list<std::string_view> ends);
  void close(Node& node, std::string_view end);
  NodePtr statement();
  NodePtr branch();
  NodePtr loop();
  NodePtr assign();
  /// What reading the names of a macro's body tells: whether it takes more than its parameters.
  void macro_body(Node& node, std::string_view end);
  NodePtr macro();
  void signature(Node& node);
  NodePtr call_block();
  NodePtr filter_block();
  NodePtr with();
  /// A name or several: where values go.
  NodePtr target();

  // Expressions, from the loosest to the tightest.
  bool ends_tuple() const;
  NodePtr tuple(bool with_condition = true, bool in_brackets = false);
  NodePtr expression();
  NodePtr disjunction();
  NodePtr conjunction();
  NodePtr negation();
  NodePtr comparison();
  NodePtr binary(std::initializer_list<std::string_view> symbols, NodePtr (Parser::*operand)());
  NodePtr sum() { return binary({"+", "-"}, &Parser::joined); }
  NodePtr joined() { return binary({"~"}, &Parser::product); }
  NodePtr product() { return binary({"*", "/", "//", "%"}, &Parser::power); }
  NodePtr power() { return binary({"**"}, &Parser::filtered); }
  NodePtr filtered() { return unary(true); }
  NodePtr unary(bool with_filters);
  NodePtr primary();
  void note_name(std::string_view name);
  void list(Node& node);
  void dict(Node& node);
  NodePtr postfix(NodePtr node);
  NodePtr attribute(NodePtr of);
  NodePtr item(NodePtr of);
  NodePtr subscript();
  void arguments(Node& node);
  NodePtr call(NodePtr of);
  std::string dotted_name();
  NodePtr filters(NodePtr of, bool starts_with_name = false);
  NodePtr test(NodePtr of);

  std::vector<TemplateToken> tokens_;
  std::size_t at_ = 0;
  Status error_;
  int level_ = 0;
  int loops_ = 0;
  std::vector<Node*> macros_;
};

}  // namespace graft::text::jinja
