// ctest: middle
// 10,000 model files whose tables were changed at random, and whose header and checksum were made right again: each is
// either a model, which can then be saved and loaded without loss, or refused with one sentence.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "runtime/core/op_id.gen.h"
#include "runtime/model/format.h"
#include "runtime/model/model.h"
#include "runtime/passes/bind.h"
#include "tests/support/files/model_example.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::model_mutation_test {
namespace {

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  bool chance(unsigned in) { return random_() % in == 0; }
  std::size_t below(std::size_t count) { return random_() % count; }

  void mutate(fb::ModelT& m) {
    fb::GraphT& g = *m.graph;
    switch (below(12)) {
      case 0: return list(g.values);
      case 1: return list(g.nodes);
      case 2: return list(m.tensors);
      case 3: return chance(2) ? list(m.segments) : list(m.metadata);
      case 4: return chance(2) ? list(g.symbols) : list(m.signatures);
      case 5: return with(g.values, [&](fb::ValueT& value) { mutate_value(value); });
      case 6:
      case 7: return with(g.nodes, [&](fb::NodeT& node) { mutate_node(node); });
      case 8: return with(m.tensors, [&](fb::TensorT& tensor) { mutate_tensor(tensor); });
      case 9: return with(m.segments, [&](fb::SegmentT& s) { number(chance(2) ? s.offset : s.bytes); });
      case 10: return with(g.outputs, [&](fb::NamedValueT& out) { chance(2) ? number(out.value) : text(out.name); });
      default: return with(g.symbols, [&](fb::SymbolT& s) { chance(2) ? number(s.default_size) : text(s.name); });
    }
  }

  /// A few random bytes of the root, so that the verifier has its share of the work.
  void scramble(Bytes& file) {
    const std::size_t root = root_bytes_of(file);
    for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) {
      const std::size_t at = model_format::kHeaderBytes + below(root - model_format::kHeaderBytes);
      file[at] = chance(2) ? std::byte(random_()) : file[at] ^ std::byte(1u << below(8));
    }
    reseal(file, root);
  }

 private:
  template <typename T>
  void number(T& value) {
    constexpr auto kMax = std::numeric_limits<T>::max();
    const auto old = static_cast<std::make_unsigned_t<T>>(value);  // so that steps past an end wrap
    const T choices[] = {0,
                         1,
                         2,
                         static_cast<T>(old + 1),
                         static_cast<T>(old - 1),
                         static_cast<T>(old * 2),
                         kMax,
                         static_cast<T>(kMax / 2 + 1),
                         static_cast<T>(T{1} << (sizeof(T) * 8 - 2)),
                         static_cast<T>(random_()),
                         static_cast<T>(65536)};
    value = choices[below(std::size(choices))];
  }

  void text(std::string& value) {
    switch (below(5)) {
      case 0: value.clear(); break;
      case 1: value += '\x80'; break;
      case 2: value.assign(below(2000), 'n'); break;
      case 3: value = "x"; break;
      default: value += "*batch"; break;
    }
  }

  /// Removes, swaps or repeats elements.
  template <typename T>
  void list(std::vector<std::unique_ptr<T>>& items) {
    if (items.empty()) return;
    const std::size_t i = below(items.size());
    switch (below(3)) {
      case 0: items.erase(items.begin() + static_cast<std::ptrdiff_t>(i)); break;
      case 1: std::swap(items[i], items[below(items.size())]); break;
      default: items.push_back(std::make_unique<T>(*items[i])); break;
    }
  }

  template <typename T, typename Change>
  void with(std::vector<std::unique_ptr<T>>& items, const Change& change) {
    if (!items.empty()) change(*items[below(items.size())]);
  }

  template <typename T>
  void numbers(std::vector<T>& items) {
    if (items.empty() || chance(3)) items.resize(below(12));
    if (!items.empty()) number(items[below(items.size())]);
  }

  void shape(fb::ShapeT& value) {
    numbers(value.coefficients);
    if (chance(3)) value.symbols.resize(value.coefficients.size());
    if (!value.symbols.empty() && chance(3)) text(value.symbols[below(value.symbols.size())]);
  }

  void mutate_value(fb::ValueT& value) {
    switch (below(5)) {
      case 0: return text(value.name);
      case 1: value.dtype = static_cast<fb::DType>(below(6)); return;
      case 2: value.kind = static_cast<fb::ValueKind>(below(6)); return;
      case 3: return shape(*value.shape);
      default: return numbers(value.source_perm);
    }
  }

  void mutate_node(fb::NodeT& node) {
    switch (below(6)) {
      case 0: return text(node.name);
      case 1: node.op = static_cast<fb::Op>(below(static_cast<std::size_t>(fb::Op::MAX) + 2)); return;
      case 2: return numbers(node.inputs);
      case 3: return numbers(node.outputs);
      case 4: return list(node.attrs);
      default: return with(node.attrs, [&](fb::AttrT& attr) { mutate_attr(attr); });
    }
  }

  void mutate_attr(fb::AttrT& attr) {
    if (chance(6)) return text(attr.name);
    if (chance(6)) {
      attr.value.Reset();
      return attr.value.Set(fb::IntegerAttrT{});
    }
    if (auto* integers = attr.value.Asintegers()) return numbers(integers->value);
    if (auto* integer = attr.value.Asinteger()) return number(integer->value);
    if (auto* of_shape = attr.value.Asshape()) return shape(*of_shape->value);
    if (auto* of_text = attr.value.Astext()) return text(of_text->value);
    if (auto* of_number = attr.value.Asnumber()) {
      const double choices[] = {
          0, -1, 1e308, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e-300};
      of_number->value = choices[below(std::size(choices))];
    }
  }

  void mutate_tensor(fb::TensorT& tensor) {
    switch (below(5)) {
      case 0: return number(tensor.value);
      case 1: return number(tensor.segment);
      case 2: return number(tensor.offset);
      case 3: return number(tensor.bytes);
      default: tensor.dtype = static_cast<fb::DType>(below(6)); return;
    }
  }

  std::mt19937 random_;
};

/// A model that was accepted must be a model in every respect. Where its weights are not what their checksums say, it
/// is not saved.
void expect_sound(const Model& model, std::uint32_t seed) {
  EXPECT_TRUE(validate(model).ok()) << "seed " << seed;
  if (!model.verify_weights().ok()) {
    const TemporaryFolder folder;
    EXPECT_EQ(save_model(os::system_files(), folder.file("m.graft"), model).code(), Code::corrupt) << "seed " << seed;
    return;
  }
  const Bytes file = file_of(model);
  const auto again = load_model(file, "again");
  ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << again.status().message();
  EXPECT_EQ(difference(model, *again), "") << "seed " << seed;
}

struct Counts {
  std::size_t accepted = 0;
  std::size_t refused = 0;
};

Counts run(const Bytes& original, std::uint32_t first_seed, std::uint32_t count) {
  Counts counts;
  for (std::uint32_t seed = first_seed; seed < first_seed + count; ++seed) {
    Mutator mutator(seed);
    ModelEditor editor(original);
    for (std::size_t i = 0, changes = 1 + mutator.below(3); i < changes; ++i) mutator.mutate(editor.tables);
    Bytes file = editor.bytes();
    if (mutator.chance(4)) mutator.scramble(file);
    const auto model = load_model(file, "m");
    if (model.ok()) {
      // One in ten is enough to write to disk: saving is tested elsewhere.
      if (counts.accepted++ % 10 == 0) expect_sound(*model, seed);
      (void)bind(model->graph, {{"batch", 3}});  // shapes are inferred anew; either answer is right
      continue;
    }
    ++counts.refused;
    const std::string& message = model.status().message();
    EXPECT_TRUE(model.status().code() == Code::corrupt || model.status().code() == Code::unsupported) << message;
    EXPECT_TRUE(message.starts_with("The model file \"m\" cannot be loaded: ")) << message;
    EXPECT_TRUE(message.ends_with(".")) << "seed " << seed << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  return counts;
}

// Of both outcomes there must be many, or the tests look at one side only.
TEST(ModelMutation, TenThousandChangedFilesOfEveryFeature) {
  const Counts counts = run(file_of(example_model()), 0, 10000);
  EXPECT_GT(counts.accepted, 200u);
  EXPECT_GT(counts.refused, 5000u);
}

TEST(ModelMutation, ThousandsOfChangedFilesOfManyOps) {
  const Counts counts = run(file_of(model_of_many_ops()), 100000, 3000);
  EXPECT_GT(counts.accepted, 100u);
  EXPECT_GT(counts.refused, 1000u);
}

}  // namespace
}  // namespace graft::test::model_mutation_test
