#include "runtime/text/template/parser.h"

namespace graft::text::jinja {

Body Parser::statements(std::initializer_list<std::string_view> ends) {
  const Level level(*this);
  Body body;
  while (error_.ok() && current().type != TokenType::end) {
    const TemplateToken& token = current();
    if (token.type == TokenType::data) {
      NodePtr node = make(NodeKind::data);
      node->text = token.text;
      body.push_back(std::move(node));
      advance();
    } else if (token.type == TokenType::variable_begin) {
      advance();
      const int line = current().line;
      NodePtr node = make(NodeKind::output, line, tuple());
      if (current().type != TokenType::variable_end) {
        fail("'}}' is needed where ", shown_token(), " stands");
      }
      advance();
      body.push_back(std::move(node));
    } else {
      advance();  // block_begin
      if (is_any_word(ends)) return body;
      if (NodePtr node = statement()) body.push_back(std::move(node));
    }
  }
  if (ends.size() > 0) fail("a block does not end: '", *(ends.end() - 1), "' is missing");
  return body;
}

Body Parser::body_until(std::initializer_list<std::string_view> ends) {
  take_symbol(":");
  expect_block_end();
  return statements(ends);
}

void Parser::close(Node& node, std::string_view end) {
  add_body(node, body_until({end}));
  advance();
  expect_block_end();
}

NodePtr Parser::statement() {
  const std::string word = current().type == TokenType::name ? current().text : std::string();
  if (word == "if") return branch();
  if (word == "for") return loop();
  if (word == "set") return assign();
  if (word == "macro") return macro();
  if (word == "call") return call_block();
  if (word == "filter") return filter_block();
  if (word == "with") return with();
  if (word == "generation") {
    NodePtr node = make(NodeKind::generation);
    advance();
    close(*node, "endgeneration");
    return node;
  }
  if (word == "break" || word == "continue") {
    if (loops_ == 0) fail("'", word, "' stands outside of a loop");
    NodePtr node = make(word == "break" ? NodeKind::stop : NodeKind::next);
    advance();
    expect_block_end();
    return node;
  }
  fail("the tag ", shown_token(), " is not known");
  return nullptr;
}

NodePtr Parser::branch() {
  NodePtr node = make(NodeKind::branch);
  while (error_.ok()) {
    advance();
    add(*node, tuple(false));
    add_body(*node, body_until({"elif", "else", "endif"}));
    if (is_word("elif")) continue;
    if (take_word("else")) {
      close(*node, "endif");
    } else {
      advance();
      expect_block_end();
    }
    break;
  }
  return node;
}

NodePtr Parser::loop() {
  NodePtr node = make(NodeKind::loop);
  advance();
  add(*node, target());
  expect_word("in");
  add(*node, tuple(false));
  add(*node, take_word("if") ? expression() : nullptr);
  if (take_word("recursive")) node->text = "recursive";
  ++loops_;
  add_body(*node, body_until({"endfor", "else"}));
  --loops_;
  if (take_word("else")) {
    close(*node, "endfor");
  } else {
    advance();
    expect_block_end();
  }
  return node;
}

NodePtr Parser::assign() {
  NodePtr node = make(NodeKind::assign);
  advance();
  if (ahead().type == TokenType::symbol && ahead().text == ".") {
    NodePtr place = make(NodeKind::attribute);
    place->texts.push_back(expect_name());
    advance();
    place->text = expect_name();
    add(*node, std::move(place));
  } else {
    add(*node, target());
  }
  if (take_symbol("=")) {
    add(*node, tuple());
    expect_block_end();
    return node;
  }
  node->kind = NodeKind::assign_block;
  add(*node, is_symbol("|") ? filters(nullptr) : nullptr);
  close(*node, "endset");
  return node;
}

void Parser::macro_body(Node& node, std::string_view end) {
  macros_.push_back(&node);
  const int loops = std::exchange(loops_, 0);
  close(node, end);
  loops_ = loops;
  macros_.pop_back();
}

NodePtr Parser::macro() {
  NodePtr node = make(NodeKind::macro);
  advance();
  node->text = expect_name();
  signature(*node);
  macro_body(*node, "endmacro");
  return node;
}

void Parser::signature(Node& node) {
  expect_symbol("(");
  bool has_default = false;
  while (error_.ok() && !is_symbol(")")) {
    if (!node.arguments.empty()) expect_symbol(",");
    Argument parameter;
    parameter.name = expect_name();
    if (take_symbol("=")) {
      parameter.value = expression();
      deepen(node, parameter.value);
      has_default = true;
    } else if (has_default) {
      fail("a parameter without a default stands behind one with a default");
    }
    node.arguments.push_back(std::move(parameter));
  }
  expect_symbol(")");
}

NodePtr Parser::call_block() {
  NodePtr node = make(NodeKind::call_block);
  advance();
  if (is_symbol("(")) signature(*node);
  add(*node, expression());
  if (error_.ok() && node->parts[0]->kind != NodeKind::call) fail("the tag 'call' needs a call");
  macro_body(*node, "endcall");
  return node;
}

NodePtr Parser::filter_block() {
  NodePtr node = make(NodeKind::filter_block);
  advance();
  add(*node, filters(nullptr, true));
  close(*node, "endfilter");
  return node;
}

NodePtr Parser::with() {
  NodePtr node = make(NodeKind::with);
  advance();
  while (error_.ok() && current().type != TokenType::block_end) {
    if (!node->parts.empty()) expect_symbol(",");
    add(*node, target());
    expect_symbol("=");
    add(*node, expression());
  }
  close(*node, "endwith");
  return node;
}

NodePtr Parser::target() {
  const int line = current().line;
  std::vector<NodePtr> names;
  bool is_tuple = false;
  do {
    if (!names.empty() && (is_word("in") || is_symbol("=") || is_symbol(")"))) break;
    const Level level(*this);
    if (take_symbol("(")) {
      names.push_back(target());
      expect_symbol(")");
    } else {
      NodePtr name = make(NodeKind::name);
      name->text = expect_name();
      if (name->text == "true" || name->text == "false" || name->text == "none" || name->text == "True" ||
          name->text == "False" || name->text == "None") {
        fail("'", name->text, "' cannot be assigned");
      }
      names.push_back(std::move(name));
    }
    is_tuple = is_tuple || is_symbol(",");
  } while (error_.ok() && take_symbol(","));
  if (!is_tuple) return std::move(names[0]);
  NodePtr node = make(NodeKind::tuple);
  node->line = line;
  for (NodePtr& name : names) add(*node, std::move(name));
  return node;
}

Result<std::vector<NodePtr>> parse_template(std::string_view source) {
  GRAFT_TRY_ASSIGN(auto tokens, template_tokens(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace graft::text::jinja
