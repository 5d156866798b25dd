#include "runtime/text/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "runtime/text/grammar/schema_pattern.h"
#include "runtime/text/grammar/schema_scalars.h"
#include "runtime/text/template/json_value.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

using jinja::DictObject;
using jinja::Kind;
using jinja::Value;
using schema::count_of;
using schema::key_text;
using schema::refused;
using schema::times;
using schema::wrong;

constexpr std::size_t kMostSchemaMemory = 64u << 20;
constexpr std::size_t kMostSchemaText = 1u << 20;  // of the grammar
constexpr int kMostLevels = 60;
constexpr std::size_t kMostProperties = 1000;       // of one object
constexpr std::size_t kMostComparisons = 1u << 20;  // of the alternatives of oneOf

constexpr std::string_view kShared = R"(ws ::= " "?
hex ::= [0-9a-fA-F]
char ::= [^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" ([0-9a-cA-Ce-fE-F] hex hex hex | [dD] [0-7] hex hex))
plain ::= [^"\\\x00-\x1F]
string ::= "\"" char* "\""
integer ::= "-"? ("0" | [1-9] [0-9]{0,15})
number ::= integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
member ::= string ":" ws value
object ::= "{" ws (member ("," ws member)*)? ws "}"
array ::= "[" ws (value ("," ws value)*)? ws "]"
value ::= object | array | string | number | boolean | null
)";

const std::set<std::string_view> kAnnotations = {
    "$schema",        "$id",      "$comment",   "$defs",    "definitions", "title",   "description",
    "default",        "examples", "deprecated", "readOnly", "writeOnly",   "$anchor", "contentMediaType",
    "contentEncoding"};
const std::set<std::string_view> kTypes = {"object", "array", "string", "number", "integer", "boolean", "null"};

/// Keywords by the type that they are about.
const std::map<std::string_view, std::string_view> kOfType = {{"properties", "object"},
                                                              {"required", "object"},
                                                              {"additionalProperties", "object"},
                                                              {"items", "array"},
                                                              {"prefixItems", "array"},
                                                              {"minItems", "array"},
                                                              {"maxItems", "array"},
                                                              {"minLength", "string"},
                                                              {"maxLength", "string"},
                                                              {"pattern", "string"},
                                                              {"format", "string"},
                                                              {"minimum", "integer"},
                                                              {"maximum", "integer"},
                                                              {"exclusiveMinimum", "integer"},
                                                              {"exclusiveMaximum", "integer"}};

class SchemaReader {
 public:
  Result<std::string> read(std::string_view json) {
    if (json.size() > kMostSchemaText) {
      return unsupported("The JSON schema has ", json.size(), " bytes; at most ", kMostSchemaText, " are read.");
    }
    auto whole = jinja::value_of_json(heap_, json, jinja::kFromData);
    if (!whole.ok()) return invalid("The JSON schema is no JSON: ", whole.status().message());
    whole_ = *std::move(whole);
    GRAFT_TRY_ASSIGN(const std::string root, rule_of(whole_, "#", 0));
    return "root ::= " + root + "\n" + std::string(kShared) + rules_;
  }

 private:
  /// A new rule of this text; its name.
  Result<std::string> add(const std::string& body) {
    std::string name = cat("s", ++count_);
    GRAFT_TRY(define(name, body));
    return name;
  }

  /// The name of the rule for a schema.
  Result<std::string> rule_of(const Value& schema, const std::string& at, int depth) {
    if (depth > kMostLevels) return refused(at, "is nested more than ", kMostLevels, " levels deep");
    if (schema.is(Kind::boolean)) {
      if (!jinja::is_true(schema)) return wrong(at, "is false, so that nothing is allowed there");
      return std::string("value");
    }
    if (!schema.is(Kind::dict)) return wrong(at, "is no object and no boolean");
    const auto known = named_.find(schema.identity());
    if (known != named_.end()) return known->second;
    // Named first: a schema may refer to itself.
    std::string name = cat("s", ++count_);
    named_.emplace(schema.identity(), name);
    GRAFT_TRY_ASSIGN(const std::string body, body_of(schema.dict(), at, depth));
    GRAFT_TRY(define(name, body));
    return name;
  }

  Status define(const std::string& name, const std::string& body) {
    rules_ += name + " ::= " + body + "\n";
    if (rules_.size() <= kMostSchemaText) return {};
    return unsupported("The JSON schema is too large: its grammar exceeds ", kMostSchemaText, " bytes.");
  }

  static const Value* find(const DictObject& of, std::string_view key) { return of.find(key); }

  /// Other keywords than those named and such that say nothing about values.
  static Status only(const DictObject& schema, const std::string& at, std::initializer_list<std::string_view> allowed) {
    for (const auto& [key, value] : schema.items) {
      const std::string_view name = key_text(key);
      if (kAnnotations.contains(name) || std::ranges::find(allowed, name) != allowed.end()) continue;
      return refused(at, "has \"", name, "\" beside \"", *allowed.begin(), "\", which is not read");
    }
    return {};
  }

  Result<std::string> body_of(const DictObject& schema, const std::string& at, int depth) {
    if (const Value* ref = find(schema, "$ref")) {
      GRAFT_TRY(only(schema, at, {"$ref"}));
      return reference(*ref, at, depth);
    }
    if (const Value* constant = find(schema, "const")) {
      GRAFT_TRY(only(schema, at, {"const", "type"}));
      return literals({constant}, schema, at);
    }
    if (const Value* values = find(schema, "enum")) {
      GRAFT_TRY(only(schema, at, {"enum", "type"}));
      if (!values->is(Kind::list)) return wrong(at, "has an \"enum\" that is no list");
      std::vector<const Value*> all;
      for (const Value& value : values->list().items) all.push_back(&value);
      return literals(all, schema, at);
    }
    for (const std::string_view key : {"anyOf", "oneOf", "allOf"}) {
      if (const Value* parts = find(schema, key)) {
        GRAFT_TRY(only(schema, at, {key}));
        return alternatives(*parts, key, at, depth);
      }
    }
    return typed(schema, at, depth);
  }

  Result<const Value*> target_of(const Value& ref, const std::string& at) {
    if (!ref.is(Kind::string)) return wrong(at, "has a \"$ref\" that is no text");
    const std::string_view path = key_text(ref);
    if (path != "#" && !path.starts_with("#/")) {
      return refused(at, "refers to \"", path, "\"; only places within the schema are found, as \"#/$defs/name\"");
    }
    const Value* value = &whole_;
    for (std::size_t begin = 1; begin < path.size();) {
      const std::size_t end = std::min(path.find('/', begin + 1), path.size());
      std::string key;
      for (std::size_t i = begin + 1; i < end; ++i) {
        const bool escaped = path[i] == '~' && i + 1 < end;
        key += !escaped ? path[i] : path[++i] == '1' ? '/' : '~';
      }
      const Value* next = value->is(Kind::dict) ? value->dict().find(key) : nullptr;
      if (next == nullptr) return wrong(at, "refers to \"", path, "\", which is not there");
      value = next;
      begin = end;
    }
    return value;
  }

  Result<std::string> reference(const Value& ref, const std::string& at, int depth) {
    GRAFT_TRY_ASSIGN(const Value* to, target_of(ref, at));
    return rule_of(*to, std::string(key_text(ref)), depth + 1);
  }

  static bool is_of_type(const Value& value, std::string_view type) {
    switch (value.kind()) {
      case Kind::none: return type == "null";
      case Kind::boolean: return type == "boolean";
      case Kind::integer: return type == "integer" || type == "number";
      case Kind::real: return type == "number" || (type == "integer" && value.real() == std::floor(value.real()));
      case Kind::string: return type == "string";
      case Kind::list: return type == "array";
      case Kind::dict: return type == "object";
      default: return false;
    }
  }

  Result<std::string> literals(const std::vector<const Value*>& values, const DictObject& schema,
                               const std::string& at) {
    GRAFT_TRY_ASSIGN(const std::vector<std::string_view> types, types_of(schema, at));
    std::string out;
    for (const Value* value : values) {
      if (!types.empty() && std::ranges::none_of(types, [&](auto type) { return is_of_type(*value, type); })) continue;
      GRAFT_TRY_ASSIGN(const auto text, jinja::json_text(*value, {}, kMostSchemaText));
      out += (out.empty() ? "" : " | ") + grammar_literal(text.bytes);
    }
    if (out.empty()) return wrong(at, "allows no value at all");
    return out;
  }

  Result<std::string> alternatives(const Value& parts, std::string_view key, const std::string& at, int depth) {
    if (!parts.is(Kind::list) || parts.list().items.empty())
      return wrong(at, "has an \"", key, "\" that is no list of schemas");
    const auto& all = parts.list().items;
    if (key == "allOf" && all.size() > 1)
      return refused(at, "has an \"allOf\" of ", all.size(), " schemas; one is read");
    for (std::size_t i = 0; key == "oneOf" && i < all.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        GRAFT_TRY_ASSIGN(const bool apart, exclude_each_other(all[i], all[k], at, 0));
        if (apart) continue;
        return refused(at, "has a \"oneOf\" whose schemas ", k, " and ", i,
                       " may both allow a value; with \"anyOf\" that does not matter");
      }
    }
    std::string out;
    for (std::size_t i = 0; i < all.size(); ++i) {
      GRAFT_TRY_ASSIGN(const std::string one, rule_of(all[i], cat(at, "/", key, "/", i), depth + 1));
      out += (out.empty() ? "" : " | ") + one;
    }
    return out;
  }

  /// Whether no value can be of both: other types, other constants, or objects that one required property tells apart.
  Result<bool> exclude_each_other(const Value& a, const Value& b, const std::string& at, int depth) {
    if (depth > 8 || ++comparisons_ > kMostComparisons || !a.is(Kind::dict) || !b.is(Kind::dict)) return false;
    if (const Value* ref = a.dict().find("$ref")) {
      GRAFT_TRY_ASSIGN(const Value* to, target_of(*ref, at));
      return exclude_each_other(*to, b, at, depth + 1);
    }
    if (b.dict().find("$ref") != nullptr) return exclude_each_other(b, a, at, depth + 1);
    const auto values_a = constants_of(a.dict());
    const auto values_b = constants_of(b.dict());
    if (!values_a.empty() && !values_b.empty()) {
      comparisons_ += values_a.size() * values_b.size();
      if (comparisons_ > kMostComparisons) return false;
      return std::ranges::none_of(values_a, [&](const Value& x) {
        return std::ranges::any_of(values_b, [&](const Value& y) { return jinja::is_equal(x, y); });
      });
    }
    GRAFT_TRY_ASSIGN(const auto types_a, types_or_inferred(a.dict(), at));
    GRAFT_TRY_ASSIGN(const auto types_b, types_or_inferred(b.dict(), at));
    const auto meet = [](std::string_view x, std::string_view y) {
      return x == y || (x == "integer" && y == "number") || (x == "number" && y == "integer");
    };
    const bool disjoint = std::ranges::none_of(types_a, [&](std::string_view x) {
      return std::ranges::any_of(types_b, [&](std::string_view y) { return meet(x, y); });
    });
    if (!types_a.empty() && !types_b.empty() && disjoint) return true;
    const Value* in_a = a.dict().find("properties");
    const Value* in_b = b.dict().find("properties");
    if (in_a == nullptr || in_b == nullptr || !in_a->is(Kind::dict) || !in_b->is(Kind::dict)) return false;
    for (const auto& [key, schema] : in_a->dict().items) {
      const Value* other = in_b->dict().find(key_text(key));
      if (other == nullptr || !requires_key(a.dict(), key) || !requires_key(b.dict(), key)) continue;
      GRAFT_TRY_ASSIGN(const bool apart, exclude_each_other(schema, *other, at, depth + 1));
      if (apart) return true;
    }
    return false;
  }

  static std::vector<Value> constants_of(const DictObject& schema) {
    if (const Value* constant = schema.find("const")) return {*constant};
    const Value* values = schema.find("enum");
    return values != nullptr && values->is(Kind::list) ? values->list().items : std::vector<Value>();
  }

  static bool requires_key(const DictObject& schema, const Value& key) {
    const Value* required = schema.find("required");
    if (required == nullptr || !required->is(Kind::list)) return false;
    return std::ranges::any_of(required->list().items, [&](const Value& x) { return jinja::is_equal(x, key); });
  }

  static Result<std::vector<std::string_view>> types_of(const DictObject& schema, const std::string& at) {
    std::vector<std::string_view> out;
    const Value* type = schema.find("type");
    if (type == nullptr) return out;
    const auto take = [&](const Value& one) -> Status {
      if (!one.is(Kind::string) || !kTypes.contains(key_text(one))) return wrong(at, "has an unknown \"type\"");
      out.push_back(key_text(one));
      return {};
    };
    if (!type->is(Kind::list)) {
      GRAFT_TRY(take(*type));
    } else {
      for (const Value& one : type->list().items) GRAFT_TRY(take(one));
      if (out.empty()) return wrong(at, "has a \"type\" without any");
    }
    return out;
  }

  /// Without "type": of what its keywords speak.
  static Result<std::vector<std::string_view>> types_or_inferred(const DictObject& schema, const std::string& at) {
    GRAFT_TRY_ASSIGN(std::vector<std::string_view> types, types_of(schema, at));
    if (!types.empty()) return types;
    for (const auto& [key, value] : schema.items) {
      const auto about = kOfType.find(key_text(key));
      if (about == kOfType.end() || std::ranges::find(types, about->second) != types.end()) continue;
      types.push_back(about->second);
    }
    return types;
  }

  Result<std::string> typed(const DictObject& schema, const std::string& at, int depth) {
    for (const auto& [key, value] : schema.items) {
      const std::string_view name = key_text(key);
      const bool unique = name == "uniqueItems" && value.is(Kind::boolean) && !jinja::is_true(value);
      if (kAnnotations.contains(name) || kOfType.contains(name) || name == "type" || unique) continue;
      return refused(at, "has \"", name, "\", which is not read");
    }
    GRAFT_TRY_ASSIGN(const std::vector<std::string_view> types, types_or_inferred(schema, at));
    if (types.empty()) return std::string("value");
    std::string out;
    for (const std::string_view type : types) {
      GRAFT_TRY_ASSIGN(const std::string one, of_type(type, schema, at, depth));
      out += (out.empty() ? "" : " | ") + one;
    }
    return out;
  }

  Result<std::string> of_type(std::string_view type, const DictObject& schema, const std::string& at, int depth) {
    if (type == "object") return object(schema, at, depth);
    if (type == "array") return array(schema, at, depth);
    if (type == "string") return text::schema::string_rule(schema, at);
    if (type == "integer") return text::schema::integer_rule(schema, at);
    if (type == "number") {
      for (const std::string_view key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        if (schema.find(key) != nullptr)
          return refused(at, "has a \"", key, "\" of numbers that are no integers, which is not read");
      }
    }
    return std::string(type);
  }

  Result<std::string> array(const DictObject& schema, const std::string& at, int depth) {
    GRAFT_TRY_ASSIGN(const auto least, count_of(schema, "minItems", at));
    GRAFT_TRY_ASSIGN(const auto most, count_of(schema, "maxItems", at));
    if (least && most && *most < *least) return wrong(at, "allows no number of items");
    std::vector<std::string> first;
    if (const Value* prefix = schema.find("prefixItems")) {
      if (!prefix->is(Kind::list)) return wrong(at, "has \"prefixItems\" that are no list");
      for (const Value& one : prefix->list().items) {
        if (most && static_cast<std::int64_t>(first.size()) == *most) break;
        GRAFT_TRY_ASSIGN(first.emplace_back(), rule_of(one, cat(at, "/prefixItems/", first.size()), depth + 1));
      }
    }
    const auto before = static_cast<std::int64_t>(first.size());
    std::int64_t more_least = std::max<std::int64_t>(0, least.value_or(0) - before);
    std::optional<std::int64_t> more_most;
    if (most) more_most = *most - before;
    std::string item = "value";
    if (const Value* items = schema.find("items")) {
      if (items->is(Kind::list)) return refused(at, "has a list of \"items\"; write \"prefixItems\"");
      if (items->is(Kind::boolean) && !jinja::is_true(*items)) {
        if (more_least > 0) return wrong(at, "allows no number of items");
        more_most = 0;
      } else if (!more_most || *more_most > 0) {
        GRAFT_TRY_ASSIGN(item, rule_of(*items, at + "/items", depth + 1));
      }
    }
    std::string inner;
    for (const std::string& one : first) inner += (inner.empty() ? "" : " \",\" ws ") + one;
    if (!more_most || *more_most > 0) {
      if (inner.empty()) {
        const std::int64_t behind = std::max<std::int64_t>(0, more_least - 1);
        if (more_most) --*more_most;
        inner = item + " (\",\" ws " + item + ")" + times(behind, more_most);
        if (more_least == 0) inner = "(" + inner + ")?";
      } else {
        inner += " (\",\" ws " + item + ")" + times(more_least, more_most);
      }
    }
    return "\"[\" ws " + inner + (inner.empty() ? "" : " ws ") + "\"]\"";
  }

  struct Member {
    std::string name;  ///< as a JSON text
    std::string rule;  ///< of the value
    bool required = false;
  };

  static Status few(std::size_t count, const std::string& at) {
    if (count <= kMostProperties) return {};
    return refused(at, "has ", count, " properties; at most ", kMostProperties, " are read");
  }

  Result<std::vector<Member>> members(const DictObject& schema, const Value* others, const std::string& at, int depth) {
    std::vector<Member> out;
    std::set<std::string> names;
    const auto add_member = [&](const Value& key, const Value* value) -> Status {
      names.emplace(key_text(key));
      Member member;
      member.required = requires_key(schema, key);
      GRAFT_TRY_ASSIGN(const auto text, jinja::json_text(key, {}, kMostSchemaText));
      member.name = text.bytes;
      member.rule = "value";
      if (value != nullptr) {
        // What may be left out and never be there is left out.
        if (value->is(Kind::boolean) && !jinja::is_true(*value) && !member.required) return {};
        GRAFT_TRY_ASSIGN(member.rule, rule_of(*value, cat(at, "/properties/", key_text(key)), depth + 1));
      }
      out.push_back(std::move(member));
      return {};
    };
    if (const Value* properties = schema.find("properties")) {
      if (!properties->is(Kind::dict)) return wrong(at, "has \"properties\" that are no object");
      GRAFT_TRY(few(properties->dict().items.size(), at));
      for (const auto& [key, value] : properties->dict().items) GRAFT_TRY(add_member(key, &value));
    }
    if (const Value* required = schema.find("required")) {
      if (!required->is(Kind::list)) return wrong(at, "has a \"required\" that is no list");
      GRAFT_TRY(few(required->list().items.size(), at));
      for (const Value& key : required->list().items) {
        if (!key.is(Kind::string)) return wrong(at, "requires a property whose name is no text");
        if (names.contains(std::string(key_text(key)))) continue;
        GRAFT_TRY(add_member(key, others));
      }
    }
    return out;
  }

  /// A name that is none of these: by their characters, one after the other.
  Result<std::string> other_name(const std::vector<std::string>& names, std::size_t done, int depth) {
    std::map<std::string, std::vector<std::string>> next;  // by character
    bool ends = false;
    for (const std::string& name : names) {
      if (name.size() == done) {
        ends = true;
        continue;
      }
      const std::size_t size = std::max<std::size_t>(first_code_point(std::string_view(name).substr(done)).size, 1);
      next[name.substr(done, size)].push_back(name);
    }
    if (depth > 200)
      return unsupported("The JSON schema has a property of more than 200 characters beside others by any name.");
    std::string known;
    std::string out;
    for (const auto& [character, with_it] : next) {
      GRAFT_TRY_ASSIGN(const std::string rest, other_name(with_it, done + character.size(), depth + 1));
      known += std::string_view("]-^[\\\"").find(character) != std::string_view::npos ? "\\" + character : character;
      out += grammar_literal(character) + " " + rest + " | ";
    }
    out += "[^" + known + R"("\\\x00-\x1F] plain*)";
    if (!ends) out += " | \"\"";
    return add(out);
  }

  Result<std::string> object(const DictObject& schema, const std::string& at, int depth) {
    const Value* others = schema.find("additionalProperties");
    if (others != nullptr && !others->is(Kind::boolean) && !others->is(Kind::dict)) {
      return wrong(at, "has \"additionalProperties\" that are no schema");
    }
    GRAFT_TRY_ASSIGN(const std::vector<Member> all, members(schema, others, at, depth));
    const bool closed = others != nullptr && others->is(Kind::boolean) && !jinja::is_true(*others);
    if (others == nullptr && all.empty() && schema.find("properties") == nullptr) return std::string("object");
    std::string other;
    if (others != nullptr && !closed) {
      GRAFT_TRY_ASSIGN(const std::string value, rule_of(*others, at + "/additionalProperties", depth + 1));
      std::vector<std::string> names;
      if (const Value* properties = schema.find("properties")) {
        for (const auto& [key, of] : properties->dict().items) names.emplace_back(key_text(key));
      }
      for (const Member& member : all) names.push_back(member.name.substr(1, member.name.size() - 2));
      std::ranges::sort(names);
      names.erase(std::unique(names.begin(), names.end()), names.end());
      GRAFT_TRY_ASSIGN(const std::string name, other_name(names, 0, 0));
      GRAFT_TRY_ASSIGN(other, add("\"\\\"\" " + name + " \"\\\":\" ws " + value));
    }
    // From the last member on: what may follow where something stands before, and where nothing does.
    std::string more, first;
    if (!other.empty()) {
      GRAFT_TRY_ASSIGN(more, add("(\",\" ws " + other + ")*"));
      GRAFT_TRY_ASSIGN(first, add("(" + other + " " + more + ")?"));
    }
    for (std::size_t i = all.size(); i-- > 0;) {
      const Member& member = all[i];
      const std::string pair = grammar_literal(member.name + ":") + " ws " + member.rule + " ";
      const std::string skip_more = member.required ? "" : more.empty() ? " | \"\"" : " | " + more;
      const std::string skip_first = member.required ? "" : first.empty() ? " | \"\"" : " | " + first;
      GRAFT_TRY_ASSIGN(first, add(pair + more + skip_first));
      GRAFT_TRY_ASSIGN(more, add("\",\" ws " + pair + more + skip_more));
    }
    return first.empty() ? std::string("\"{\" ws \"}\"") : "\"{\" ws " + first + " ws \"}\"";
  }

  jinja::Heap heap_{0, kMostSchemaMemory};
  Value whole_;
  std::map<const jinja::Object*, std::string> named_;
  std::string rules_;
  std::size_t count_ = 0;
  std::size_t comparisons_ = 0;
};

}  // namespace

Result<std::string> grammar_of_schema(std::string_view schema) { return SchemaReader().read(schema); }

}  // namespace graft::text
