#include "runtime/text/grammar/schema_scalars.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/text/grammar/schema_numbers.h"
#include "runtime/text/grammar/schema_pattern.h"

namespace graft::text::schema {
namespace {

constexpr std::int64_t kMostCount = 100'000;

}  // namespace

using jinja::DictObject;
using jinja::Kind;
using jinja::Value;

Result<std::optional<std::int64_t>> count_of(const DictObject& schema, std::string_view key, const std::string& at) {
  const Value* value = schema.find(key);
  if (value == nullptr) return std::optional<std::int64_t>();
  if (!value->is_number() || value->is(Kind::boolean) || value->real() != std::floor(value->real()) ||
      value->real() < 0) {
    return wrong(at, "has a \"", key, "\" that is no count");
  }
  if (value->real() > static_cast<double>(kMostCount)) return refused(at, "has a \"", key, "\" above ", kMostCount);
  return std::optional(static_cast<std::int64_t>(value->real()));
}

std::string times(std::int64_t least, std::optional<std::int64_t> most) {
  return cat("{", least, ",", most ? cat(*most) : std::string(), "}");
}

Result<std::string> string_rule(const DictObject& schema, const std::string& at) {
  GRAFT_TRY_ASSIGN(const auto least, count_of(schema, "minLength", at));
  GRAFT_TRY_ASSIGN(const auto most, count_of(schema, "maxLength", at));
  if (least && most && *most < *least) return wrong(at, "allows no length");
  const Value* pattern = schema.find("pattern");
  const Value* format = schema.find("format");
  const std::string_view form = format != nullptr && format->is(Kind::string) ? key_text(*format) : "";
  static const std::map<std::string_view, std::string_view> kFormats = {
      {"date", R"([0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))"},
      {"time",
       R"(([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ("Z" | [+-] ("0" [0-9] | "1" [0-3]) ":" [0-5] [0-9]))"},
      {"uuid", R"([0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12})"}};
  std::string inner;
  if (const auto known = kFormats.find(form); known != kFormats.end()) inner = known->second;
  if (form == "date-time") inner = cat(kFormats.at("date"), " \"T\" ", kFormats.at("time"));
  if (pattern != nullptr) {
    if (!inner.empty()) return refused(at, "has a \"pattern\" beside a \"format\", which is not read");
    if (!pattern->is(Kind::string)) return wrong(at, "has a \"pattern\" that is no text");
    GRAFT_TRY_ASSIGN(inner, grammar_of_pattern(key_text(*pattern)));
  }
  if (!inner.empty()) {
    if (least || most) return refused(at, "has a length beside a \"pattern\" or \"format\", which is not read");
    return "\"\\\"\" " + inner + " \"\\\"\"";
  }
  if (!least && !most) return std::string("string");
  return "\"\\\"\" char" + times(least.value_or(0), most) + " \"\\\"\"";
}

Result<std::string> integer_rule(const DictObject& schema, const std::string& at) {
  std::optional<double> least, most;
  const auto take = [&](std::string_view key, bool low, bool exclusive) -> Status {
    const Value* value = schema.find(key);
    if (value == nullptr) return {};
    if (!value->is_number() || value->is(Kind::boolean)) return wrong(at, "has a \"", key, "\" that is no number");
    if (!(std::abs(value->real()) < 1e15)) return refused(at, "has a \"", key, "\" of more than 15 digits");
    double bound = low ? std::ceil(value->real()) : std::floor(value->real());
    if (exclusive && bound == value->real()) bound += low ? 1 : -1;
    std::optional<double>& to = low ? least : most;
    to = !to ? bound : low ? std::max(*to, bound) : std::min(*to, bound);
    return {};
  };
  GRAFT_TRY(take("minimum", true, false));
  GRAFT_TRY(take("exclusiveMinimum", true, true));
  GRAFT_TRY(take("maximum", false, false));
  GRAFT_TRY(take("exclusiveMaximum", false, true));
  if (!least && !most) return std::string("integer");
  const auto low = static_cast<std::int64_t>(least.value_or(-1e15));
  const auto high = static_cast<std::int64_t>(most.value_or(1e15));
  if (low > high) return wrong(at, "allows no number");
  return integers_between(low, high);
}

}  // namespace graft::text::schema
