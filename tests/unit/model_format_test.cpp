// MODEL_FORMAT.md and the schema against what the code does: the example's bytes, files of released versions, and enum
// values, which `flatc --conform` lets go.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>

#include "runtime/core/op_id.gen.h"
#include "runtime/model/format.h"
#include "runtime/model/model.h"
#include "tests/support/files/model_example.h"
#include "tests/support/paths.h"

namespace graft::test::model_format_test {
namespace {

const std::string kRoot = source_dir();

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The document's example: y = x * weight, x of any number of rows.
Model linear_model() {
  Model model;
  const auto x = model.graph.add_value("x", DType::f32, {Dim::symbol("batch"), 2}, ValueKind::input);
  const auto weight = model.graph.add_value("weight", DType::f32, {2, 3}, ValueKind::parameter);
  const auto node = model.graph.add_node(Op::matmul, {*x, *weight}, {}, "linear");
  EXPECT_TRUE(node.ok());
  model.graph.add_output("y", model.graph.node(*node).outputs[0]);
  model.metadata = {{"source.format", "example"}};
  const float contents[] = {1, 2, 3, 4, 5, 6};
  EXPECT_TRUE(model.copy_weight(*weight, std::as_bytes(std::span(contents))).ok());
  return model;
}

/// Sixteen bytes a line, offsets in front; a run of zero lines is one line with an asterisk.
std::string dump(const Bytes& bytes) {
  std::string out;
  bool zeros = false;
  for (std::size_t at = 0; at < bytes.size(); at += 16) {
    const std::size_t count = std::min<std::size_t>(16, bytes.size() - at);
    const auto line = std::span(bytes).subspan(at, count);
    const bool zero = std::all_of(line.begin(), line.end(), [](std::byte b) { return b == std::byte{0}; });
    if (zero && zeros) continue;
    zeros = zero;
    char text[24];
    std::snprintf(text, sizeof text, "%05zx ", at);
    out += zero ? "*" : text;
    for (std::size_t i = 0; i < count && !zero; ++i) {
      std::snprintf(text, sizeof text, " %02x", std::to_integer<unsigned>(line[i]));
      out += text;
    }
    if (!zero) out.append(2 + 3 * (16 - count), ' ');
    for (std::size_t i = 0; i < count && !zero; ++i) {
      const char c = static_cast<char>(line[i]);
      out += c >= 0x20 && c < 0x7f ? c : '.';
    }
    out += '\n';
  }
  return out;
}

TEST(ModelFormat, TheDocumentsExampleIsWhatTheWriterGives) {
  const Bytes file = file_of(linear_model());
  const std::string text = read_text(kRoot + "/schema/MODEL_FORMAT.md");
  EXPECT_NE(text.find("```text\n" + dump(file) + "```"), std::string::npos) << "it should be\n" << dump(file);

  // Rows such as "| 00040 | `0c 00 00 00` | meaning |" explain bytes of the example.
  const std::regex row("\\| ([0-9a-f]{5}) \\| `([0-9a-f ]+)` \\|");
  std::size_t rows = 0;
  for (std::sregex_iterator found(text.begin(), text.end(), row), end; found != end; ++found, ++rows) {
    std::size_t at = std::strtoul((*found)[1].str().c_str(), nullptr, 16);
    std::istringstream bytes((*found)[2].str());
    for (std::string byte; bytes >> byte; ++at) {
      ASSERT_LT(at, file.size()) << (*found)[0];
      EXPECT_EQ(std::strtoul(byte.c_str(), nullptr, 16), std::to_integer<unsigned long>(file[at]))
          << (*found)[0] << " at " << at;
    }
  }
  EXPECT_GT(rows, 15u);
}

TEST(ModelFormat, TheDocumentStatesTheLimits) {
  const std::string text = read_text(kRoot + "/schema/MODEL_FORMAT.md");
  using namespace model_format;
  for (const std::uint64_t limit : {std::uint64_t{Shape::kMaxRank}, kMaxRootBytes, kMaxValues, kMaxNodes, kMaxListed,
                                    kMaxNameBytes, kSegmentAlignment, kTensorAlignment, kHeaderBytes}) {
    EXPECT_NE(text.find(cat(" ", limit)), std::string::npos) << limit;
  }
}

// Files that were written when version 1 was released. They are never written anew, except where a release was not yet.
TEST(ModelFormat, FilesOfReleasedVersionsLoad) {
  const std::string path = kRoot + "/tests/golden/linear-1.graft";
  if (std::getenv("GRAFT_UPDATE_GOLDEN") != nullptr && !std::filesystem::exists(path)) {
    ASSERT_TRUE(save_model(os::system_files(), path, linear_model()).ok());
  }
  const auto model = load_model(os::system_files(), path, {.check = WeightCheck::at_once});
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(difference(*model, linear_model()), "");
}

TEST(ModelFormat, EnumValuesAreNeverRemovedOrRenumbered) {
  const std::regex item("\\b([a-z][a-z0-9_]*) = ([0-9]+)[, }]");
  const auto items = [&](const std::string& path) {
    std::set<std::string> found;
    const std::string text = read_text(path);
    for (std::sregex_iterator at(text.begin(), text.end(), item), end; at != end; ++at) {
      found.insert((*at)[1].str() + " = " + (*at)[2].str());
    }
    return found;
  };
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot + "/schema/released")) {
    const std::string name = entry.path().stem().string();
    const auto now = items(kRoot + "/schema/" + name.substr(0, name.rfind('-')) + ".fbs");
    for (const std::string& old : items(entry.path().string())) {
      EXPECT_TRUE(now.contains(old)) << name << " has \"" << old << "\", which is gone";
    }
    ++files;
  }
  EXPECT_GT(files, 0u);
  EXPECT_GT(items(kRoot + "/schema/model.fbs").size(), 100u);
}

}  // namespace
}  // namespace graft::test::model_format_test
