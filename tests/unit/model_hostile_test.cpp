// Model files that lie: truncated, flipped, and tables that are well-formed but mean nonsense. Each is refused with the
// sentence in tests/golden/model_must_fail.txt (GRAFT_UPDATE_GOLDEN=1 rewrites it), and none may crash.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <regex>

#include "runtime/core/op_id.gen.h"
#include "runtime/model/format.h"
#include "runtime/model/model.h"
#include "tests/support/files/golden.h"
#include "tests/support/files/model_example.h"

namespace graft::test::model_hostile_test {
namespace {

using model_format::kHeaderBytes;
using model_format::kSegmentAlignment;

const Bytes& example_file() {
  static const Bytes file = file_of(example_model());
  return file;
}

/// A refusal is one sentence that names the file, and blames the file, a weight in it, or this build.
void expect_refused(const Result<Model>& model, const std::string& what) {
  ASSERT_FALSE(model.ok()) << what;
  const Status& status = model.status();
  EXPECT_TRUE(status.code() == Code::corrupt || status.code() == Code::unsupported) << what << status.message();
  EXPECT_TRUE(status.message().starts_with("The model file \"m\" cannot be loaded: ") ||
              status.message().starts_with("The weight ") || status.message().ends_with("is expected."))
      << status.message();
  EXPECT_TRUE(status.message().ends_with(".")) << status.message();
}

TEST(ModelHostile, EveryTruncationIsRefused) {
  const Bytes& file = example_file();
  const std::size_t root = root_bytes_of(file);
  for (std::size_t size = 0; size < file.size(); ++size) {
    // An exact copy shows reads past the end to AddressSanitizer; in the padding a sample of them will do.
    const bool copy = size < root + 64 || size > kSegmentAlignment || size % 997 == 0;
    const Bytes exact = copy ? Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)) : Bytes();
    const auto bytes = copy ? std::span(exact) : std::span(file).first(size);
    expect_refused(load_model(bytes, "m"), cat("cut to ", size));
  }
}

TEST(ModelHostile, EveryTruncationWithAnHonestHeaderIsRefused) {
  const std::size_t root = root_bytes_of(example_file());
  for (std::size_t size = root; size < example_file().size(); size += size < kSegmentAlignment ? 509 : 1) {
    Bytes file(example_file().begin(), example_file().begin() + static_cast<std::ptrdiff_t>(size));
    reseal(file, root);
    expect_refused(load_model(file, "m"), cat("cut to ", size));
  }
}

TEST(ModelHostile, EveryBitFlipIsRefusedOrMeansTheSame) {
  Bytes file = example_file();
  const std::size_t root = root_bytes_of(file);
  const auto flip = [&](std::size_t byte, int bit) { file[byte] ^= static_cast<std::byte>(1 << bit); };
  for (std::size_t byte = 0; byte < root; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      flip(byte, bit);
      expect_refused(load_model(file, "m"), cat("bit ", bit, " of byte ", byte));
      flip(byte, bit);
    }
  }
  const auto original = load_model(example_file(), "m");
  ASSERT_TRUE(original.ok());
  std::size_t harmless = 0;
  for (std::size_t byte = kSegmentAlignment; byte < file.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      flip(byte, bit);
      const auto model = load_model(file, "m", {.check = WeightCheck::at_once});
      if (model.ok()) {
        ++harmless;
        ASSERT_EQ(difference(*model, *original), "") << "bit " << bit << " of byte " << byte;
      } else {
        expect_refused(model, cat("bit ", bit, " of byte ", byte));
      }
      flip(byte, bit);
    }
  }
  // Only the padding between weights is harmless.
  EXPECT_EQ(harmless, 8 * (file.size() - kSegmentAlignment - original->weight_bytes()));
  // The padding between root and segments is 64 KiB of the same rule; all of its bits at once are as good as each.
  for (std::size_t byte = root; byte < kSegmentAlignment; ++byte) file[byte] = std::byte{0xff};
  const auto padded = load_model(file, "m", {.check = WeightCheck::at_once});
  ASSERT_TRUE(padded.ok()) << padded.status().message();
  EXPECT_EQ(difference(*padded, *original), "");
}

// With the checksum made right, flips reach the FlatBuffers verifier and the semantic checks.
TEST(ModelHostile, EveryBitFlipUnderARightChecksumIsSafe) {
  Bytes file = example_file();
  const std::size_t root = root_bytes_of(file);
  std::size_t refused = 0;
  for (std::size_t bit = 8 * kHeaderBytes; bit < 8 * root; ++bit) {
    file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    reseal(file, root);
    const auto model = load_model(file, "m");
    if (!model.ok()) {
      ++refused;
      expect_refused(model, cat("bit ", bit));
    }
    file[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  EXPECT_GT(refused, root) << "most flips of offsets, sizes and numbers must be noticed";
}

using Edit = std::function<void(fb::ModelT&)>;

constexpr std::int64_t kHuge = std::int64_t{1} << 62;
constexpr std::uint64_t kMax64 = std::numeric_limits<std::uint64_t>::max();

fb::AttrT& attr(fb::ModelT& m, std::size_t node, std::size_t index = 0) { return *m.graph->nodes[node]->attrs[index]; }

// The example's values: 0 x, 1 layer.weight, 2 table, 3 sum, 4 swapped, 5 flatten, 6 late, 7 spread;
// nodes: 0 swap, 1 flatten, 2 spread, 3 add up; tensors: 0 layer.weight, 1 table, 2 late.
const std::map<std::string, Edit>& table_edits() {
  static const std::map<std::string, Edit> edits = {
      {"rank 9", [](auto& m) { m.graph->values[1]->shape->coefficients.assign(9, 1); }},
      {"2^62 elements in a weight",
       [](auto& m) {
         m.graph->values[1]->shape->coefficients = {kHuge, 1};
       }},
      {"2^63 elements in an input",
       [](auto& m) {
         m.graph->values[0]->shape->coefficients = {kHuge, 2, 1};
       }},
      {"sizes that overflow 64 bits",
       [](auto& m) {
         m.graph->values[1]->shape->coefficients = {kHuge, kHuge};
       }},
      {"overflow behind a zero",
       [](auto& m) {
         m.graph->values[1]->shape->coefficients = {0, kHuge, kHuge};
       }},
      {"negative size",
       [](auto& m) {
         m.graph->values[1]->shape->coefficients = {-2, -3};
       }},
      {"shape of another size",
       [](auto& m) {
         m.graph->values[1]->shape->coefficients = {2, 4};
       }},
      {"too few symbols", [](auto& m) { m.graph->values[0]->shape->symbols.pop_back(); }},
      {"symbols in disorder", [](auto& m) { m.graph->values[0]->shape->symbols[0] = "z*a"; }},
      {"a number as a symbol", [](auto& m) { m.graph->values[0]->shape->symbols[0] = "3"; }},
      {"a symbol on a zero", [](auto& m) { m.graph->values[0]->shape->coefficients[0] = 0; }},
      {"output of another shape", [](auto& m) { m.graph->values[4]->shape->coefficients[1] = 4; }},
      {"output of another dtype", [](auto& m) { m.graph->values[4]->dtype = fb::DType::i32; }},
      {"unknown dtype", [](auto& m) { m.graph->values[0]->dtype = static_cast<fb::DType>(77); }},
      {"unknown kind", [](auto& m) { m.graph->values[0]->kind = static_cast<fb::ValueKind>(77); }},
      {"temporary without a node", [](auto& m) { m.graph->values[6]->kind = fb::ValueKind::temporary; }},
      {"output that is a parameter", [](auto& m) { m.graph->values[4]->kind = fb::ValueKind::parameter; }},
      {"trailing temporary", [](auto& m) { m.graph->nodes.resize(2); }},
      {"two values of one name", [](auto& m) { m.graph->values[1]->name = "x"; }},
      {"output named as an input", [](auto& m) { m.graph->values[4]->name = "x"; }},
      {"empty name", [](auto& m) { m.graph->values[1]->name.clear(); }},
      {"name of 2000 bytes", [](auto& m) { m.graph->values[1]->name.assign(2000, 'n'); }},
      {"name with a line break", [](auto& m) { m.graph->values[1]->name = "a\nb"; }},
      {"name that is not UTF-8", [](auto& m) { m.graph->values[1]->name = "\xc0\x80"; }},
      {"source axes twice",
       [](auto& m) {
         m.graph->values[0]->source_perm = {0, 1, 1};
       }},
      {"nine source axes", [](auto& m) { m.graph->values[0]->source_perm.assign(9, 0); }},
      {"two nodes of one name", [](auto& m) { m.graph->nodes[1]->name = "swap"; }},
      {"unknown op", [](auto& m) { m.graph->nodes[0]->op = static_cast<fb::Op>(60000); }},
      {"input out of range", [](auto& m) { m.graph->nodes[0]->inputs = {4000}; }},
      {"input made later", [](auto& m) { m.graph->nodes[0]->inputs = {5}; }},
      {"input that is the node's own output", [](auto& m) { m.graph->nodes[0]->inputs = {4}; }},
      {"input left out", [](auto& m) { m.graph->nodes[0]->inputs = {model_format::kNoIndex}; }},
      {"no inputs", [](auto& m) { m.graph->nodes[0]->inputs.clear(); }},
      {"too many inputs",
       [](auto& m) {
         m.graph->nodes[0]->inputs = {0, 0};
       }},
      {"output out of order", [](auto& m) { m.graph->nodes[0]->outputs = {5}; }},
      {"output out of range",
       [](auto& m) {
         m.graph->nodes[2]->outputs = {7, 8};
       }},
      {"no output", [](auto& m) { m.graph->nodes[2]->outputs.clear(); }},
      {"output of a node without outputs", [](auto& m) { m.graph->nodes[3]->outputs = {7}; }},
      {"updated constant", [](auto& m) { m.graph->nodes[3]->inputs[0] = 0; }},
      {"nodes in another order", [](auto& m) { std::swap(m.graph->nodes[0], m.graph->nodes[1]); }},
      {"unknown attribute", [](auto& m) { attr(m, 0).name = "perms"; }},
      {"attribute missing", [](auto& m) { m.graph->nodes[0]->attrs.clear(); }},
      {"attribute twice", [](auto& m) { m.graph->nodes[0]->attrs.push_back(std::make_unique<fb::AttrT>(attr(m, 0))); }},
      {"attribute of another type",
       [](auto& m) {
         attr(m, 0).value.Reset();
         attr(m, 0).value.Set(fb::NumberAttrT{});
       }},
      {"permutation out of range",
       [](auto& m) {
         attr(m, 0).value.Asintegers()->value = {0, 1, kHuge};
       }},
      {"shape attribute of 2^63 elements",
       [](auto& m) {
         attr(m, 2).value.Asshape()->value->coefficients = {kHuge, 2, 5};
       }},
      {"output list out of range", [](auto& m) { m.graph->outputs[0]->value = 8; }},
      {"two outputs of one name", [](auto& m) { m.graph->outputs[0]->name = "tables"; }},
      {"symbol missing", [](auto& m) { m.graph->symbols.clear(); }},
      {"symbol that is not used", [](auto& m) { m.graph->symbols[0]->name = "width"; }},
      {"negative default size", [](auto& m) { m.graph->symbols[0]->default_size = -1; }},
      {"signature of another value", [](auto& m) { m.signatures[0]->inputs[0]->value = 1; }},
      {"signature out of range", [](auto& m) { m.signatures[0]->outputs[0]->value = 1u << 31; }},
      {"two signatures of one name", [](auto& m) { m.signatures[1]->name = "flat"; }},
      {"metadata in disorder", [](auto& m) { std::swap(m.metadata[0], m.metadata[1]); }},
      {"metadata that is not text", [](auto& m) { m.metadata[0]->value = std::string("a\0b", 3); }},
      {"tokenizer without data",
       [](auto& m) {
         m.tokenizer = std::make_unique<fb::TokenizerT>();
         m.tokenizer->kind = "graft.vocabulary.1";
       }},
      {"tokenizer of no kind",
       [](auto& m) {
         m.tokenizer = std::make_unique<fb::TokenizerT>();
         m.tokenizer->data = {1, 2, 3};
       }},
      {"tokenizer whose kind is no name",
       [](auto& m) {
         m.tokenizer = std::make_unique<fb::TokenizerT>();
         m.tokenizer->kind = "a\nb";
         m.tokenizer->data = {1};
       }},
      {"weight missing", [](auto& m) { m.tensors.erase(m.tensors.begin()); }},
      {"weight of an input", [](auto& m) { m.tensors[0]->value = 0; }},
      {"weight of no value", [](auto& m) { m.tensors[2]->value = 99; }},
      {"weights in disorder", [](auto& m) { std::swap(m.tensors[0], m.tensors[1]); }},
      {"weight twice", [](auto& m) { m.tensors[1] = std::make_unique<fb::TensorT>(*m.tensors[0]); }},
      {"weight of another dtype", [](auto& m) { m.tensors[0]->dtype = fb::DType::i32; }},
      {"weight of another size", [](auto& m) { m.tensors[0]->bytes = 20; }},
      {"weight not aligned", [](auto& m) { m.tensors[1]->offset = 100; }},
      {"weights that overlap", [](auto& m) { m.tensors[1]->offset = 0; }},
      {"weight outside its segment", [](auto& m) { m.tensors[2]->offset = 1u << 20; }},
      {"weight whose end overflows", [](auto& m) { m.tensors[2]->offset = kMax64 - 255; }},
      {"weight in no segment", [](auto& m) { m.tensors[0]->segment = 1; }},
      {"segment not aligned", [](auto& m) { m.segments[0]->offset += 256; }},
      {"segment over the root", [](auto& m) { m.segments[0]->offset = 0; }},
      {"segment outside the file", [](auto& m) { m.segments[0]->offset = kSegmentAlignment * 16; }},
      {"segment whose end overflows", [](auto& m) { m.segments[0]->bytes = kMax64; }},
      {"segments that overlap", [](auto& m) { m.segments.push_back(std::make_unique<fb::SegmentT>(*m.segments[0])); }},
  };
  return edits;
}

std::map<std::string, Bytes> header_cases() {
  std::map<std::string, Bytes> cases;
  const auto with = [&](const char* name, std::size_t at, std::uint64_t number, std::size_t size) {
    Bytes& file = cases[name] = example_file();
    std::memcpy(file.data() + at, &number, size);
  };
  with("not a model", 4, 0x20202020, 4);
  with("newer version", 8, 2, 4);
  with("unknown flags", 12, 1, 4);
  with("root of 64 bytes", 16, 64, 8);
  with("root longer than the file", 16, kMax64, 8);
  with("file size", 24, 1u << 20, 8);
  with("reserved bytes", 40, 1, 8);
  with("damaged root", kHeaderBytes + 100, 0xffff, 2);
  cases["empty"] = {};
  cases["63 bytes"] = Bytes(example_file().begin(), example_file().begin() + 63);
  cases["a byte too many"] = example_file();
  cases["a byte too many"].push_back(std::byte{0});
  Bytes& root_offset = cases["root table outside the root"] = example_file();
  const std::uint32_t outside = 1u << 30;
  std::memcpy(root_offset.data(), &outside, 4);
  reseal(root_offset, root_bytes_of(root_offset));
  return cases;
}

/// Sizes and checksums of the root are the FlatBuffers writer's business.
std::string without_layout(const std::string& sentence) {
  static const std::regex kChecksum("[0-9a-f]{32}");
  static const std::regex kRoot(cat("byte ", root_bytes_of(example_file()), "\\b"));
  return std::regex_replace(std::regex_replace(sentence, kChecksum, "(checksum)"), kRoot, "byte (end of root)");
}

TEST(ModelHostile, EachLieIsToldInItsSentence) {
  std::map<std::string, std::string> sentences;
  const auto refuse = [&](const std::string& name, const Bytes& file) {
    const auto model = load_model(file, "m");
    expect_refused(model, name);
    sentences[name] = model.ok() ? "(loaded)" : without_layout(model.status().message());
  };
  for (const auto& [name, edit] : table_edits()) {
    ModelEditor editor(example_file());
    edit(editor.tables);
    refuse(name, editor.bytes());
  }
  for (const auto& [name, file] : header_cases()) refuse(name, file);

  std::string text;
  for (const auto& [name, sentence] : sentences) text += name + "\n    " + sentence + "\n";
  expect_golden("model_must_fail.txt", text);
}

// 1000 nodes that all point at one list of 1000 inputs are a small file and a large graph.
TEST(ModelHostile, SharedTablesDoNotUnfold) {
  flatbuffers::FlatBufferBuilder b;
  const auto name = b.CreateString("n");
  const auto inputs = b.CreateVector(std::vector<std::uint32_t>(20000, 0));
  const auto node = fb::CreateNode(b, name, fb::Op::concat, inputs);
  const auto nodes = b.CreateVector(std::vector(20000, node));
  const auto shape = fb::CreateShape(b);
  const auto value = fb::CreateValue(b, name, fb::DType::f32, fb::ValueKind::input, shape);
  const auto values = b.CreateVector(std::vector(1, value));
  fb::FinishModelBuffer(b, fb::CreateModel(b, fb::CreateGraph(b, values, nodes)));
  std::string root = model_format::add_header({reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()});
  model_format::seal(std::as_writable_bytes(std::span(root)), root.size());
  const auto bytes = std::as_bytes(std::span(root));
  expect_refused(load_model(Bytes(bytes.begin(), bytes.end()), "m"), "shared");
}

TEST(ModelHostile, MemoryMustBeAligned) {
  Bytes file = example_file();
  file.insert(file.begin(), std::byte{0});
  const auto model = load_model(std::span(file).subspan(1), "m");
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("multiple of 8"), std::string::npos);
}

}  // namespace
}  // namespace graft::test::model_hostile_test
