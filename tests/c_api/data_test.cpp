// graft/data.h: data sets, their batches, and training on them with a place that checkpoints keep.
#include "graft/data.h"

#include <cmath>
#include <fstream>
#include <utility>

#include "runtime/data/spec.h"
#include "runtime/run_state/training.h"
#include "runtime/train/run/fit.h"
#include "tests/support/c_api.h"

namespace graft::test::c_api_data_test {
namespace {

constexpr std::uint32_t kBatch = 4;
constexpr std::uint64_t kCount = 18;  // a last batch that is not full

graft_field field(const char* name, graft_dtype dtype, std::vector<std::int64_t> dims, bool label) {
  graft_field out{};
  out.name = name;
  out.dtype = dtype;
  out.rank = static_cast<std::uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), out.dims);
  out.is_label = label ? 1 : 0;
  return out;
}

class DataSets : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    std::ofstream csv(csv_);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      for (std::uint32_t f = 0; f < kInputs; ++f)
        csv << values_.emplace_back(std::sin(static_cast<float>(7 * i + f))) << ',';
      csv << labels_.emplace_back(static_cast<std::int32_t>(i) % kClasses) << '\n';
    }
  }
  void TearDown() override {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    graft_loader_destroy(loader_);
    graft_data_destroy(set_);
  }

  graft_trainer_options options_of(const graft_data_set* set) {
    auto options = trainer_options();
    options.optimizer = GRAFT_ADAMW;
    options.seed = 5;
    options.checkpoints = 1;
    options.data = set;
    return options;
  }
  graft_status open_loader(std::uint64_t epochs = 0, bool in_order = false) {
    auto options = sized<graft_loader_options>();
    options.batch = kBatch;
    options.seed = 5;
    options.epochs = epochs;
    options.in_order = in_order ? 1 : 0;
    graft_loader_destroy(std::exchange(loader_, nullptr));
    return graft_loader_create(set_, &options, &loader_);
  }
  /// The set of the SPEC, with a trainer and a loader.
  void open_all(const std::string& spec, std::uint64_t epochs = 0) {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    graft_loader_destroy(std::exchange(loader_, nullptr));
    graft_data_destroy(std::exchange(set_, nullptr));
    ASSERT_EQ(graft_data_open(h_.context, spec.c_str(), &set_), GRAFT_OK) << h_.message();
    ASSERT_EQ(open_trainer(options_of(set_)), GRAFT_OK) << h_.message();
    ASSERT_EQ(open_loader(epochs), GRAFT_OK) << h_.message();
  }
  void steps(int count) {
    int more = 0;
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
      ASSERT_EQ(more, 1);
    }
  }
  std::vector<float> weights() {
    std::vector<float> out(6 * kInputs);
    EXPECT_EQ(graft_trainer_read(h_.trainer, "fc1.weight", out.data(), out.size() * sizeof(float), nullptr), GRAFT_OK)
        << h_.message();
    return out;
  }
  std::string spec() const { return "csv:" + csv_; }

  std::string csv_ = folder_.file("rows.csv");
  std::vector<float> values_;
  std::vector<std::int32_t> labels_;
  graft_data_set* set_ = nullptr;
  graft_loader* loader_ = nullptr;
};

TEST_F(DataSets, ASpecTrainsAsTheCommandLineDoes) {
  // What `graft train` is made of.
  const Model model = load_model(os::system_files(), path_).value();
  const auto source = data::open_spec(spec());
  ASSERT_TRUE(source.ok()) << source.status().message();
  const auto loader = data::Loader::create(**source, {.batch = kBatch, .seed = 5, .epochs = 2});
  train::TrainOptions options;
  options.optimizer.learning_rate = 0.1;
  options.batch = kBatch;
  options.seed = 5;
  const auto device = test_device();
  ASSERT_TRUE(device.ok()) << device.status().message();
  const auto trainer = create_trainer(**device, model, options, (*source)->fields());
  ASSERT_TRUE(trainer.ok()) << trainer.status().message();
  ASSERT_TRUE(train::fit(**trainer, **loader, {}).ok());
  std::vector<float> expected(6 * kInputs);
  ASSERT_TRUE((*trainer)->read("fc1.weight", std::as_writable_bytes(std::span(expected))).ok());

  open_all(spec(), 2);
  auto metrics = sized<graft_metrics>();
  int more = 1;
  std::uint64_t taken = 0;
  for (; taken < 100; ++taken) {
    ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &metrics), GRAFT_OK) << h_.message();
    if (more == 0) break;
  }
  EXPECT_EQ(taken, 10u) << "two epochs of five batches";
  EXPECT_EQ(metrics.step, 10u);
  EXPECT_EQ(weights(), expected) << "bit for bit";
}

TEST_F(DataSets, SamplesFromMemoryAndFromACallbackAreThoseOfTheFile) {
  open_all(spec());
  steps(7);
  const std::vector<float> expected = weights();
  // As the file's set names them.
  graft_field fields[2];
  for (std::size_t i = 0; i < 2; ++i) ASSERT_EQ(graft_data_field(set_, i, &fields[i]), GRAFT_OK) << h_.message();
  const std::string names[] = {fields[0].name, fields[1].name};
  for (std::size_t i = 0; i < 2; ++i) fields[i].name = names[i].c_str();
  EXPECT_EQ(graft_data_samples(set_), kCount);
  EXPECT_EQ(graft_data_field_count(set_), 2u);
  EXPECT_EQ(fields[0].dims[0], kInputs);
  EXPECT_EQ(fields[0].is_label, 0);
  EXPECT_EQ(fields[1].rank, 0u);
  EXPECT_EQ(fields[1].dtype, GRAFT_I32);
  EXPECT_EQ(fields[1].is_label, 1);

  // A csv file holds the numbers in decimal, so they are read back here.
  std::vector<float> x(kCount * kInputs);
  std::vector<std::int32_t> y(kCount);
  ASSERT_EQ(open_loader(1, true), GRAFT_OK) << h_.message();
  auto batch = sized<graft_batch>();
  std::uint64_t at = 0;
  for (;;) {
    ASSERT_EQ(graft_loader_next(loader_, &batch), GRAFT_OK) << h_.message();
    if (batch.samples == 0) break;
    std::memcpy(x.data() + at * kInputs, batch.fields[0], batch.samples * kInputs * sizeof(float));
    std::memcpy(y.data() + at, batch.fields[1], batch.samples * sizeof(std::int32_t));
    at += batch.samples;
    EXPECT_EQ(batch.last_of_epoch, at == kCount ? 1 : 0);
  }
  EXPECT_EQ(at, kCount);
  EXPECT_EQ(y, labels_);

  const auto train = [&](graft_data_set* set) {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    graft_loader_destroy(std::exchange(loader_, nullptr));
    graft_data_destroy(std::exchange(set_, set));
    EXPECT_EQ(open_trainer(options_of(set_)), GRAFT_OK) << h_.message();
    EXPECT_EQ(open_loader(), GRAFT_OK) << h_.message();
    steps(7);
    return weights();
  };
  graft_data_set* made = nullptr;
  const void* blocks[] = {x.data(), y.data()};
  ASSERT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, kCount, &made), GRAFT_OK) << h_.message();
  EXPECT_EQ(train(made), expected) << "memory";

  std::pair<const float*, const std::int32_t*> both = {x.data(), y.data()};
  const auto read = [](void* user, std::uint64_t index, void* const* out) {
    if (index >= kCount) return 0;
    const auto& [from, label] = *static_cast<decltype(both)*>(user);
    std::memcpy(out[0], from + index * kInputs, kInputs * sizeof(float));
    std::memcpy(out[1], label + index, sizeof(std::int32_t));
    return 1;
  };
  ASSERT_EQ(graft_data_from_callback(h_.context, fields, 2, kCount, read, &both, &made), GRAFT_OK) << h_.message();
  EXPECT_EQ(train(made), expected) << "callback";
  // Nobody says how many there are: another order, but all of them.
  ASSERT_EQ(graft_data_from_callback(h_.context, fields, 2, 0, read, &both, &made), GRAFT_OK) << h_.message();
  EXPECT_NE(train(made), expected);
  EXPECT_EQ(graft_data_samples(set_), 0u);
  ASSERT_EQ(open_loader(1), GRAFT_OK) << h_.message();
  for (at = 0;; at += batch.samples) {
    ASSERT_EQ(graft_loader_next(loader_, &batch), GRAFT_OK) << h_.message();
    if (batch.samples == 0) break;
  }
  EXPECT_EQ(at, kCount);
}

TEST_F(DataSets, AResumeGoesOnAtTheSameSample) {
  open_all(spec());
  steps(9);
  const std::vector<float> expected = weights();

  const std::string kept = folder_.file("kept");
  auto checkpoint = sized<graft_checkpoint_options>();
  checkpoint.folder = kept.c_str();
  checkpoint.resume = 1;
  auto info = sized<graft_checkpoint_info>();
  open_all(spec());
  checkpoint.loader = loader_;
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &checkpoint, &info), GRAFT_OK) << h_.message();
  steps(6);  // into the second epoch
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, nullptr), GRAFT_OK) << h_.message();
  steps(1);  // is in the journal alone
  open_all(spec());
  checkpoint.loader = loader_;
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &checkpoint, &info), GRAFT_OK) << h_.message();
  EXPECT_EQ(info.step, 6u);
  EXPECT_EQ(info.journalled, 1u);
  steps(3);
  EXPECT_EQ(weights(), expected) << "bit for bit";

  // Another set, and another order, are other runs.
  const std::string part = spec() + "?count=12";
  open_all(part);
  checkpoint.loader = loader_;
  EXPECT_EQ(graft_checkpoint_open(h_.trainer, &checkpoint, &info), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "data")) << h_.message();
  open_all(spec());
  ASSERT_EQ(open_loader(0, true), GRAFT_OK);
  checkpoint.loader = loader_;
  EXPECT_EQ(graft_checkpoint_open(h_.trainer, &checkpoint, &info), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "order")) << h_.message();
}

TEST_F(DataSets, ASetIsEvaluatedWhole) {
  open_all(spec());
  auto metrics = sized<graft_metrics>();
  EXPECT_EQ(graft_evaluate_data(h_.trainer, set_, &metrics), GRAFT_INVALID_ARGUMENT) << "the loader's thread reads it";
  graft_loader_destroy(std::exchange(loader_, nullptr));
  ASSERT_EQ(graft_evaluate_data(h_.trainer, set_, &metrics), GRAFT_OK) << h_.message();
  EXPECT_EQ(metrics.step, 0u);
  auto arrays = sized<graft_metrics>();
  const void* inputs[] = {values_.data()};
  ASSERT_EQ(graft_evaluate(h_.trainer, inputs, 1, labels_.data(), kCount, &arrays), GRAFT_OK) << h_.message();
  // The file has six digits of each number.
  EXPECT_NEAR(metrics.loss, arrays.loss, 1e-4);
  EXPECT_EQ(metrics.accuracy, arrays.accuracy);
}

int fail_at_ten(void* user, std::uint64_t index, void* const* out) {
  if (index == 10 && *static_cast<bool*>(user)) return -1;
  for (std::uint32_t i = 0; i < kInputs; ++i) static_cast<float*>(out[0])[i] = static_cast<float>(index % 5);
  *static_cast<std::int32_t*>(out[1]) = static_cast<std::int32_t>(index % kClasses);
  return 1;
}

TEST_F(DataSets, SamplesAtFaultAreLeftForTheNext) {
  const graft_field fields[] = {field("x", GRAFT_F32, {kInputs}, false), field("label", GRAFT_I32, {}, true)};
  const auto read = [](void*, std::uint64_t index, void* const* out) {
    for (std::uint32_t i = 0; i < kInputs; ++i) static_cast<float*>(out[0])[i] = index == 5 ? std::nanf("") : 0.5F;
    *static_cast<std::int32_t*>(out[1]) = 1;
    return 1;
  };
  ASSERT_EQ(graft_data_from_callback(h_.context, fields, 2, 12, read, nullptr, &set_), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(options_of(set_)), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_loader(1, true), GRAFT_OK) << h_.message();
  steps(1);
  const std::vector<float> before = weights();
  int more = 0;
  auto metrics = sized<graft_metrics>();
  EXPECT_EQ(graft_train_next(h_.trainer, loader_, &more, &metrics), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "sample 5")) << h_.message();
  EXPECT_EQ(weights(), before);
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &metrics), GRAFT_OK) << h_.message();
  EXPECT_EQ(metrics.step, 2u) << "samples 8 to 11";
  ASSERT_EQ(graft_train_next(h_.trainer, loader_, &more, &metrics), GRAFT_OK) << h_.message();
  EXPECT_EQ(more, 0);
}

TEST_F(DataSets, SeveralNamedFieldsAndTheNamesOfClasses) {
  std::ofstream(csv_) << "a,b,c,kind,x,y,w\n1,2,3,dog,0.5,7,1\n4,5,6,cat,1.5,8,2\n";
  const std::string named = spec() + "?inputs=first:a,b;second:c&targets=kind:kind;place:x,y&weight=w";
  ASSERT_EQ(graft_data_open(h_.context, named.c_str(), &set_), GRAFT_OK) << h_.message();
  const std::pair<const char*, int> wanted[] = {{"first", 0}, {"second", 0}, {"kind", 1}, {"place", 1}, {"weight", 2}};
  ASSERT_EQ(graft_data_field_count(set_), std::size(wanted));
  for (std::size_t i = 0; i < std::size(wanted); ++i) {
    graft_field got{};
    ASSERT_EQ(graft_data_field(set_, i, &got), GRAFT_OK) << h_.message();
    EXPECT_STREQ(got.name, wanted[i].first);
    EXPECT_EQ(got.is_label, wanted[i].second);
  }
  EXPECT_STREQ(graft_data_class(set_, 2, 0), "cat");
  EXPECT_STREQ(graft_data_class(set_, 2, 1), "dog");
  EXPECT_EQ(graft_data_class(set_, 2, 2), nullptr);
  EXPECT_EQ(graft_data_class(set_, 3, 0), nullptr);
  EXPECT_EQ(graft_data_class(set_, 9, 0), nullptr);
  EXPECT_EQ(graft_data_class(nullptr, 0, 0), nullptr);
  graft_data_destroy(std::exchange(set_, nullptr));
  // From memory: a weight is one f32, and there is no fourth kind.
  const float values[4] = {1, 2, 3, 4};
  const void* blocks[] = {values, values};
  graft_field fields[2] = {field("x", GRAFT_F32, {2}, false), field("w", GRAFT_F32, {}, false)};
  fields[1].is_label = 2;
  ASSERT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, 2, &set_), GRAFT_OK) << h_.message();
  graft_data_destroy(std::exchange(set_, nullptr));
  fields[1].is_label = 3;
  EXPECT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, 2, &set_), GRAFT_INVALID_ARGUMENT);
  EXPECT_NE(h_.message().find("0 to 2 are known"), std::string::npos) << h_.message();
  fields[1] = field("w", GRAFT_F32, {2}, false);
  fields[1].is_label = 2;
  EXPECT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, 2, &set_), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_data_open(h_.context, "folder:.", &set_), GRAFT_UNSUPPORTED) << h_.message();
}

TEST_F(DataSets, WrongSetsAreOneSentence) {
  const auto refused = [&](const char* spec, graft_status status, std::string_view part) {
    auto* set = reinterpret_cast<graft_data_set*>(this);
    EXPECT_EQ(graft_data_open(h_.context, spec, &set), status) << part;
    EXPECT_EQ(set, nullptr);
    EXPECT_TRUE(contains(h_.message(), part)) << h_.message();
  };
  refused(nullptr, GRAFT_INVALID_ARGUMENT, "NULL");
  refused("csv:/nowhere.csv", GRAFT_NOT_FOUND, "/nowhere.csv");
  refused("tarot:deck", GRAFT_INVALID_ARGUMENT, "tarot");
  graft_field fields[] = {field("x", GRAFT_F32, {kInputs}, false), field("label", GRAFT_I32, {}, true)};
  const auto no_fields = [&](std::string_view part) {
    graft_data_set* set = nullptr;
    bool failing = false;
    EXPECT_EQ(graft_data_from_callback(h_.context, fields, 2, 20, fail_at_ten, &failing, &set), GRAFT_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(h_.message(), part)) << h_.message();
  };
  fields[0].dims[0] = 0;
  no_fields("the size 0");
  fields[0].dims[0] = kInputs;
  fields[0].rank = 9;
  no_fields("9 axes");
  fields[0].rank = 1;
  fields[0].dtype = static_cast<graft_dtype>(7);
  no_fields("dtype number 7");
  fields[0].dtype = GRAFT_F32;
  fields[0].name = nullptr;
  no_fields("field 0 is NULL");
  fields[0].name = "label";
  no_fields("label");
  fields[0].name = "x";
  graft_data_set* set = nullptr;
  EXPECT_EQ(graft_data_from_callback(h_.context, fields, 2, 20, nullptr, nullptr, &set), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_data_from_callback(h_.context, nullptr, 2, 20, fail_at_ten, nullptr, &set), GRAFT_INVALID_ARGUMENT);
  const void* blocks[] = {values_.data(), nullptr};
  EXPECT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, kCount, &set), GRAFT_INVALID_ARGUMENT);
  blocks[1] = labels_.data();
  EXPECT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, UINT64_MAX / 2, &set), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(set, nullptr);

  // A sample that cannot be read: the steps before it are taken.
  bool failing = true;
  ASSERT_EQ(graft_data_from_callback(h_.context, fields, 2, 20, fail_at_ten, &failing, &set_), GRAFT_OK);
  EXPECT_EQ(open_loader(0, true), GRAFT_IO_ERROR) << "its fingerprint is of samples all over it";
  EXPECT_TRUE(contains(h_.message(), "sample 10")) << h_.message();
  failing = false;
  ASSERT_EQ(open_trainer(options_of(set_)), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_loader(0, true), GRAFT_OK) << h_.message();
  graft_loader* second = nullptr;
  EXPECT_EQ(graft_loader_create(set_, nullptr, &second), GRAFT_INVALID_ARGUMENT) << "one at a time";
  EXPECT_EQ(second, nullptr);
  int more = 0;
  EXPECT_EQ(graft_train_next(h_.trainer, nullptr, &more, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_next(h_.trainer, loader_, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_train_next(nullptr, loader_, &more, nullptr), GRAFT_INVALID_ARGUMENT);
  steps(1);
  // A trainer for other samples does not take these.
  auto options = trainer_options();
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  fields[0].name = "y";
  graft_data_set* other = nullptr;
  ASSERT_EQ(graft_data_from_callback(h_.context, fields, 2, 20, fail_at_ten, &failing, &other), GRAFT_OK);
  EXPECT_EQ(graft_evaluate_data(h_.trainer, other, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "graft_trainer_options.data")) << h_.message();
  graft_data_destroy(other);
  EXPECT_EQ(graft_loader_create(nullptr, nullptr, &second), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_loader_next(nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_loader_next(loader_, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_data_samples(nullptr), 0u);
  EXPECT_EQ(graft_data_field(nullptr, 0, fields), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_data_field(set_, 2, fields), GRAFT_NOT_FOUND);
  graft_data_destroy(nullptr);
  graft_loader_destroy(nullptr);
}

}  // namespace
}  // namespace graft::test::c_api_data_test
