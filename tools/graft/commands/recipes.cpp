// graft recipes: tasks from end to end, each a script with its configuration, from inside the program.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "recipe_files.h"  // kRecipeFiles: {"NAME/FILE", contents}, and {"FILE", contents} for each recipe (tools/graft/CMakeLists.txt)
#include "tools/common/files.h"
#include "tools/common/help.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"

namespace graft::cli {
namespace {

struct RecipesArguments {
  bool json = false;
  bool get = false;
  std::string name;
  std::string folder;
};

struct Recipe {
  std::map<std::string, std::string_view> files;  ///< by name
  std::string title;
  std::vector<std::pair<std::string, std::string>>
      facts;  ///< the rows of the README's table, as in {"memory", "12 MiB"}

  std::string fact(std::string_view name) const {
    const auto found = std::ranges::find_if(facts, [&](const auto& fact) { return fact.first == name; });
    return found == facts.end() ? std::string() : found->second;
  }
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

/// The title and the table of facts of a README. They are said there and nowhere else.
void read_facts(std::string_view readme, Recipe& recipe) {
  for (const std::string& line : split_text(readme, '\n')) {
    if (line.starts_with("# ")) recipe.title = line.substr(2);
    const std::size_t middle = line.find('|', 1);
    if (!line.starts_with("| ") || middle == std::string::npos) continue;
    const std::string_view name = trimmed(std::string_view(line).substr(1, middle - 1));
    const std::string_view rest = std::string_view(line).substr(middle + 1);
    if (!name.empty()) recipe.facts.emplace_back(name, trimmed(rest.substr(0, rest.rfind('|'))));
  }
}

std::map<std::string, Recipe> all_recipes() {
  std::map<std::string, Recipe> recipes;
  for (const auto& [path, text] : kRecipeFiles) {
    const std::size_t slash = path.find('/');
    if (slash == path.npos) continue;
    const std::string_view file = path.substr(slash + 1);
    Recipe& recipe = recipes[std::string(path.substr(0, slash))];
    recipe.files.emplace(file, text);
    if (file == "README.md") read_facts(text, recipe);
  }
  for (const auto& [path, text] : kRecipeFiles) {
    if (path.find('/') != path.npos) continue;
    for (auto& [name, recipe] : recipes) recipe.files.emplace(path, text);
  }
  return recipes;
}

Status list(bool json) {
  const auto recipes = all_recipes();
  if (json) {
    auto rows = nlohmann::ordered_json::array();
    for (const auto& [name, recipe] : recipes) {
      auto files = nlohmann::ordered_json::array();
      for (const auto& [file, text] : recipe.files) files.push_back(file);
      nlohmann::ordered_json row = {{"name", name}, {"title", recipe.title}, {"files", files}};
      for (const auto& [fact, value] : recipe.facts) row[fact] = value;
      rows.push_back(row);
    }
    print_json(rows);
    return {};
  }
  Table table({{"name", 0, Table::Kind::name},
               {"recipe", 0, Table::Kind::word},
               {"memory", 0, Table::Kind::number},
               {"time", 0, Table::Kind::number}});
  for (const auto& [name, recipe] : recipes) {
    table.row({name, recipe.title, recipe.fact("memory"), recipe.fact("time")});
  }
  table.print();
  to_stdout("\nWrite one with: graft recipes get NAME DIR\n");
  return {};
}

/// A word for the shell.
std::string shell_word(const std::string& text) {
  const bool is_plain = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("/._-+:@%=,~").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain && !text.starts_with('~')) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Status get(const std::string& name, const std::string& folder) {
  const auto recipes = all_recipes();
  const auto found = recipes.find(name);
  if (found == recipes.end()) {
    std::vector<std::string> names;
    for (const auto& [known, recipe] : recipes) names.push_back(known);
    return invalid("There is no recipe \"", name, "\"", did_you_mean(name, names), " graft recipes lists all.");
  }
  const std::filesystem::path target(folder);
  std::string written;
  for (const auto& [file, text] : found->second.files) {
    std::error_code ignored;
    if (std::filesystem::exists(std::filesystem::symlink_status(target / file, ignored))) {
      return invalid("\"", (target / file).string(), "\" exists already; give a new or an empty folder.");
    }
    written += (written.empty() ? "" : ", ") + file;
  }
  TRY(make_folders(folder));
  for (const auto& [file, text] : found->second.files) TRY(write_text((target / file).string(), std::string(text)));
  to_stdout("Wrote %s: %s.\nNext: sh %s\n", folder.c_str(), written.c_str(),
            shell_word((target / "run.sh").string()).c_str());
  return {};
}

}  // namespace

Action add_recipes(CLI::App& app) {
  auto options = std::make_shared<RecipesArguments>();
  app.add_flag("--json", options->json, "Print all that is said of each recipe as JSON");
  CLI::App* command = app.add_subcommand("get", "Write a recipe's script and configuration into a folder");
  command->add_option("NAME", options->name, "The recipe, as graft recipes lists it")->required();
  command->add_option("DIR", options->folder, "The folder; files that exist in it are never replaced")->required();
  command->callback([options] { options->get = true; });
  return [options] { return options->get ? get(options->name, options->folder) : list(options->json); };
}

}  // namespace graft::cli
