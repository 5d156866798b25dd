// Damaged weights: every flipped bit is found by all that reads or writes a model, and named with its place; adapters
// stay with the weights that they were made for.
#include <gtest/gtest.h>

#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/lora/adapter.h"
#include "runtime/model/format.h"
#include "runtime/model/model.h"
#include "tests/support/files/model_example.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::model_damage_test {
namespace {

using model_format::kHashedBlock;
using model_format::kSegmentAlignment;

/// y = x W, to put adapters on.
Model linear_model(std::uint8_t fill = 1) {
  Model model;
  Builder b(model.graph);
  const ValueId x = *model.graph.add_value("x", DType::f32, {2, 4}, ValueKind::input);
  const ValueId w = *model.graph.add_value("fc.weight", DType::f32, {4, 3}, ValueKind::parameter);
  model.graph.add_output("y", b.node(Op::matmul, {x, w}));
  EXPECT_TRUE(model.copy_weight(w, Bytes(48, std::byte{fill})).ok());
  return model;
}

TEST(ModelDamage, EveryFlippedBitIsRefusedByAllThatUsesWeights) {
  const TemporaryFolder folder;
  Bytes file = file_of(example_model());
  const auto sound = load_model(file, "m");
  ASSERT_TRUE(sound.ok());
  std::size_t flips = 0;
  for (std::uint32_t i = 0; i < sound->graph.values().size(); ++i) {
    const auto weight = sound->weight({i});
    if (!weight) continue;
    const auto begin = static_cast<std::size_t>(weight->data() - file.data());
    for (std::size_t byte = begin; byte < begin + weight->size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit, ++flips) {
        SCOPED_TRACE(cat("bit ", bit, " of byte ", byte));
        file[byte] ^= static_cast<std::byte>(1 << bit);
        // At once: export, merge, train, checkpoint restore, verify.
        const auto at_once = load_model(file, "m", {.check = WeightCheck::at_once});
        ASSERT_EQ(at_once.status().code(), Code::corrupt);
        EXPECT_NE(at_once.status().message().find(sound->graph.value({i}).name), std::string::npos);
        // On use: sessions, generators, trainers; saving, and a model that borrowed the weight.
        const auto loaded = load_model(file, "m");
        ASSERT_TRUE(loaded.ok());
        EXPECT_EQ(loaded->check_before_use().code(), Code::corrupt);
        EXPECT_EQ(save_model(os::system_files(), folder.file("copy.graft"), *loaded).code(), Code::corrupt);
        const auto borrowed = borrow_model(*loaded);
        ASSERT_TRUE(borrowed.ok());
        EXPECT_EQ(borrowed->check_before_use().code(), Code::corrupt);
        const auto damage = loaded->find_damage();  // --deep
        ASSERT_EQ(damage.size(), 1u);
        EXPECT_EQ(damage[0].value, ValueId{i});
        EXPECT_EQ(damage[0].begin, begin);
        EXPECT_EQ(damage[0].end, begin + weight->size());
        file[byte] ^= static_cast<std::byte>(1 << bit);
      }
    }
  }
  EXPECT_EQ(flips, 8 * sound->weight_bytes());
  EXPECT_FALSE(os::exists(os::system_files(), folder.file("copy.graft")));
}

TEST(ModelDamage, UncheckedModelsRunButAreNotSaved) {
  const TemporaryFolder folder;
  Bytes file = file_of(linear_model());
  file[kSegmentAlignment] ^= std::byte{1};
  const auto loaded = load_model(file, "m", {.check = WeightCheck::never});
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->check_before_use().ok());
  EXPECT_FALSE(save_model(os::system_files(), folder.file("copy.graft"), *loaded).ok());
}

TEST(ModelDamage, LargeWeightsNameTheBlocks) {
  // Three blocks and a bit: enough for two threads and for a last block that is shorter.
  constexpr std::int64_t kElements = static_cast<std::int64_t>(3 * kHashedBlock / 4 + 5);
  Model model;
  const ValueId w = *model.graph.add_value("w", DType::f32, {kElements}, ValueKind::parameter);
  const ValueId later = *model.graph.add_value("later", DType::f32, {6 * kElements}, ValueKind::parameter);
  model.graph.add_output("y", w);
  ASSERT_TRUE(model.copy_weight(w, Bytes(4 * kElements, std::byte{3})).ok());
  ASSERT_TRUE(model.copy_weight(later, Bytes(24 * kElements, std::byte{5})).ok());
  Bytes file = file_of(model);
  const auto loaded = load_model(file, "m");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  ASSERT_TRUE(loaded->find_damage().empty());
  const auto start = [&](ValueId id) { return static_cast<std::size_t>(loaded->weight(id)->data() - file.data()); };
  file[start(w) + kHashedBlock] ^= std::byte{64};  // the second block's first byte
  file[start(w) + 4 * kElements - 1] ^= std::byte{1};
  file[start(later)] ^= std::byte{1};
  file[start(later) + kHashedBlock] ^= std::byte{1};
  const auto damage = loaded->find_damage();
  ASSERT_EQ(damage.size(), 3u);
  EXPECT_EQ(damage[0].begin, start(w) + kHashedBlock);
  EXPECT_EQ(damage[0].end, start(w) + 2 * kHashedBlock);
  EXPECT_EQ(damage[1].begin, start(w) + 3 * kHashedBlock);
  EXPECT_EQ(damage[1].end, start(w) + 4 * kElements);
  EXPECT_EQ(damage[2].begin, start(later));
  EXPECT_EQ(damage[2].end, start(later) + 2 * kHashedBlock) << "neighbours are one range";
  const std::string message = loaded->verify_weights().message();
  EXPECT_NE(message.find(cat("bytes ", damage[0].begin, " to ", damage[0].end - 1)), std::string::npos) << message;
  EXPECT_NE(message.find("2 more ranges"), std::string::npos) << message;
}

TEST(ModelDamage, HashesOfBlocksAreCounted) {
  Model model;
  const ValueId w = *model.graph.add_value("w", DType::f32, {1 << 19}, ValueKind::parameter);
  model.graph.add_output("y", w);
  ASSERT_TRUE(model.copy_weight(w, Bytes(2u << 20, std::byte{3})).ok());
  ModelEditor editor(file_of(model));
  ASSERT_EQ(editor.tables.tensors[0]->blocks.size(), 2u);
  editor.tables.tensors[0]->blocks.pop_back();
  const auto loaded = load_model(editor.bytes(), "m");
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find("checksums of blocks"), std::string::npos) << loaded.status().message();
}

TEST(ModelDamage, AdaptersStayWithTheirBase) {
  const TemporaryFolder folder;
  const std::string path = folder.file("base.graft"), other_path = folder.file("other.graft");
  ASSERT_TRUE(save_model(os::system_files(), path, linear_model()).ok());
  ASSERT_TRUE(save_model(os::system_files(), other_path, linear_model(2)).ok());
  const auto base = load_model(os::system_files(), path), other = load_model(os::system_files(), other_path);
  ASSERT_TRUE(base.ok() && other.ok());
  LoraOptions lora;
  lora.rank = 2;
  lora.targets = {"fc.weight"};
  const auto adapted = with_lora(*base, lora, 1);
  ASSERT_TRUE(adapted.ok()) << adapted.status().message();
  auto adapter = adapter_of(*adapted);
  ASSERT_TRUE(adapter.ok());
  EXPECT_TRUE(with_adapter(*base, *adapter).ok());
  EXPECT_TRUE(with_adapter(linear_model(), *adapter).ok()) << "the same weights, not yet in a file";
  for (const Status& status : {with_adapter(*other, *adapter).status(), merge_adapter(*other, *adapter).status()}) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("base.graft"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("other.graft"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(hash_text(weights_hash(*base))), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(hash_text(weights_hash(*other))), std::string::npos) << status.message();
  }
  adapter->metadata.erase(std::string(kMetaAdapterBase));
  EXPECT_TRUE(with_adapter(*other, *adapter).ok()) << "files of other programs do not say it";
}

}  // namespace
}  // namespace graft::test::model_damage_test
