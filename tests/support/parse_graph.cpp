#include "tests/support/parse_graph.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "platform/base/text.h"
#include "runtime/core/graph_text.h"
#include "runtime/core/op_def.h"

namespace graft::test {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Parts between commas that stand in no bracket and no quotation.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char ch = i < text.size() ? text[i] : ',';
    if (ch == '"') quoted = !quoted;
    if (ch == '[') ++depth;
    if (ch == ']') --depth;
    if (i < text.size() && (ch != ',' || depth != 0 || quoted)) continue;
    const std::string_view part = trimmed(text.substr(start, i - start));
    if (!part.empty()) parts.push_back(part);
    start = i + 1;
  }
  return parts;
}

Result<Shape> parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return invalid("\"", text, "\" is no shape.");
  std::vector<Dim> dims;
  for (const std::string_view part : parts_of(text.substr(1, text.size() - 2))) {
    GRAFT_TRY_ASSIGN(const Dim dim, Dim::parse(part));
    dims.push_back(dim);
  }
  return Shape(std::move(dims));
}

struct Type {
  DType dtype = DType::f32;
  Shape shape;
};

Result<Type> parse_type(std::string_view text) {
  const std::size_t bracket = text.find('[');
  if (bracket == std::string_view::npos) return invalid("\"", text, "\" is no type.");
  GRAFT_TRY_ASSIGN(const Shape shape, parse_shape(trimmed(text.substr(bracket))));
  for (const DType dtype : {DType::f32, DType::i32, DType::boolean}) {
    if (dtype_name(dtype) == text.substr(0, bracket)) return Type{dtype, shape};
  }
  return invalid("\"", text, "\" has no known dtype.");
}

Result<AttrValue> parse_attr(std::string_view text) {
  if (text.starts_with("shape[")) {
    GRAFT_TRY_ASSIGN(const Shape shape, parse_shape(text.substr(5)));
    return AttrValue(shape);
  }
  if (text.starts_with('"')) return AttrValue(std::string(text.substr(1, text.size() - 2)));
  if (text.starts_with('[')) {
    Ints list;
    for (const std::string_view part : parts_of(text.substr(1, text.size() - 2))) {
      list.push_back(std::strtoll(std::string(part).c_str(), nullptr, 10));
    }
    return AttrValue(std::move(list));
  }
  const std::string number(text);
  char* end = nullptr;
  if (text.find_first_not_of("-0123456789") == std::string_view::npos) {
    return AttrValue(std::int64_t{std::strtoll(number.c_str(), &end, 10)});
  }
  const double value = std::strtod(number.c_str(), &end);
  if (*end != '\0') return invalid("\"", text, "\" is no attribute's value.");
  return AttrValue(value);
}

class Parser {
 public:
  Result<ParsedGraph> run(std::string_view text) {
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = std::min(text.find('\n', start), text.size());
      const std::string_view line = trimmed(text.substr(start, end - start));
      if (!line.empty()) GRAFT_TRY(parse_line(line).with_context(cat("In the line \"", line, "\"")));
      start = end + 1;
    }
    return std::move(out_);
  }

 private:
  Status parse_line(std::string_view line) {
    constexpr std::pair<std::string_view, ValueKind> kKinds[] = {{"input ", ValueKind::input},
                                                                 {"constant ", ValueKind::constant},
                                                                 {"parameter ", ValueKind::parameter},
                                                                 {"state ", ValueKind::state}};
    for (const auto& [word, kind] : kKinds) {
      if (line.starts_with(word)) return parse_value(line.substr(word.size()), kind);
    }
    if (line.starts_with("output ")) return parse_output(line.substr(7));
    return parse_node(line);
  }

  Status parse_value(std::string_view text, ValueKind kind) {
    const std::size_t equals = text.find(" = ");
    const std::string_view contents = equals == std::string_view::npos ? "" : text.substr(equals + 3);
    text = text.substr(0, equals);
    const std::size_t colon = text.rfind(": ");
    if (colon == std::string_view::npos) return invalid("There is no \": \" before its type.");
    GRAFT_TRY_ASSIGN(const Type type, parse_type(text.substr(colon + 2)));
    GRAFT_TRY_ASSIGN(const ValueId id,
                     out_.graph.add_value(std::string(text.substr(0, colon)), type.dtype, type.shape, kind));
    if (contents.empty()) return {};
    std::vector<std::byte> bytes;
    for (const std::string_view part : parts_of(contents)) {
      const double number = std::strtod(std::string(part).c_str(), nullptr);
      const auto single = static_cast<float>(number);
      const auto whole = type.dtype == DType::f32 ? 0 : static_cast<std::int32_t>(number);
      std::byte word[4];
      std::memcpy(word, type.dtype == DType::f32 ? static_cast<const void*>(&single) : &whole, sizeof(word));
      bytes.insert(bytes.end(), word, word + sizeof(word));
    }
    if (bytes.size() != 4 * type.shape.elements()) return invalid("Its contents do not fit its shape.");
    out_.contents.push_back(std::move(bytes));
    out_.graph.mutable_value(id).contents = out_.contents.back();
    return {};
  }

  Status parse_output(std::string_view text) {
    const std::size_t equals = text.find(" = ");
    const std::string_view value = equals == std::string_view::npos ? text : text.substr(equals + 3);
    const ValueId id = out_.graph.find_value(value);
    if (!id.valid()) return invalid("There is no value \"", value, "\".");
    out_.graph.add_output(std::string(text.substr(0, equals)), id);
    return {};
  }

  Status parse_node(std::string_view line) {
    const std::size_t equals = line.find(" = "), open = line.find('(', equals), close = line.find(')', open);
    if (close == std::string_view::npos) return invalid("It is neither a value nor a node.");
    Op op{};
    const std::string_view name = trimmed(line.substr(equals + 3, open - equals - 3));
    if (find_op(name, &op) == nullptr) return invalid("There is no op \"", name, "\".");
    std::vector<ValueId> inputs;
    for (const std::string_view part : parts_of(line.substr(open + 1, close - open - 1))) {
      inputs.push_back(part == "_" ? kNoValue : out_.graph.find_value(part));
      if (part != "_" && !inputs.back().valid()) return invalid("There is no value \"", part, "\".");
    }
    std::string_view rest = line.substr(close + 1);
    Attrs attrs;
    if (const std::size_t brace = rest.find('{'); brace != std::string_view::npos) {
      const std::size_t end = rest.find('}', brace);
      for (const std::string_view part : parts_of(rest.substr(brace + 1, end - brace - 1))) {
        const std::size_t is = part.find('=');
        GRAFT_TRY_ASSIGN(AttrValue value, parse_attr(part.substr(is + 1)));
        attrs.set(part.substr(0, is), std::move(value));
      }
      rest = rest.substr(end + 1);
    }
    std::vector<std::string> names;
    for (const std::string_view part : parts_of(line.substr(0, equals))) names.emplace_back(part);
    const std::string node_name = names.empty() ? std::string(name) : names[0];
    GRAFT_TRY_ASSIGN(const NodeId id, out_.graph.add_node(op, std::move(inputs), std::move(attrs), node_name, names));
    const std::size_t arrow = rest.find("-> ");
    if (arrow == std::string_view::npos) return {};
    const std::string inferred = node_text(out_.graph, out_.graph.node(id));
    const std::string_view types = trimmed(rest.substr(arrow + 3));
    if (inferred.ends_with(cat("-> ", types))) return {};
    return invalid("Inference gives \"", inferred, "\".");
  }

  ParsedGraph out_;
};

}  // namespace

Result<ParsedGraph> parse_graph(std::string_view text) { return Parser().run(text); }

}  // namespace graft::test
