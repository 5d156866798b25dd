// The house rules that a compiler does not see: which folder includes which, who may name Vulkan, how long files get.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = graft::test::source_dir();

struct Source {
  std::string path;  ///< relative to the root, with '/'
  std::vector<std::string> includes;
  std::size_t lines = 0;
};

std::vector<Source> read_sources() {
  static const std::regex kInclude("^\\s*#\\s*include\\s*[\"<]([^\">]+)[\">]");
  std::vector<Source> sources;
  for (const char* top : {"platform", "runtime", "schema", "shaders", "tools", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      const std::string extension = entry.path().extension().string();
      if (!entry.is_regular_file() ||
          !std::set<std::string>{".h", ".hpp", ".cpp", ".comp", ".glsl"}.contains(extension)) {
        continue;
      }
      Source source{fs::relative(entry.path(), kRoot).generic_string(), {}, 0};
      std::ifstream file(entry.path());
      std::smatch match;
      for (std::string line; std::getline(file, line); ++source.lines) {
        if (std::regex_search(line, match, kInclude)) source.includes.push_back(match[1]);
      }
      sources.push_back(std::move(source));
    }
  }
  return sources;
}

using Table = std::map<std::string, std::set<std::string>>;

Table read_table() {
  Table table;
  std::ifstream file(kRoot / "tools/dev/layers.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string folder;
    std::string arrow;
    words >> folder >> arrow;
    EXPECT_EQ(arrow, "<-") << line;
    for (std::string word; words >> word;) table[folder].insert(word);
    table[folder].insert(folder);
  }
  return table;
}

// The longest folder of the table that holds `path`; empty for anything outside (system headers, generated code).
// An op's reference stands beside the op but is built into the reference library, and counts as that.
std::string folder_of(const Table& table, const std::string& path) {
  if (path.starts_with("runtime/ops/") && (path.ends_with("_ref.cpp") || path.ends_with("_ref.h")))
    return "runtime/reference";
  std::string best;
  for (const auto& [folder, allowed] : table) {
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

bool allowed(const std::set<std::string>& may, const std::string& folder) {
  for (const std::string& name : may) {
    if (folder == name || folder.starts_with(name + "/")) return true;
  }
  return false;
}

TEST(CheckLayers, IncludesFollowTheTable) {
  const Table table = read_table();
  ASSERT_FALSE(table.empty());
  for (const Source& source : read_sources()) {
    const std::string from = folder_of(table, source.path);
    EXPECT_FALSE(from.empty()) << source.path << " lies in no folder of tools/dev/layers.txt";
    for (const std::string& include : source.includes) {
      const std::string to = include.starts_with("graft/") ? "runtime/include" : folder_of(table, include);
      if (to.empty()) continue;
      EXPECT_TRUE(allowed(table.at(from), to))
          << source.path << " includes " << include << ", but " << from << " may not depend on " << to;
    }
  }
}

TEST(CheckLayers, TheTableHasNoCircle) {
  const Table table = read_table();
  std::set<std::string> done;
  // Each round removes the folders that depend only on removed ones; a circle never goes.
  for (bool progress = true; progress;) {
    progress = false;
    for (const auto& [folder, may] : table) {
      if (done.contains(folder)) continue;
      bool free = true;
      for (const std::string& name : may) {
        if (name != folder && table.contains(name) && !done.contains(name)) free = false;
      }
      if (free) progress = done.insert(folder).second || progress;
    }
  }
  for (const auto& [folder, may] : table) EXPECT_TRUE(done.contains(folder)) << folder << " stands in a circle";
}

TEST(CheckLayers, OnlyItsOwnFolderNamesVulkan) {
  for (const Source& source : read_sources()) {
    for (const std::string& include : source.includes) {
      if (include.starts_with("vulkan/") || include.starts_with("vk_")) {
        // But for what is about a caller's own objects.
        const bool given = source.path == "runtime/include/graft/vulkan.h" || source.path.starts_with("tests/");
        EXPECT_TRUE(given || source.path.starts_with("platform/vulkan/")) << source.path << " includes " << include;
      }
    }
  }
}

TEST(CheckLayers, OpFamiliesDoNotIncludeEachOther) {
  for (const Source& source : read_sources()) {
    if (!source.path.starts_with("runtime/ops/")) continue;
    const std::size_t start = std::string("runtime/ops/").size();
    const std::size_t slash = source.path.find('/', start);
    if (slash == std::string::npos) continue;
    const std::string own = source.path.substr(0, slash + 1);
    for (const std::string& include : source.includes) {
      const bool other = include.starts_with("runtime/ops/") && include.find('/', start) != std::string::npos &&
                         !include.starts_with(own);
      EXPECT_FALSE(other) << source.path << " includes " << include << " of another family";
    }
  }
}

// A header that no app can include. The workbench, tools/bench, is a program of its own that looks inside of graft.
bool is_inner(const std::string& include) {
  for (const char* folder : {"runtime/", "platform/", "shaders/", "schema/", "tools/convert/", "tools/bench/"}) {
    if (include.starts_with(folder)) return true;
  }
  return false;
}

TEST(CheckLayers, TheCommandLineUsesThePublicApiAlone) {
  std::size_t seen = 0;
  for (const Source& source : read_sources()) {
    if (!source.path.starts_with("tools/graft/")) continue;
    ++seen;
    for (const std::string& include : source.includes) {
      EXPECT_FALSE(is_inner(include)) << source.path << " includes " << include;
    }
  }
  EXPECT_GT(seen, 0u);
}

// What the command line and its workbench share could bring inner headers to the former; only its sources may see some.
TEST(CheckLayers, HeadersThatToolsShareAreFreeOfInnerOnes) {
  for (const Source& source : read_sources()) {
    if (!source.path.starts_with("tools/common/") || !source.path.ends_with(".h")) continue;
    for (const std::string& include : source.includes) {
      EXPECT_FALSE(is_inner(include)) << source.path << " includes " << include;
    }
  }
}

TEST(CheckLayers, FilesAreSmall) {
  const std::map<std::string, std::size_t> limits = {
      {".cpp", 550}, {".h", 330}, {".hpp", 400}, {".comp", 275}, {".glsl", 275}};
  for (const Source& source : read_sources()) {
    const auto limit = limits.find(fs::path(source.path).extension().string());
    EXPECT_LE(source.lines, limit->second) << source.path << " wants to be two files";
  }
}

}  // namespace
