#include "tools/common/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <set>

#include "platform/base/names.h"

namespace graft::cli {

void add_precision_flag(CLI::App& app, std::string& precision) {
  app.add_option("--precision", precision,
                 "Storage of intermediate results and of weights that are not trained: f32, f16 or bf16 (default f32)");
}

std::vector<std::string> split_list(const std::string& text) { return split_names(text); }

std::vector<std::string> split_lists(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) std::ranges::move(split_names(text), std::back_inserter(all));
  return all;
}

std::vector<std::string> split_items(const std::string& text) { return split_parts(text); }

std::vector<std::string> split_items(const std::vector<std::string>& texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) std::ranges::move(split_parts(text), std::back_inserter(all));
  return all;
}

std::string unquoted(const std::string& name) { return plain_name(name); }

std::string quoted(const std::string& name) { return quoted_name(name); }

std::size_t find_separator(const std::string& text, char separator) {
  return graft::find_separator(text, {&separator, 1});
}

Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text, const char* option) {
  const std::size_t equals = find_separator(text, '=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid(option, " takes NAME=VALUE; \"", text, "\" is not that.");
  }
  return std::pair(plain_name(text.substr(0, equals)), text.substr(equals + 1));
}

Result<Bindings> parse_bindings(const std::vector<std::string>& items) {
  Bindings bindings;
  for (const std::string& part : split_items(items)) {
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

std::map<std::string, std::string, std::less<>> npy_file_names(const std::vector<std::string>& names) {
  const auto folded = [](std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  std::map<std::string, std::string, std::less<>> files;
  std::set<std::string> taken;
  // Gradients come first, then names that are file names as they stand, so that these keep them in any order of names.
  const auto rank = [](const std::string& name) {
    return name.starts_with("grad:") ? 0 : npy_file_name(name) == name + ".npy" ? 1 : 2;
  };
  const std::set<std::string> sorted(names.begin(), names.end());
  for (const int turn : {0, 1, 2}) {
    for (const std::string& name : sorted) {
      const std::string file = npy_file_name(name);
      if (rank(name) != turn) continue;
      const std::string stem = file.substr(0, file.size() - std::string_view(".npy").size());
      std::string own = file;
      for (int k = 2; !taken.insert(folded(own)).second; ++k) own = fitting_name(stem, cat("~", k, ".npy"));
      files.emplace(name, std::move(own));
    }
  }
  return files;
}

}  // namespace graft::cli
