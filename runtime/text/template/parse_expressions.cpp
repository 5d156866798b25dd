#include <algorithm>

#include "runtime/text/template/parser.h"

namespace graft::text::jinja {

bool Parser::ends_tuple() const {
  return current().type == TokenType::variable_end || current().type == TokenType::block_end || is_symbol(")") ||
         current().type == TokenType::end || is_word("recursive");
}

NodePtr Parser::tuple(bool with_condition, bool in_brackets) {
  const int line = current().line;
  std::vector<NodePtr> items;
  bool is_tuple = false;
  while (error_.ok() && !ends_tuple()) {
    items.push_back(with_condition ? expression() : disjunction());
    if (!take_symbol(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (items.empty() && !in_brackets) fail("an expression is needed where ", shown_token(), " stands");
  NodePtr node = make(NodeKind::tuple);
  node->line = line;
  for (NodePtr& item : items) add(*node, std::move(item));
  return node;
}

NodePtr Parser::expression() {
  const Level level(*this);
  NodePtr out = disjunction();
  while (is_word("if")) {
    const int line = current().line;
    advance();
    NodePtr node = make(NodeKind::condition, line, disjunction(), std::move(out));
    add(*node, take_word("else") ? expression() : nullptr);
    out = std::move(node);
  }
  return out;
}

NodePtr Parser::disjunction() {
  NodePtr left = conjunction();
  while (is_word("or")) {
    const int line = current().line;
    advance();
    left = make(NodeKind::disjunction, line, std::move(left), conjunction());
  }
  return left;
}

NodePtr Parser::conjunction() {
  NodePtr left = negation();
  while (is_word("and")) {
    const int line = current().line;
    advance();
    left = make(NodeKind::conjunction, line, std::move(left), negation());
  }
  return left;
}

NodePtr Parser::negation() {
  const Level level(*this);
  if (!error_.ok()) return make(NodeKind::none);
  if (!is_word("not")) return comparison();
  const int line = current().line;
  advance();
  return make(NodeKind::negation, line, negation());
}

NodePtr Parser::comparison() {
  const int line = current().line;
  NodePtr first = sum();
  NodePtr node;
  while (error_.ok()) {
    std::string how;
    for (const std::string_view known : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (is_symbol(known)) how = known;
    }
    if (is_word("in")) how = "in";
    if (is_word("not") && ahead().type == TokenType::name && ahead().text == "in") {
      advance();
      how = "not in";
    }
    if (how.empty()) break;
    advance();
    if (node == nullptr) node = make(NodeKind::comparison, line, std::move(first));
    node->texts.push_back(how);
    add(*node, sum());
  }
  return node == nullptr ? std::move(first) : std::move(node);
}

NodePtr Parser::binary(std::initializer_list<std::string_view> symbols, NodePtr (Parser::*operand)()) {
  NodePtr left = (this->*operand)();
  while (error_.ok()) {
    const auto found = std::find_if(symbols.begin(), symbols.end(), [&](auto known) { return is_symbol(known); });
    if (found == symbols.end()) break;
    const int line = current().line;
    advance();
    left = make(NodeKind::binary, line, std::move(left), (this->*operand)());
    left->text = *found;
  }
  return left;
}

NodePtr Parser::unary(bool with_filters) {
  const Level level(*this);
  if (!error_.ok()) return make(NodeKind::none);
  NodePtr node;
  if (is_symbol("-") || is_symbol("+")) {
    const std::string sign = current().text;
    const int line = current().line;
    advance();
    node = make(NodeKind::unary, line, unary(false));
    node->text = sign;
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  if (!with_filters) return node;
  while (error_.ok()) {
    if (is_symbol("|")) {
      node = filters(std::move(node));
    } else if (is_word("is")) {
      node = test(std::move(node));
    } else if (is_symbol("(")) {
      node = call(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

NodePtr Parser::primary() {
  NodePtr node = make(NodeKind::none);
  const TemplateToken token = current();
  switch (token.type) {
    case TokenType::name:
      advance();
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
        node->kind = NodeKind::boolean;
        node->integer = token.text[0] == 't' || token.text[0] == 'T' ? 1 : 0;
      } else if (token.text != "none" && token.text != "None") {
        node->kind = NodeKind::name;
        node->text = token.text;
        note_name(token.text);
      }
      return node;
    case TokenType::string:
      node->kind = NodeKind::string;
      for (; current().type == TokenType::string; advance()) node->text += current().text;
      return node;
    case TokenType::integer:
    case TokenType::real:
      node->kind = token.type == TokenType::integer ? NodeKind::integer : NodeKind::real;
      node->integer = token.integer;
      node->real = token.real;
      advance();
      return node;
    default: break;
  }
  if (take_symbol("(")) {
    node = tuple(true, true);
    expect_symbol(")");
  } else if (is_symbol("[")) {
    list(*node);
  } else if (is_symbol("{")) {
    dict(*node);
  } else {
    fail(shown_token(), " is unexpected");
  }
  return node;
}

void Parser::note_name(std::string_view name) {
  for (Node* macro : macros_) {
    macro->reads_varargs = macro->reads_varargs || name == "varargs";
    macro->reads_kwargs = macro->reads_kwargs || name == "kwargs";
    macro->reads_caller = macro->reads_caller || name == "caller";
  }
}

void Parser::list(Node& node) {
  node.kind = NodeKind::list;
  advance();
  while (error_.ok() && !is_symbol("]")) {
    if (!node.parts.empty()) expect_symbol(",");
    if (is_symbol("]")) break;
    add(node, expression());
  }
  expect_symbol("]");
}

void Parser::dict(Node& node) {
  node.kind = NodeKind::dict;
  advance();
  while (error_.ok() && !is_symbol("}")) {
    if (!node.parts.empty()) expect_symbol(",");
    if (is_symbol("}")) break;
    add(node, expression());
    expect_symbol(":");
    add(node, expression());
  }
  expect_symbol("}");
}

NodePtr Parser::postfix(NodePtr node) {
  while (error_.ok()) {
    if (is_symbol(".")) {
      node = attribute(std::move(node));
    } else if (is_symbol("[")) {
      node = item(std::move(node));
    } else if (is_symbol("(")) {
      node = call(std::move(node));
    } else {
      break;
    }
  }
  return node;
}

NodePtr Parser::attribute(NodePtr of) {
  const int line = current().line;
  advance();
  if (current().type == TokenType::integer) {
    NodePtr number = primary();
    return make(NodeKind::item, line, std::move(of), std::move(number));
  }
  NodePtr node = make(NodeKind::attribute, line, std::move(of));
  node->text = expect_name();
  return node;
}

NodePtr Parser::item(NodePtr of) {
  const int line = current().line;
  advance();
  NodePtr key = subscript();
  if (is_symbol(",")) {
    NodePtr keys = make(NodeKind::tuple, line, std::move(key));
    while (error_.ok() && take_symbol(",")) add(*keys, subscript());
    key = std::move(keys);
  }
  expect_symbol("]");
  return make(NodeKind::item, line, std::move(of), std::move(key));
}

NodePtr Parser::subscript() {
  const auto is_end = [&] { return is_symbol("]") || is_symbol(",") || is_symbol(":"); };
  NodePtr start = is_symbol(":") ? nullptr : expression();
  if (!is_symbol(":")) return start;
  NodePtr node = make(NodeKind::slice);
  add(*node, std::move(start));
  for (int i = 0; i < 2; ++i) add(*node, take_symbol(":") && !is_end() ? expression() : nullptr);
  return node;
}

void Parser::arguments(Node& node) {
  expect_symbol("(");
  bool has_named = false;
  for (bool first = true; error_.ok() && !is_symbol(")"); first = false) {
    if (!first) expect_symbol(",");
    if (is_symbol(")")) break;
    Argument argument;
    if (take_symbol("*")) {
      argument.passing = Passing::all_positional;
    } else if (take_symbol("**")) {
      argument.passing = Passing::all_named;
      has_named = true;
    } else if (current().type == TokenType::name && ahead().type == TokenType::symbol && ahead().text == "=") {
      argument.passing = Passing::named;
      argument.name = current().text;
      advance();
      advance();
      has_named = true;
    } else if (has_named) {
      fail("an argument without a name stands behind one with a name");
    }
    argument.value = expression();
    deepen(node, argument.value);
    node.arguments.push_back(std::move(argument));
  }
  expect_symbol(")");
}

NodePtr Parser::call(NodePtr of) {
  NodePtr node = make(NodeKind::call, current().line, std::move(of));
  arguments(*node);
  return node;
}

std::string Parser::dotted_name() {
  std::string name = expect_name();
  while (take_symbol(".")) name += "." + expect_name();
  return name;
}

NodePtr Parser::filters(NodePtr of, bool starts_with_name) {
  while (error_.ok() && (starts_with_name || is_symbol("|"))) {
    if (!starts_with_name) advance();
    starts_with_name = false;
    NodePtr node = make(NodeKind::filter, current().line, std::move(of));
    node->text = dotted_name();
    if (is_symbol("(")) arguments(*node);
    of = std::move(node);
  }
  return of;
}

NodePtr Parser::test(NodePtr of) {
  const int line = current().line;
  advance();
  const bool is_negated = take_word("not");
  NodePtr node = make(NodeKind::test, line, std::move(of));
  node->text = dotted_name();
  const TokenType type = current().type;
  const bool is_value = type == TokenType::string || type == TokenType::integer || type == TokenType::real ||
                        is_symbol("[") || is_symbol("{") || type == TokenType::name;
  if (is_symbol("(")) {
    arguments(*node);
  } else if (is_value && !is_any_word({"else", "or", "and"})) {
    if (is_word("is")) fail("tests cannot be chained with 'is'");
    Argument argument;
    argument.value = postfix(primary());
    deepen(*node, argument.value);
    node->arguments.push_back(std::move(argument));
  }
  return is_negated ? make(NodeKind::negation, line, std::move(node)) : std::move(node);
}

}  // namespace graft::text::jinja
