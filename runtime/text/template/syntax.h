// A template as a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft::text::jinja {

enum class NodeKind : std::uint8_t {
  // Expressions. `parts` are the operands.
  none,
  boolean,
  integer,
  real,
  string,
  name,
  list,
  tuple,
  dict,         ///< key, value, key, value ...
  attribute,    ///< parts[0].text
  item,         ///< parts[0][parts[1]]
  slice,        ///< start, stop, step; null where left out
  call,         ///< parts[0](arguments)
  filter,       ///< parts[0] | text(arguments); parts[0] is null in filter blocks
  test,         ///< parts[0] is text(arguments)
  negation,     ///< not
  conjunction,  ///< and
  disjunction,  ///< or
  condition,    ///< parts[1] if parts[0] else parts[2], which may be null
  unary,        ///< text parts[0]
  binary,       ///< parts[0] text parts[1]
  comparison,   ///< parts[0] texts[0] parts[1] texts[1] parts[2] ...
  // Statements.
  data,          ///< text as it stands
  output,        ///< parts[0]
  branch,        ///< if parts[i]: bodies[i]; one more body: else
  loop,          ///< for parts[0] in parts[1] if parts[2]: bodies[0], else bodies[1]; text: "recursive" or nothing
  assign,        ///< parts[0] = parts[1]
  assign_block,  ///< parts[0] = bodies[0], through the filter parts[1] where there is one
  macro,         ///< text(arguments): bodies[0]
  call_block,    ///< parts[0] is the call, whose caller takes the arguments and gives bodies[0]
  filter_block,  ///< parts[0] of bodies[0]
  with,          ///< parts: target, value, ...
  generation,    ///< bodies[0] is what the assistant says
  stop,          ///< break
  next           ///< continue
};

struct Node;
using NodePtr = std::unique_ptr<Node>;

enum class Passing : std::uint8_t { positional, named, all_positional, all_named };

/// Of a call; of a macro, a parameter and its default.
struct Argument {
  Passing passing = Passing::positional;
  std::string name;
  NodePtr value;
};

struct Node {
  NodeKind kind = NodeKind::none;
  int line = 0;
  int depth = 0;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
  std::vector<NodePtr> parts;
  std::vector<std::string> texts;
  std::vector<Argument> arguments;
  std::vector<std::vector<NodePtr>> bodies;
  bool reads_varargs = false, reads_kwargs = false, reads_caller = false;  ///< of macros
};

/// invalid_argument: what is no template, or nested too deeply: "line 3: ...".
Result<std::vector<NodePtr>> parse_template(std::string_view source);

}  // namespace graft::text::jinja
