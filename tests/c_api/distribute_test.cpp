// The C ABI: a group of the app's own, asked of graft/distribute.h. tests/package/workers.c has two workers of it.
#include "graft/distribute.h"

#include <thread>

#include "platform/group/in_process.h"
#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_distribute_test {
namespace {

/// A group whose other worker sends what this one does, until it is gone: then this one is alone.
struct Echo {
  int calls = 0;
  int gone_at = -1;     ///< the call that fails; -1: none
  bool broken = false;  ///< until reform()
  graft_group group = {sizeof(graft_group), 0, 1, this, exchange, leave, reform, nullptr, 0, 0, 0};

  static graft_status exchange(void* user, std::size_t parts, const void* const* out, const std::size_t* out_bytes,
                               void* const* in, const std::size_t* in_bytes, std::uint64_t, char* message,
                               std::size_t bytes) {
    auto& self = *static_cast<Echo*>(user);
    self.broken = self.broken || self.calls == self.gone_at;
    ++self.calls;
    if (self.broken) {
      std::snprintf(message, bytes, "Worker 1 is gone.");
      return GRAFT_IO_ERROR;
    }
    for (std::size_t i = 0; i < parts * self.group.size; ++i) {
      const std::size_t own = i / self.group.size * self.group.size;
      if (out_bytes[own] != in_bytes[i]) return GRAFT_INVALID_ARGUMENT;
      if (in_bytes[i] > 0) std::memcpy(in[i], out[own], in_bytes[i]);
    }
    return GRAFT_OK;
  }
  static void leave(void*, graft_status, const char*) {}
  static graft_status reform(void* user, std::uint32_t* rank, std::uint32_t* size, char*, std::size_t) {
    static_cast<Echo*>(user)->broken = false;
    *rank = 0;
    *size = 1;
    return GRAFT_OK;
  }
};

TEST_F(CApi, GroupsAreChecked) {
  Echo echo;
  auto options = trainer_options();
  options.group = &echo.group;
  const auto refused = [&](std::string_view says) {
    EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT);
    EXPECT_TRUE(contains(h_.message(), says)) << h_.message();
  };
  echo.group.struct_size = 8;
  refused("struct_size");
  echo.group.struct_size = sizeof(graft_group);
  echo.group.rank = 1;
  refused("not below");
  echo.group.rank = 0;
  echo.group.exchange = nullptr;
  refused("NULL");
  echo.group.exchange = Echo::exchange;
  options.group_timeout_ms = ~0ull;
  refused("group_timeout_ms");
  options.group_timeout_ms = 0;
  options.recover_device = 1;
  EXPECT_EQ(open_trainer(options), GRAFT_UNSUPPORTED) << h_.message();
  options.recover_device = 0;
  options.fetch = "x";
  EXPECT_EQ(open_trainer(options), GRAFT_UNSUPPORTED) << h_.message();

  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_trainer_join(h_.trainer, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "alone")) << h_.message();
  EXPECT_EQ(graft_trainer_join(nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  std::uint32_t first = 7, count = 7;
  ASSERT_EQ(graft_trainer_share(h_.trainer, 4, &first, &count), GRAFT_OK);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(count, 4u) << "alone: all of them";
}

TEST_F(CApi, ARunGoesOnWithoutAWorker) {
  auto options = trainer_options();
  options.micro_batch = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::string alone = state_text(*h_.trainer->trainer);

  // Four exchanges a step: what is agreed upon, results, gradients, sums. Before the steps: the words, the state's
  // numbers, the cursor, and each tensor.
  for (const int call : {0, 5, 20, 21, 22, 23, 24}) {
    SCOPED_TRACE(call);
    Echo echo;
    options.group = &echo.group;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    echo.gone_at = call;
    std::uint64_t step = 77;
    int failures = 0;
    if (graft_trainer_join(h_.trainer, nullptr, &step) != GRAFT_OK) {
      ++failures;
      EXPECT_EQ(h_.message(), "Worker 1 is gone.");
      ASSERT_EQ(graft_trainer_join(h_.trainer, nullptr, &step), GRAFT_OK) << h_.message();
    }
    EXPECT_EQ(step, 0u);
    for (int i = 0; i < 5; ++i) {
      if (batch_.step(h_.trainer) == GRAFT_OK) continue;
      ++failures;
      EXPECT_TRUE(contains(h_.message(), "Worker 1 is gone.")) << h_.message();
      ASSERT_EQ(graft_trainer_join(h_.trainer, nullptr, &step), GRAFT_OK) << h_.message();
      EXPECT_EQ(step, static_cast<std::uint64_t>(i));
      --i;
    }
    EXPECT_EQ(failures, 1);
    EXPECT_EQ(state_text(*h_.trainer->trainer), alone);
  }
}

/// One worker of several threads, with a context of its own.
class Thread {
 public:
  Thread(std::unique_ptr<group::Group> end, const std::string& path) : end_(std::move(end)) {
    const auto context = context_options(device_);
    EXPECT_EQ(graft_context_create(&context, &h_.context), GRAFT_OK);
    EXPECT_EQ(graft_model_load(h_.context, path.c_str(), &h_.model), GRAFT_OK) << h_.message();
    group_ = {sizeof group_,
              static_cast<std::uint32_t>(end_->rank()),
              static_cast<std::uint32_t>(end_->size()),
              this,
              exchange,
              leave,
              nullptr,
              nullptr,
              0,
              0,
              0};
  }
  graft_group& group() { return group_; }
  CHandles& handles() { return h_; }
  void open(graft_trainer_options options) {
    options.group = &group_;
    ASSERT_EQ(graft_trainer_create(h_.model, &options, &h_.trainer), GRAFT_OK) << h_.message();
  }

 private:
  static graft_status exchange(void* user, std::size_t parts, const void* const* out, const std::size_t* out_bytes,
                               void* const* in, const std::size_t* in_bytes, std::uint64_t, char* message,
                               std::size_t bytes) {
    auto& self = *static_cast<Thread*>(user);
    std::vector<std::span<const std::byte>> given;
    std::vector<std::span<std::byte>> taken;
    for (std::size_t i = 0; i < parts * self.end_->size(); ++i) {
      given.emplace_back(static_cast<const std::byte*>(out[i]), out_bytes[i]);
      taken.emplace_back(static_cast<std::byte*>(in[i]), in_bytes[i]);
    }
    const Status done = self.end_->exchange(given, taken, graft::group::kNoDeadline);
    std::snprintf(message, bytes, "%s", done.message().c_str());
    return static_cast<graft_status>(done.code());
  }
  static void leave(void* user, graft_status why, const char* message) {
    static_cast<Thread*>(user)->end_->leave(Status(static_cast<Code>(why), message));
  }

  const std::unique_ptr<group::Group> end_;
  graft_group group_ = {};
  std::string device_;
  CHandles h_;
};

TEST_F(CApi, TheOptimizersStateIsSharedOut) {
  constexpr int kSteps = 4;
  auto options = trainer_options();
  options.optimizer = GRAFT_ADAMW;
  options.micro_batch = 1;
  options.checkpoints = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  auto whole = sized<graft_memory>();
  ASSERT_EQ(graft_trainer_memory(h_.trainer, &whole), GRAFT_OK);
  for (int i = 0; i < kSteps; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::string alone = state_text(*h_.trainer->trainer);

  auto ends = graft::group::in_process(2);
  std::vector<std::unique_ptr<Thread>> workers;
  for (auto& end : ends) workers.push_back(std::make_unique<Thread>(std::move(end), path_));
  const std::string folder = folder_.file("kept");
  const auto work = [&](std::size_t rank) {
    Thread& self = *workers[rank];
    self.group().shard_optimizer = self.group().moves_shares = 1;
    self.open(options);
    graft_trainer* const trainer = self.handles().trainer;
    const auto good = [&](graft_status status) { EXPECT_EQ(status, GRAFT_OK) << self.handles().message(); };
    auto part = sized<graft_memory>();
    good(graft_trainer_memory(trainer, &part));
    EXPECT_LT(part.optimizer, whole.optimizer);
    auto keep = sized<graft_checkpoint_options>();
    keep.folder = folder.c_str();
    keep.every = 2;  // the step brings what the snapshot needs
    if (rank == 0) good(graft_checkpoint_open(trainer, &keep, nullptr));
    good(graft_trainer_join(trainer, nullptr, nullptr));
    for (int i = 0; i < kSteps - 1; ++i) good(batch_.step(trainer));
    if (rank == 0) {
      EXPECT_EQ(graft_checkpoint_save(trainer, nullptr), GRAFT_INVALID_ARGUMENT);
    }
    good(batch_.step(trainer));
    good(graft_trainer_gather(trainer));
    if (rank == 0) {
      good(graft_checkpoint_save(trainer, "end"));
      good(graft_checkpoint_close(trainer));
    }
  };
  std::thread second([&] { work(1); });
  work(0);
  second.join();
  // One worker goes on from there, with the state of one.
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  auto keep = sized<graft_checkpoint_options>();
  keep.folder = folder.c_str();
  keep.resume = 1;
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &keep, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(state_text(*h_.trainer->trainer), alone);
}

TEST_F(CApi, HalfTheBytesAreOtherBits) {
  auto options = trainer_options();
  options.micro_batch = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::string alone = state_text(*h_.trainer->trainer);
  auto ends = graft::group::in_process(2);
  std::vector<std::unique_ptr<Thread>> workers;
  for (auto& end : ends) workers.push_back(std::make_unique<Thread>(std::move(end), path_));
  std::string texts[2];
  const auto work = [&](std::size_t rank) {
    workers[rank]->group().bf16_wire = 1;
    workers[rank]->open(options);
    graft_trainer* const trainer = workers[rank]->handles().trainer;
    EXPECT_EQ(graft_trainer_join(trainer, nullptr, nullptr), GRAFT_OK) << workers[rank]->handles().message();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(batch_.step(trainer), GRAFT_OK) << workers[rank]->handles().message();
    texts[rank] = state_text(*trainer->trainer);
  };
  std::thread second([&] { work(1); });
  work(0);
  second.join();
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[0], alone);
}

}  // namespace
}  // namespace graft::test::c_api_distribute_test
