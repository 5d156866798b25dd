#include "tools/common/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace graft::cli {

void add_precision_flag(CLI::App& app, std::string& precision) {
  app.add_option("--precision", precision,
                 "Storage of intermediate results and of weights that are not trained: f32, f16 or bf16 (default f32)");
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    if (end > start) parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::vector<std::string> split_lists(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) {
    for (std::string& item : split_list(text)) all.push_back(std::move(item));
  }
  return all;
}

Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text, const char* option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid(option, " takes NAME=VALUE; \"", text, "\" is not that.");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<Bindings> parse_bindings(const std::vector<std::string>& items) {
  Bindings bindings;
  for (const std::string& part : split_lists(items)) {
    TRY_ASSIGN(const auto pair, parse_assignment(part, "--bind"));
    std::int64_t size = 0;
    const auto [end, failure] = std::from_chars(pair.second.data(), pair.second.data() + pair.second.size(), size);
    if (failure != std::errc() || end != pair.second.data() + pair.second.size() || size < 1) {
      return invalid("--bind ", part, ": a whole number of at least 1 is needed after '='.");
    }
    if (!bindings.emplace(pair.first, size).second) return invalid("--bind gives \"", pair.first, "\" twice.");
  }
  return bindings;
}

Result<std::uint64_t> parse_size(const std::string& text) {
  struct Unit {
    const char* name;
    double bytes;
  };
  static constexpr std::array<Unit, 8> kUnits = {{{"", 1},
                                                  {"B", 1},
                                                  {"KiB", 1024.0},
                                                  {"MiB", 1048576.0},
                                                  {"GiB", 1073741824.0},
                                                  {"KB", 1e3},
                                                  {"MB", 1e6},
                                                  {"GB", 1e9}}};
  double number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, text.data() + text.size());
  for (const Unit& candidate : kUnits) {
    if (failure != std::errc() || unit != candidate.name) continue;
    const double bytes = number * candidate.bytes;
    if (!(bytes >= 0 && bytes < 0x1p62)) break;
    return static_cast<std::uint64_t>(std::llround(bytes));
  }
  return invalid("\"", text, "\" is not a size; 512MiB, 1.5GiB or 4096 are.");
}

Result<std::string> json_or_file(const std::string& given) {
  const std::size_t begin = given.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || given[begin] == '[' || given[begin] == '{') return given;
  return text_of_file(given);
}

std::string grouped(std::uint64_t number) {
  std::string text = cat(number);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string si_text(double number) {
  static constexpr std::array<const char*, 6> kUnits = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  while (std::abs(number) >= 1000 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), unit == 0 && number == std::floor(number) ? "%.0f%s" : "%.3g%s", number,
                kUnits[unit]);
  return out.data();
}

std::string npy_file_name(std::string name) {
  if (name.starts_with("grad:")) name = name.substr(5);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == ':' || c == '\\'; }, '_');
  if (name.empty() || name[0] == '.') name = "_" + name;
  return fitting_name(name, ".npy");
}

}  // namespace graft::cli
