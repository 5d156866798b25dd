#include "runtime/data/spec_reader.h"

#include <algorithm>

#include "platform/base/names.h"
#include "runtime/data/csv_reader.h"

namespace graft::data {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(find_separator(text, {&separator, 1}, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

NamedValue named_value(std::string_view text, char separator) {
  const std::size_t at = find_separator(text, {&separator, 1});
  if (at == std::string_view::npos) return {"", std::string(text)};
  return {plain_name(text.substr(0, at)), std::string(text.substr(at + 1))};
}

std::optional<std::string> OptionReader::text(std::string_view name) {
  known_.emplace_back(name);
  const auto found = left_.find(name);
  if (found == left_.end()) return std::nullopt;
  std::string value = std::move(found->second);
  left_.erase(found);
  return value;
}

Result<std::optional<std::uint64_t>> OptionReader::whole(std::string_view name) {
  text(name);  // it is known, and understood
  return whole_option(spec_, name);
}

Result<std::uint64_t> OptionReader::whole(std::string_view name, std::uint64_t absent, std::uint64_t least,
                                          std::uint64_t most) {
  GRAFT_TRY_ASSIGN(const auto given, whole(name));
  const std::uint64_t value = given.value_or(absent);
  if (given && (value < least || value > most)) {
    return invalid("Option ", name, "=", value, " of a data set must be ", least, " to ", most, ".");
  }
  return value;
}

Result<std::vector<double>> OptionReader::numbers(std::string_view name) {
  std::vector<double> numbers;
  const auto value = text(name);
  if (!value) return numbers;
  for (const std::string& part : split(*value, ',')) {
    double number = 0;
    if (!parse_number(part, number)) {
      return invalid("Option ", name, "=", *value, " of a data set must be numbers; \"", part, "\" is none.");
    }
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::optional<bool>> OptionReader::flag(std::string_view name) {
  const auto value = text(name);
  if (!value) return std::optional<bool>();
  if (*value == "yes" || *value == "no") return std::optional<bool>(*value == "yes");
  return invalid("Option ", name, "=", *value, " of a data set must be yes or no.");
}

Status OptionReader::finish() const {
  if (left_.empty()) return {};
  std::string names;
  for (auto it = known_.begin(); it != known_.end(); ++it) {
    if (std::find(known_.begin(), it, *it) == it) names += (names.empty() ? "" : ", ") + *it;
  }
  return invalid("\"", spec_.kind, ":\" data sets have no option \"", left_.begin()->first, "\"; they have ", names,
                 ".");
}

Status expect_arguments(const Spec& spec, std::size_t count, std::string_view usage) {
  const bool empty = std::any_of(spec.arguments.begin(), spec.arguments.end(), [](const auto& a) { return a.empty(); });
  if (spec.arguments.size() == count && spec.sections.size() < 2 && (count == 0 || !empty)) return {};
  return invalid("A data set of this kind is written ", usage, ".");
}

}  // namespace graft::data
