// The C ABI: a group of the app's own, asked of graft/distribute.h. tests/package/workers.c has two workers of it.
#include "graft/distribute.h"

#include "runtime/session/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_distribute_test {
namespace {

/// A group whose other worker sends what this one does, until it is gone: then this one is alone.
struct Echo {
  int calls = 0;
  int gone_at = -1;     ///< the call that fails; -1: none
  bool broken = false;  ///< until reform()
  graft_group group = {sizeof(graft_group), 0, 1, this, exchange, leave, reform, nullptr};

  static graft_status exchange(void* user, const void* const* out, const std::size_t* out_bytes, void* const* in,
                               const std::size_t* in_bytes, std::uint64_t, char* message, std::size_t bytes) {
    auto& self = *static_cast<Echo*>(user);
    self.broken = self.broken || self.calls == self.gone_at;
    ++self.calls;
    if (self.broken) {
      std::snprintf(message, bytes, "Worker 1 is gone.");
      return GRAFT_IO_ERROR;
    }
    for (std::uint32_t r = 0; r < self.group.size; ++r) {
      if (out_bytes[0] != in_bytes[r]) return GRAFT_INVALID_ARGUMENT;
      if (in_bytes[r] > 0) std::memcpy(in[r], out[0], in_bytes[r]);
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

}  // namespace
}  // namespace graft::test::c_api_distribute_test
