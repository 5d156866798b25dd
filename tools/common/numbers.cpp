#include "tools/common/numbers.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "tools/common/options.h"
#include "tools/common/text.h"

namespace graft::cli {
namespace {

template <typename Number>
bool read_all(const std::string& text, Number& out) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size();
}

}  // namespace

CLI::Validator whole(std::int64_t least, std::int64_t most) {
  const std::string range = most == INT64_MAX ? cat(least, " or more") : cat("from ", least, " to ", most);
  return CLI::Validator(
      [least, most, range](std::string& given) {
        std::int64_t value = 0;
        if (read_all(given, value) && value >= least && value <= most) return std::string();
        return cat("must be a whole number, ", range, ", not ", shown(given));
      },
      "");
}

CLI::Validator number(double least, double most, Ends ends) {
  const bool unbounded = most == std::numeric_limits<double>::max();
  const std::string range = unbounded
                                ? cat(ends == Ends::open ? "above " : "", least, ends == Ends::open ? "" : " or more")
                            : ends == Ends::closed     ? cat("from ", least, " to ", most)
                            : ends == Ends::open_above ? cat(least, " or more and below ", most)
                            : ends == Ends::open_below ? cat("above ", least, ", and ", most, " at most")
                                                       : cat("above ", least, " and below ", most);
  return CLI::Validator(
      [=](std::string& given) {
        double value = 0;
        const bool fits = read_all(given, value) && std::isfinite(value) && value >= least && value <= most &&
                          (ends == Ends::closed || ends == Ends::open_above || value > least) &&
                          (ends == Ends::closed || ends == Ends::open_below || value < most);
        return fits ? std::string() : cat("must be a number, ", range, ", not ", shown(given));
      },
      "");
}

CLI::Validator positive() { return number(0, std::numeric_limits<double>::max(), Ends::open); }
CLI::Validator not_negative() { return number(0, std::numeric_limits<double>::max()); }

CLI::Validator duration() {
  const std::map<std::string, double> units = {{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  using Number = CLI::AsNumberWithUnit;
  CLI::Validator out = Number(units, Number::Options(Number::CASE_SENSITIVE | Number::UNIT_OPTIONAL));
  return out.description("");
}

Result<std::vector<double>> list_of_numbers(const std::string& text, const char* flag) {
  std::vector<double> numbers;
  for (const std::string& part : split_list(text)) {
    if (!read_all(part, numbers.emplace_back())) {
      return invalid(flag, " takes numbers with commas between; \"", part, "\" is none.");
    }
  }
  return numbers;
}

void refuse_idle(const CLI::App& app, bool idle, const std::vector<std::string>& names, const std::string& why) {
  if (!idle) return;
  for (const std::string& name : names) {
    const CLI::Option* option = app.get_option_no_throw(name);
    if (option != nullptr && option->count() > 0) throw CLI::ValidationError(name, "has no effect " + why);
  }
}

}  // namespace graft::cli
