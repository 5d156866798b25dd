// ctest: slow
// The C ABI when things fail: every heap allocation k, every Vulkan call k and every file call k of every entry point.
// Each failure must give a clean status and a sentence, leave nothing behind, and not spoil the same call made again.
// Where there are many k, some are taken from the whole range; GRAFT_TEST_EVERY_FAULT=1 takes all, in some minutes.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/files/fault_files.h"
#include "tests/support/heap_faults.h"

namespace graft::test::c_api_faults_test {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// One context, and what the entry points are called on. What the phases do while failures are injected must allocate
/// nothing itself.
struct Rig {
  static constexpr std::size_t kDigest = 256;

  explicit Rig(const TinyModel& tiny, std::uint32_t per_sample)
      : batch(4, per_sample, 3), short_batch(3, per_sample, 3) {
    write_model(tiny, model_path);
    digest.reserve(kDigest);
    // Room for every sentence to come: the block that holds it is not a leak.
    long_name.assign(2000, 'x');
  }

  graft_status load() {
    auto* made = reinterpret_cast<graft_model*>(this);  // must be overwritten
    const graft_status status = graft_model_load(h.context, model_path.c_str(), &made);
    if (status != GRAFT_OK) return made == nullptr ? status : GRAFT_INTERNAL;
    h.model = made;
    note(static_cast<double>(graft_model_count(h.model, GRAFT_PARAMETERS)));
    return status;
  }
  graft_status open_session() {
    const graft_binding bound = {"batch", 4};
    const char* wrt[] = {wrt_name};
    auto options = sized<graft_session_options>();
    options.bindings = &bound;
    options.binding_count = 1;
    options.of = "y";
    options.wrt = wrt;
    options.wrt_count = 1;
    auto* made = reinterpret_cast<graft_session*>(this);
    const graft_status status = graft_session_create(h.model, &options, &made);
    if (status != GRAFT_OK) return made == nullptr ? status : GRAFT_INTERNAL;
    h.session = made;
    return status;
  }
  graft_status run() {
    graft_tensor_info input{};
    graft_status status = graft_model_tensor(h.model, GRAFT_INPUTS, 0, &input);
    if (status == GRAFT_OK) status = graft_session_set_input(h.session, input.name, batch.x.data(), batch.bytes());
    if (status == GRAFT_OK) status = graft_session_set_input(h.session, "cotangent", batch.x.data(), 4 * 3 * 4);
    if (status == GRAFT_OK) status = graft_session_run(h.session);
    for (const char* name : {"y", gradient_name}) {
      const void* data = nullptr;
      std::size_t bytes = 0;
      if (status == GRAFT_OK) status = graft_session_output(h.session, name, &data, &bytes, nullptr);
      if (status == GRAFT_OK) note(static_cast<const float*>(data), bytes / sizeof(float));
    }
    return status;
  }
  graft_status open_trainer() {
    auto options = training_options();
    options.learning_rate = 0.05;
    options.batch = 4;
    options.micro_batch = 2;
    options.clip_norm = 1;
    options.freeze = "*1.bias,fc2.b*";
    auto* made = reinterpret_cast<graft_trainer*>(this);
    const graft_status status = graft_trainer_create(h.model, &options, &made);
    if (status != GRAFT_OK) return made == nullptr ? status : GRAFT_INTERNAL;
    h.trainer = made;
    return status;
  }
  /// A whole batch, then a short one, which needs another plan. Goes on where it failed.
  graft_status two_steps() {
    for (; steps < 2; ++steps) {
      auto metrics = sized<graft_metrics>();
      const graft_status status = (steps == 0 ? batch : short_batch).step(h.trainer, &metrics);
      if (status != GRAFT_OK) return status;
      note(metrics.loss);
      note(static_cast<double>(metrics.step));
    }
    return GRAFT_OK;
  }
  graft_status evaluate() {
    auto metrics = sized<graft_metrics>();
    const graft_status status =
        graft_evaluate(h.trainer, short_batch.inputs, 1, short_batch.labels.data(), short_batch.samples, &metrics);
    if (status == GRAFT_OK) note(metrics.loss);
    return status;
  }
  graft_status store() { return graft_trainer_store(h.trainer); }
  graft_status save() { return graft_model_save(h.model, save_path.c_str()); }
  /// Another context, as an app makes it.
  graft_status open_context() {
    auto options = sized<graft_context_options>();
    options.device = device_name.c_str();
    options.pipeline_cache = cache_path.c_str();
    options.allocate = allocate;
    options.deallocate = deallocate;
    options.allocator_user = this;
    const graft_status status = graft_context_create(&options, &other);
    if (status == GRAFT_OK) return status;
    graft_context_destroy(other);
    other = nullptr;
    return status;
  }

  /// Back to the state before any phase; the context stays.
  void reset() {
    h.destroy_parts();
    graft_context_destroy(other);
    other = nullptr;
    digest.clear();
    steps = 0;
  }
  void note(double value) {
    if (digest.size() < kDigest) digest.push_back(value);
  }
  void note(const float* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) note(values[i]);
  }

  /// The caller's allocator: counted as the heap is.
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment) {
    if (heap_faults::state.armed && heap_faults::next_fails()) return nullptr;
    ++static_cast<Rig*>(user)->live_blocks;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void deallocate(void* user, void* block, std::size_t, std::size_t) {
    --static_cast<Rig*>(user)->live_blocks;
    std::free(block);
  }

  TemporaryFolder folder;
  std::string model_path = folder.file("m.graft");
  std::string save_path = folder.file("saved.graft");
  std::string cache_path = folder.file("cache");
  std::string long_name;
  std::string device_name;
  const char* wrt_name = "fc1.weight";
  const char* gradient_name = "grad:fc1.weight";
  std::atomic<std::int64_t> live_blocks{0};
  CBatch batch;
  CBatch short_batch;
  std::vector<double> digest;
  unsigned steps = 0;
  graft_context* other = nullptr;
  CHandles h;
};

/// Parts of an app's life: what must have been done before, and the calls that failures are injected into.
struct Phase {
  const char* name;
  std::vector<graft_status (Rig::*)()> before;
  graft_status (Rig::*act)();
};

const Phase kPhases[] = {
    {"load", {}, &Rig::load},
    {"session", {&Rig::load}, &Rig::open_session},
    {"run", {&Rig::load, &Rig::open_session}, &Rig::run},
    {"trainer", {&Rig::load}, &Rig::open_trainer},
    {"steps", {&Rig::load, &Rig::open_trainer}, &Rig::two_steps},
    {"evaluate", {&Rig::load, &Rig::open_trainer}, &Rig::evaluate},
    {"store", {&Rig::load, &Rig::open_trainer}, &Rig::store},
    {"save", {&Rig::load, &Rig::open_trainer, &Rig::store}, &Rig::save},
};

/// What makes call k fail.
struct Injector {
  std::function<void(std::uint64_t k)> arm;       // 0: counts only
  std::function<std::uint64_t()> disarm;          // the calls since
  std::function<bool()> fired;                    // since arm()
  std::set<graft_status> expected;                // what a failure may give
  std::function<std::string()> failed = nullptr;  // which call it was
};

struct Tally {
  std::uint64_t calls = 0;     // in all phases
  std::uint64_t tried = 0;     // of these were made to fail
  std::uint64_t absorbed = 0;  // of these had no effect
};

class Sweep {
 public:
  Sweep(Rig& rig, Injector injector, std::uint64_t tries)
      : rig_(rig),
        in_(std::move(injector)),
        tries_(std::getenv("GRAFT_TEST_EVERY_FAULT") == nullptr ? tries : UINT64_MAX) {
    graft_model* none = nullptr;
    EXPECT_EQ(graft_model_load(rig_.h.context, rig_.long_name.c_str(), &none), GRAFT_IO_ERROR) << rig_.h.message();
  }

  void run(const Phase& phase) {
    SCOPED_TRACE(phase.name);
    std::uint64_t calls = 0;
    for (int i = 0; i < 2; ++i) {  // the first time also fills caches
      prepare(phase);
      in_.arm(0);
      const graft_status status = (rig_.*phase.act)();
      calls = in_.disarm();
      ASSERT_EQ(status, GRAFT_OK) << rig_.h.message();
      reference_ = rig_.digest;
      reference_file_ = file_after(phase);
    }
    rig_.reset();
    tally.calls += calls;
    // Spread over the whole phase where there are too many; the first ones and the last one are always among them.
    const std::uint64_t stride = std::max<std::uint64_t>(1, calls / tries_);
    for (std::uint64_t k = 1; k <= calls && !testing::Test::HasFailure();) {
      fail(phase, k);
      const std::uint64_t next = k + (k < 8 ? 1 : stride);
      k = k < calls ? std::min(next, calls) : next;
    }
  }
  Tally tally;

 private:
  void prepare(const Phase& phase) {
    rig_.reset();
    for (const auto step : phase.before) ASSERT_EQ((rig_.*step)(), GRAFT_OK) << rig_.h.message();
    rig_.digest.clear();
  }

  void fail(const Phase& phase, std::uint64_t k) {
    const std::int64_t heap = heap_faults::state.live;
    const std::int64_t blocks = rig_.live_blocks;
    const std::uint64_t device = device_bytes();
    prepare(phase);
    in_.arm(k);
    graft_status status = (rig_.*phase.act)();
    in_.disarm();
    if (!in_.fired()) return rig_.reset();
    const std::string what = cat(phase.name, ", call ", k, in_.failed ? " " + in_.failed() : "");
    ++tally.tried;
    if (status == GRAFT_OK) {
      ++tally.absorbed;
    } else {
      EXPECT_TRUE(in_.expected.contains(status))
          << what << ": " << graft_status_name(status) << " " << rig_.h.message();
      EXPECT_NE(rig_.h.message(), "") << what;
      if (phase.act != &Rig::two_steps) rig_.digest.clear();  // which notes whole steps only
      status = (rig_.*phase.act)();
      EXPECT_EQ(status, GRAFT_OK) << what << ", and again without a failure: " << rig_.h.message();
    }
    EXPECT_EQ(rig_.digest, reference_) << what << ": the result must be that of a run without failures";
    EXPECT_EQ(file_after(phase), reference_file_) << what;
    rig_.reset();
    EXPECT_EQ(heap_faults::state.live, heap) << what << ": heap blocks";
    EXPECT_EQ(rig_.live_blocks, blocks) << what << ": the caller's blocks";
    EXPECT_EQ(device_bytes(), device) << what << ": device memory";
  }
  /// The file that a phase wrote, or that what it stored gives.
  std::string file_after(const Phase& phase) {
    if (phase.act != &Rig::store && phase.act != &Rig::save) return {};
    if (phase.act == &Rig::store) {
      EXPECT_EQ(rig_.save(), GRAFT_OK) << rig_.h.message();
    }
    return contents(rig_.save_path);
  }
  std::uint64_t device_bytes() const { return rig_.h.context->device->memory().bytes; }

  Rig& rig_;
  Injector in_;
  std::uint64_t tries_;
  std::vector<double> reference_;
  std::string reference_file_;
};

/// A context on a device of these options.
graft_context* context_on(const vulkan::DeviceOptions& options) {
  auto device = vulkan::create_device(options);
  if (!device.ok()) return nullptr;
  auto* context = new graft_context();
  context->device = std::move(device).value();
  return context;
}

TEST(CApiFaults, EveryHeapAllocationCanFail) {
  if (!heap_faults::kReplaced) GTEST_SKIP() << "A sanitizer has its own heap.";
  Rig rig(tiny_mlp(5, 6, 3), 5);
  vulkan::DeviceOptions options = test_device_options();
  options.instance.validation = nullptr;  // slow, and another test has it
  options.reuse_pipelines = false;        // whose blocks on the heap come and go with other kernels
  rig.device_name = options.device;
  rig.h.context = context_on(options);
  if (rig.h.context == nullptr) GTEST_SKIP() << "There is no Vulkan device to test on.";
  rig.h.context->allocator = {Rig::allocate, Rig::deallocate, &rig};
  Sweep sweep(
      rig,
      {heap_faults::arm, heap_faults::disarm, [] { return heap_faults::state.fired.load(); }, {GRAFT_OUT_OF_MEMORY}},
      24);
  sweep.run({"context", {}, &Rig::open_context});
  for (const Phase& phase : kPhases) sweep.run(phase);
  std::printf("%llu of %llu heap allocations were made to fail; %llu had no effect\n",
              static_cast<unsigned long long>(sweep.tally.tried), static_cast<unsigned long long>(sweep.tally.calls),
              static_cast<unsigned long long>(sweep.tally.absorbed));
  EXPECT_GT(sweep.tally.tried, 150u);
  // Only what is optional may fail unseen.
  EXPECT_LT(sweep.tally.absorbed, sweep.tally.tried / 20);
}

struct VulkanSweep {
  int result = 0;  ///< what the calls return
  graft_status expected{};
  std::uint64_t tries = 0;  ///< of a phase
  bool answered = false;    ///< training goes on by itself
};

void fail_vulkan_calls(const VulkanSweep& what) {
  Rig rig(tiny_mlp(5, 6, 3), 5);
  validation_messages().take();
  vulkan::CallFaults faults;
  faults.result = what.result;
  vulkan::DeviceOptions options = test_device_options();
  options.instance.faults = &faults;
  rig.h.context = context_on(options);
  if (rig.h.context == nullptr) GTEST_SKIP() << "There is no Vulkan device to test on.";
  std::uint64_t start = 0;
  Sweep sweep(rig,
              {[&](std::uint64_t k) {
                 start = faults.calls;
                 faults.failed.clear();
                 faults.fail_call = k == 0 ? 0 : start + k;
               },
               [&] {
                 faults.fail_call = 0;
                 return faults.calls - start;
               },
               [&] { return !faults.failed.empty(); },
               {what.expected},
               [&] { return faults.failed; }},
              what.tries);
  for (const Phase& phase : kPhases) sweep.run(phase);
  std::printf("%llu of %llu Vulkan calls were made to fail; %llu had no effect\n",
              static_cast<unsigned long long>(sweep.tally.tried), static_cast<unsigned long long>(sweep.tally.calls),
              static_cast<unsigned long long>(sweep.tally.absorbed));
  EXPECT_GT(sweep.tally.tried, 2 * what.tries);
  EXPECT_EQ(sweep.tally.absorbed != 0, what.answered);

  rig.reset();
  graft_context_destroy(rig.h.context);
  rig.h.context = nullptr;
  expect_no_validation_messages();
}

TEST(CApiFaults, EveryVulkanCallCanFail) {
  fail_vulkan_calls({.result = -3, .expected = GRAFT_DEVICE_ERROR, .tries = 24});  // VK_ERROR_INITIALIZATION_FAILED
}

/// Steps go on with other plans; sessions and files say so.
TEST(CApiFaults, EveryVulkanCallCanRunOutOfMemory) {
  fail_vulkan_calls({.result = -2, .expected = GRAFT_OUT_OF_MEMORY, .tries = 12, .answered = true});
}

TEST(CApiFaults, ALostDeviceIsToldAndEverythingCanBeDestroyed) {
  Rig rig(tiny_mlp(5, 6, 3), 5);
  validation_messages().take();
  vulkan::CallFaults faults;
  vulkan::DeviceOptions options = test_device_options();
  options.instance.faults = &faults;
  rig.h.context = context_on(options);
  if (rig.h.context == nullptr) GTEST_SKIP() << "There is no Vulkan device to test on.";
  ASSERT_EQ(rig.load(), GRAFT_OK);
  ASSERT_EQ(rig.open_trainer(), GRAFT_OK) << rig.h.message();
  faults.result = -4;  // VK_ERROR_DEVICE_LOST
  faults.fail_call = faults.calls + 1;
  EXPECT_EQ(rig.two_steps(), GRAFT_DEVICE_LOST) << rig.h.message();
  EXPECT_EQ(rig.two_steps(), GRAFT_DEVICE_LOST) << "and stays lost";
  rig.reset();
  graft_context_destroy(rig.h.context);
  rig.h.context = nullptr;
  expect_no_validation_messages();
}

TEST(CApiFaults, EveryFileCallCanFail) {
  for (const bool disk_stays_full : {false, true}) {
    Rig rig(tiny_cnn(3), 64);
    vulkan::DeviceOptions options = test_device_options();
    options.instance.validation = nullptr;
    rig.h.context = context_on(options);
    if (rig.h.context == nullptr) GTEST_SKIP() << "There is no Vulkan device to test on.";
    FaultFiles files;
    rig.h.context->files = &files;
    ASSERT_EQ(rig.load(), GRAFT_OK) << rig.h.message();
    ASSERT_EQ(rig.save(), GRAFT_OK) << rig.h.message();
    const std::string good = contents(rig.save_path);
    ASSERT_FALSE(good.empty());
    std::uint64_t tried = 0;
    for (const Phase& phase : {kPhases[0], Phase{"save", {&Rig::load}, &Rig::save}}) {
      files.state = {};
      rig.reset();
      for (const auto step : phase.before) ASSERT_EQ((rig.*step)(), GRAFT_OK);
      const std::uint64_t first = files.state.calls;
      ASSERT_EQ((rig.*phase.act)(), GRAFT_OK);
      const std::uint64_t calls = files.state.calls - first;
      ASSERT_GT(calls, 0u);
      for (std::uint64_t k = 1; k <= calls; ++k) {
        files.state = {};
        rig.reset();
        for (const auto step : phase.before) ASSERT_EQ((rig.*step)(), GRAFT_OK);
        std::ofstream(rig.save_path, std::ios::binary) << "what was there before";
        files.state.fail_call = files.state.calls + k;
        files.state.keep_failing = disk_stays_full;
        files.state.short_write = true;
        const graft_status status = (rig.*phase.act)();
        ++tried;
        const std::string what = cat(phase.name, ", call ", k, " ", files.state.failed);
        files.state.fail_call = 0;
        const std::string left = contents(rig.save_path);
        if (files.state.failed == "remove" || files.state.failed == "sync_directory") {
          EXPECT_TRUE(left == good || left == "what was there before") << what << " happens after the rename";
        } else {
          EXPECT_EQ(status, GRAFT_IO_ERROR) << what << ": " << rig.h.message();
          EXPECT_EQ(left, "what was there before") << what;
        }
        EXPECT_TRUE(status == GRAFT_OK || rig.h.message().find(rig.folder.path()) != std::string::npos)
            << what << ": " << rig.h.message();
        EXPECT_EQ((rig.*phase.act)(), GRAFT_OK) << what << ", and again: " << rig.h.message();
        if (phase.act == &Rig::save) {
          EXPECT_EQ(contents(rig.save_path), good) << what;
        }
        if (!disk_stays_full) {
          for (const auto& entry : std::filesystem::directory_iterator(rig.folder.path())) {
            const std::string name = entry.path().filename();
            EXPECT_TRUE(name == "m.graft" || name == "saved.graft") << what << " left " << name << " behind";
          }
        }
      }
    }
    std::printf("%llu file calls were made to fail%s\n", static_cast<unsigned long long>(tried),
                disk_stays_full ? ", with all after them" : "");
    EXPECT_GT(tried, 6u);
  }
}

}  // namespace
}  // namespace graft::test::c_api_faults_test
