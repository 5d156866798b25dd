// graft/examples.h: a memory of examples over the C interface, and training that mixes it in.
#include "graft/examples.h"

#include <array>
#include <cmath>
#include <utility>

#include "tests/support/c_api.h"

namespace graft::test::c_api_examples_test {
namespace {

class Examples : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    if (HasFatalFailure() || IsSkipped()) return;
    fields_[0].name = "x";
    fields_[0].dtype = GRAFT_F32;
    fields_[0].rank = 1;
    fields_[0].dims[0] = kInputs;
    fields_[1].name = "label";
    fields_[1].dtype = GRAFT_I32;
    fields_[1].is_label = 1;
  }
  void TearDown() override {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    graft_loader_destroy(loader_);
    for (graft_data_set* set : sets_) graft_data_destroy(set);
    graft_memory_destroy(memory_);
  }

  graft_memory_options options() {
    auto options = sized<graft_memory_options>();
    options.fields = fields_;
    options.field_count = 2;
    return options;
  }
  graft_status open(const graft_memory_options& options, const char* name = "memory") {
    graft_memory_destroy(std::exchange(memory_, nullptr));
    return graft_memory_open(h_.context, folder_.file(name).c_str(), &options, &memory_);
  }
  graft_status add(const std::string& id, int number, graft_memory_added* added = nullptr) {
    std::array<float, kInputs> x{};
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(7 * number) + static_cast<float>(i));
    const std::int32_t label = number % kClasses;
    const void* const contents[] = {x.data(), &label};
    return graft_memory_add(memory_, id.c_str(), contents, 2, nullptr, added);
  }
  graft_data_set* set_of(graft_status made, graft_data_set* set) {
    EXPECT_EQ(made, GRAFT_OK) << h_.message();
    sets_.push_back(set);
    return set;
  }
  graft_data_set* data(graft_memory_part part) {
    graft_data_set* set = nullptr;
    const graft_status made = graft_memory_data(memory_, part, 0, &set);
    return set_of(made, set);
  }
  graft_data_set* mix(double share) {
    graft_data_set* news = nullptr;
    for (int i = 0; i < 20; ++i) {
      for (std::uint32_t f = 0; f < kInputs; ++f)
        x_[static_cast<std::size_t>(i)][f] = std::cos(static_cast<float>(3 * i + static_cast<int>(f)));
      labels_[static_cast<std::size_t>(i)] = i % kClasses;
    }
    const void* const blocks[] = {x_.data(), labels_.data()};
    const graft_status made = graft_data_from_memory(h_.context, fields_, 2, blocks, 20, &news);
    set_of(made, news);
    graft_data_set* mixed = nullptr;
    const graft_status done = graft_memory_mix(memory_, news, share, 0, &mixed);
    return set_of(done, mixed);
  }
  static graft_loader_options loading() {
    auto loading = sized<graft_loader_options>();
    loading.batch = 4;
    loading.epochs = 2;
    loading.keyed = 1;
    return loading;
  }
  /// The first layer after two epochs.
  std::vector<float> trained(const graft_data_set* set, graft_data_set* on) {
    graft_trainer_destroy(std::exchange(h_.trainer, nullptr));
    graft_loader_destroy(std::exchange(loader_, nullptr));
    auto training = trainer_options();
    training.data = set;
    EXPECT_EQ(open_trainer(training), GRAFT_OK) << h_.message();
    const auto batches = loading();
    EXPECT_EQ(graft_loader_create(on, &batches, &loader_), GRAFT_OK) << h_.message();
    int more = 1;
    for (int i = 0; i < 100 && more != 0; ++i) {
      EXPECT_EQ(graft_train_next(h_.trainer, loader_, &more, nullptr), GRAFT_OK) << h_.message();
    }
    EXPECT_EQ(more, 0);
    std::vector<float> out(6 * kInputs);
    EXPECT_EQ(graft_trainer_read(h_.trainer, "fc1.weight", out.data(), out.size() * sizeof(float), nullptr), GRAFT_OK);
    graft_loader_destroy(std::exchange(loader_, nullptr));
    return out;
  }

  graft_field fields_[2] = {};
  graft_memory_file* memory_ = nullptr;
  graft_loader* loader_ = nullptr;
  std::vector<graft_data_set*> sets_;
  std::array<std::array<float, kInputs>, 20> x_{};
  std::array<std::int32_t, 20> labels_{};
};

TEST_F(Examples, AddsListsAndErases) {
  auto wanted = options();
  wanted.records = 3;
  wanted.policy = GRAFT_MEMORY_AGE;
  wanted.held_out_share = 0;
  ASSERT_EQ(open(wanted), GRAFT_OK) << h_.message();
  auto added = sized<graft_memory_added>();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(add("r" + std::to_string(i), 3 * i, &added), GRAFT_OK) << h_.message();
    EXPECT_EQ(added.stored, 1);
    EXPECT_STREQ(added.evicted, "");
  }
  ASSERT_EQ(add("r3", 9, &added), GRAFT_OK);
  EXPECT_STREQ(added.evicted, "r0");
  ASSERT_EQ(add("r3", 9, &added), GRAFT_OK);
  EXPECT_EQ(added.is_known, 1);
  EXPECT_EQ(add("r3", 10), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(h_.message(), "The memory has a record \"r3\" with another sample; remove it first.");
  auto record = sized<graft_memory_record>();
  std::vector<std::string> ids;
  for (std::size_t i = 0; graft_memory_at(memory_, i, &record) == GRAFT_OK; ++i) ids.emplace_back(record.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"r1", "r2", "r3"}));
  EXPECT_EQ(h_.message(), "There are 3 records; number 3 is not one.");
  EXPECT_TRUE(std::isnan(record.loss));
  ASSERT_EQ(graft_memory_set_loss(memory_, "r2", 1.5), GRAFT_OK);
  ASSERT_EQ(graft_memory_find(memory_, "r2", &record), GRAFT_OK);
  EXPECT_EQ(record.loss, 1.5);
  EXPECT_EQ(record.may_train, 1);
  EXPECT_EQ(record.may_export, 0);
  const void* bytes = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(graft_memory_read(memory_, "r2", &bytes, &count), GRAFT_OK);
  ASSERT_EQ(count, kInputs * 4 + 4u);
  EXPECT_EQ(static_cast<const float*>(bytes)[1], std::sin(42.0f + 1));
  const char* const gone[] = {"r1", "r9"};
  EXPECT_EQ(graft_memory_remove(memory_, gone, 2), GRAFT_NOT_FOUND);
  EXPECT_EQ(h_.message(), "The memory has no record \"r9\".");
  ASSERT_EQ(graft_memory_remove(memory_, gone, 1), GRAFT_OK);
  auto info = sized<graft_memory_info>();
  ASSERT_EQ(graft_memory_describe(memory_, &info), GRAFT_OK);
  EXPECT_EQ(info.records, 2u);
  EXPECT_EQ(info.policy, GRAFT_MEMORY_AGE);
  // A second handle cannot write; one that reads can.
  graft_memory_file* second = nullptr;
  EXPECT_EQ(graft_memory_open(h_.context, folder_.file("memory").c_str(), &wanted, &second), GRAFT_IO_ERROR);
  wanted.read_only = 1;
  ASSERT_EQ(graft_memory_open(h_.context, folder_.file("memory").c_str(), &wanted, &second), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_memory_find(second, "r3", &record), GRAFT_OK);
  graft_memory_destroy(second);
}

TEST_F(Examples, ARunThatMixesARecordInAndOneThatNeverSawIt) {
  auto wanted = options();
  ASSERT_EQ(open(wanted), GRAFT_OK) << h_.message();
  for (int i = 0; i < 15; ++i) ASSERT_EQ(add("r" + std::to_string(i), i), GRAFT_OK) << h_.message();
  graft_data_set* const with = mix(0.4);
  // A record that a batch uses, and the first one that does.
  std::string gone, unused;
  std::uint64_t first = 0;
  const auto batches = loading();
  auto record = sized<graft_memory_record>();
  for (std::size_t i = 0; graft_memory_at(memory_, i, &record) == GRAFT_OK; ++i) {
    const bool is_used = graft_memory_first_use(with, &batches, record.id, 0, &first) == GRAFT_OK;
    (is_used ? gone : unused) = record.id;
    EXPECT_FALSE(is_used && record.is_held_out != 0) << record.id;
  }
  ASSERT_FALSE(gone.empty() || unused.empty());
  ASSERT_EQ(graft_memory_first_use(with, &batches, gone.c_str(), 0, &first), GRAFT_OK) << h_.message();
  EXPECT_LT(first, 18u);
  EXPECT_EQ(graft_memory_first_use(with, &batches, gone.c_str(), first, &first), GRAFT_NOT_FOUND);
  EXPECT_EQ(h_.message(), "No batch that was asked about has the record \"" + gone + "\".");
  auto shuffled = batches;
  shuffled.keyed = 0;
  EXPECT_EQ(graft_memory_first_use(with, &shuffled, gone.c_str(), 0, &first), GRAFT_INVALID_ARGUMENT);
  const std::vector<float> before = trained(with, with);
  const char* const ids[] = {gone.c_str()};
  ASSERT_EQ(graft_memory_remove(memory_, ids, 1), GRAFT_OK) << h_.message();
  graft_data_set* const without = mix(0.4);
  const std::vector<float> after = trained(without, without);
  EXPECT_NE(after, before);
  // A memory that never had it, filled the other way round.
  ASSERT_EQ(open(wanted, "never"), GRAFT_OK) << h_.message();
  for (int i = 14; i >= 0; --i) {
    if ("r" + std::to_string(i) != gone) {
      ASSERT_EQ(add("r" + std::to_string(i), i), GRAFT_OK);
    }
  }
  graft_data_set* const never = mix(0.4);
  EXPECT_EQ(trained(never, never), after) << "bit for bit";
  // The last batch is that of an epoch, not of all samples that there are.
  graft_data_set* const fewer = mix(0.2);
  EXPECT_EQ(graft_data_samples(fewer), 24u);
  EXPECT_NE(trained(fewer, fewer), after);
  // What is held out is a set of its own.
  EXPECT_GT(graft_data_samples(data(GRAFT_MEMORY_TRAINING)), 8u);
  graft_data_set* none = nullptr;
  EXPECT_EQ(graft_memory_data(memory_, GRAFT_MEMORY_EXPORT, 0, &none), GRAFT_NOT_FOUND);
  EXPECT_EQ(h_.message(), "The memory holds no record that may be exported: it has 14 in all.");
  EXPECT_EQ(graft_data_narrow(never, 0, 3), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(h_.message(), "A data set that a memory is mixed into has no parts.");
}

TEST_F(Examples, RefusesWhatIsWrong) {
  auto wanted = sized<graft_memory_options>();
  EXPECT_EQ(open(wanted), GRAFT_NOT_FOUND);
  wanted = options();
  wanted.held_out_share = 1;
  EXPECT_EQ(open(wanted), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(h_.message(), "graft_memory_options.held_out_share is 1; it must be in [0, 1).");
  wanted = options();
  wanted.policy = static_cast<graft_memory_policy>(3);
  EXPECT_EQ(open(wanted), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(h_.message(), "There is no policy number 3 of a memory.");
  ASSERT_EQ(open(options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_memory_add(memory_, "a", nullptr, 2, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  const void* const one[] = {x_.data()};
  EXPECT_EQ(graft_memory_add(memory_, "a", one, 1, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(h_.message(), "A sample of the memory has 2 fields; 1 were given.");
  auto record = sized<graft_record_options>();
  record.has_loss = 1;
  record.loss = INFINITY;
  const void* const both[] = {x_.data(), labels_.data()};
  EXPECT_EQ(graft_memory_add(memory_, "a", both, 2, &record, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_memory_add(nullptr, "a", both, 2, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_memory_set_loss(memory_, "a", 1), GRAFT_NOT_FOUND);
}

}  // namespace
}  // namespace graft::test::c_api_examples_test
