// ctest: middle
// The C ABI: calls that cannot hurt. Whatever is refused leaves the state of training as it was, to the bit.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_options.h"
#include "runtime/c_api/c_trainer.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_safety_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = 3e38f;

class CApiSafety : public CApi {
 protected:
  std::string state() { return state_text(*h_.trainer->trainer); }
  graft_trainer_options options_of(graft_optimizer optimizer, std::uint32_t micro_batch, double clip_norm) {
    auto options = trainer_options();
    options.optimizer = optimizer;
    options.momentum = optimizer == GRAFT_SGD ? 0.9 : 0;
    options.micro_batch = micro_batch;
    options.clip_norm = clip_norm;
    options.checkpoints = 1;
    return options;
  }
  /// A model whose first layer gives zeros, for squared errors: far targets and large inputs give a finite loss and
  /// gradients that are not.
  void load_flat(const TinyModel& model) {
    h_.destroy_parts();
    write_model(model, path_);
    ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }
};

// A forked child has none of its parent's threads: a call would wait for one of them for ever.
TEST_F(CApiSafety, AForkedChildCannotUseItsParentsContext) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);  // where it hangs after all
    const auto refused = [&](graft_status status) {
      return status == GRAFT_INVALID_ARGUMENT && contains(h_.message(), "a child makes its own context.");
    };
    graft_model* model = nullptr;
    const bool all = refused(graft_session_run(h_.session)) &&
                     refused(graft_model_load(h_.context, path_.c_str(), &model)) && model == nullptr &&
                     graft_session_run_async(h_.session, graft_task_done, nullptr) == GRAFT_INVALID_ARGUMENT;
    graft_session_destroy(h_.session);
    graft_context_destroy(h_.context);
    ::_exit(all ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_run(h_.session), GRAFT_OK) << "the parent goes on: " << h_.message();
}

TEST_F(CApiSafety, ASampleThatIsNotFiniteChangesNothingWhereverItIs) {
  for (const std::uint32_t micro : {0u, 1u}) {
    ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, micro, 0)), GRAFT_OK) << h_.message();
    ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    const std::string before = state();
    for (std::size_t i = 0; i < batch_.x.size(); ++i) {
      for (const float bad : {kNan, kInfinity}) {
        CBatch spoiled = batch_;
        spoiled.inputs[0] = spoiled.x.data();
        spoiled.x[i] = bad;
        EXPECT_EQ(spoiled.step(h_.trainer), GRAFT_INVALID_ARGUMENT) << i;
        ASSERT_EQ(state(), before) << i;
      }
    }
    for (const std::int32_t label : {-1, kClasses, std::numeric_limits<std::int32_t>::max()}) {
      CBatch spoiled = batch_;
      spoiled.inputs[0] = spoiled.x.data();
      spoiled.labels[kSamples - 1] = label;
      EXPECT_EQ(spoiled.step(h_.trainer), GRAFT_INVALID_ARGUMENT) << label;
      ASSERT_EQ(state(), before) << label;
    }
  }
}

TEST_F(CApiSafety, AStepWhoseLossIsNotFiniteIsNotTaken) {
  for (const graft_optimizer optimizer : {GRAFT_SGD, GRAFT_ADAMW, GRAFT_ADAMW_8BIT}) {
    for (const std::uint32_t micro : {0u, 1u}) {
      for (const double clip : {0.0, 1.0}) {
        auto options = options_of(optimizer, micro, clip);
        options.loss = GRAFT_LOSS_MSE;
        ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
        std::vector<float> targets(std::size_t{kSamples} * kClasses, 0.5f);
        const auto step = [&] {
          return graft_train_step(h_.trainer, batch_.inputs, 1, targets.data(), kSamples, nullptr);
        };
        ASSERT_EQ(step(), GRAFT_OK) << h_.message();
        const std::string before = state();
        targets[5] = kLargest;  // its square is infinite
        EXPECT_EQ(step(), GRAFT_INVALID_ARGUMENT);
        EXPECT_TRUE(contains(h_.message(), "step 1 ") && contains(h_.message(), "nothing changed")) << h_.message();
        ASSERT_EQ(state(), before) << optimizer << ' ' << micro << ' ' << clip;
        targets[5] = 0.5f;
        ASSERT_EQ(step(), GRAFT_OK) << h_.message();
        const std::string after = state();
        // A run that never saw it has the same bits.
        ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
        ASSERT_EQ(step(), GRAFT_OK) << h_.message();
        ASSERT_EQ(step(), GRAFT_OK) << h_.message();
        EXPECT_EQ(state(), after) << optimizer << ' ' << micro << ' ' << clip;
      }
    }
  }
}

TEST_F(CApiSafety, AStepWhoseGradientsAreNotFiniteIsNotTaken) {
  TinyModel flat = tiny_mlp(kInputs, 6, kClasses);
  for (float& w : flat.weights["fc1.weight"]) w = 0;
  load_flat(flat);
  CBatch large = batch_;
  large.inputs[0] = large.x.data();
  for (float& x : large.x) x = kLargest;
  const std::vector<float> far(std::size_t{kSamples} * kClasses, 1e4f);
  for (const graft_optimizer optimizer : {GRAFT_SGD, GRAFT_ADAMW}) {
    for (const std::uint32_t micro : {0u, 2u}) {
      for (const double clip : {0.0, 1.0}) {
        auto options = options_of(optimizer, micro, clip);
        options.loss = GRAFT_LOSS_MSE;
        ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
        const std::string before = state();
        EXPECT_EQ(graft_train_step(h_.trainer, large.inputs, 1, far.data(), kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
        EXPECT_TRUE(contains(h_.message(), "gradient of step 0")) << h_.message();
        EXPECT_EQ(state(), before) << optimizer << ' ' << micro << ' ' << clip;
        EXPECT_EQ(graft_train_step(h_.trainer, batch_.inputs, 1, far.data(), kSamples, nullptr), GRAFT_OK)
            << h_.message();
      }
    }
  }
}

TEST_F(CApiSafety, InTheBackwardPassAGradientThatIsNotFiniteHoldsBackItsOwnParameter) {
  TinyModel flat = tiny_mlp(kInputs, 6, kClasses);
  for (float& w : flat.weights["fc1.weight"]) w = 0;
  load_flat(flat);
  CBatch large = batch_;
  large.inputs[0] = large.x.data();
  for (float& x : large.x) x = kLargest;  // the gradient of fc1.weight overflows, those of its bias and of fc2 do not
  const std::vector<float> far(std::size_t{kSamples} * kClasses, 1e4f);
  auto options = options_of(GRAFT_SGD, 0, 0);
  options.loss = GRAFT_LOSS_MSE;
  options.optimizer_in_backward = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  const auto weight = [&](const char* name, std::size_t count) {
    std::vector<float> out(count);
    EXPECT_EQ(graft_trainer_read(h_.trainer, name, out.data(), count * sizeof(float), nullptr), GRAFT_OK)
        << h_.message();
    return out;
  };
  const auto fc1 = weight("fc1.weight", flat.weights["fc1.weight"].size());
  const auto fc2 = weight("fc2.bias", kClasses);
  EXPECT_EQ(graft_train_step(h_.trainer, large.inputs, 1, far.data(), kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "others may have taken the step")) << h_.message();
  EXPECT_EQ(weight("fc1.weight", fc1.size()), fc1);
  EXPECT_NE(weight("fc2.bias", kClasses), fc2);
  // A loss that is not finite is known before any of them moves.
  const std::string before = state();
  const std::vector<float> farthest(far.size(), kLargest);
  EXPECT_EQ(graft_train_step(h_.trainer, batch_.inputs, 1, farthest.data(), kSamples, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(state(), before) << h_.message();
  options.clip_norm = 1;
  EXPECT_EQ(open_trainer(options), GRAFT_INVALID_ARGUMENT) << "the norm needs all gradients";
}

TEST_F(CApiSafety, InTheBackwardPassTheOptimizerGivesTheSameBits) {
  load_flat(tiny_mlp(kInputs, 6, kClasses));
  for (const graft_optimizer optimizer : {GRAFT_SGD, GRAFT_ADAMW}) {
    std::string after[2];
    for (const int in_backward : {0, 1}) {
      auto options = options_of(optimizer, 0, 0);
      options.optimizer_in_backward = in_backward;
      ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
      for (int i = 0; i < 3; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
      after[in_backward] = state();
    }
    EXPECT_EQ(after[0], after[1]) << optimizer;
  }
}

TEST_F(CApiSafety, RunningStatisticsComeBackWithTheStep) {
  load_flat(tiny_cnn(kClasses));
  CBatch images(kSamples, 64, kClasses);
  std::vector<float> targets(std::size_t{kSamples} * kClasses, 0.5f);
  for (const std::uint32_t micro : {0u, 1u}) {
    auto options = options_of(GRAFT_SGD, micro, 0);
    options.loss = GRAFT_LOSS_MSE;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    const auto step = [&] { return graft_train_step(h_.trainer, images.inputs, 1, targets.data(), kSamples, nullptr); };
    ASSERT_EQ(step(), GRAFT_OK) << h_.message();
    const std::string before = state();
    targets.back() = kLargest;
    EXPECT_EQ(step(), GRAFT_INVALID_ARGUMENT);
    EXPECT_EQ(state(), before) << micro;
    targets.back() = 0.5f;
    EXPECT_EQ(step(), GRAFT_OK) << h_.message();
    EXPECT_NE(state(), before);
  }
}

TEST_F(CApiSafety, AStepGoesOnWithTheSamplesThatItBeganWith) {
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 1, 0)), GRAFT_OK) << h_.message();
  int done = 0;
  const auto piece = [&](std::uint32_t samples) {
    return graft_train_micro_step(h_.trainer, batch_.inputs, 1, batch_.labels.data(), samples, &done, nullptr);
  };
  ASSERT_EQ(piece(kSamples), GRAFT_OK) << h_.message();
  const std::string before = state();
  for (const std::uint32_t samples : {1u, 2u, kSamples - 1, kSamples + 1}) {
    EXPECT_EQ(piece(samples), GRAFT_INVALID_ARGUMENT) << samples;
    EXPECT_EQ(state(), before) << samples;
  }
  for (std::uint32_t i = 1; i < kSamples; ++i) ASSERT_EQ(piece(kSamples), GRAFT_OK) << h_.message();
  EXPECT_EQ(done, 1);
}

TEST_F(CApiSafety, OptionsThatAreNullOrOfAnOlderProgramAreTheDefaults) {
  const auto none = c_api::read_options<graft_generator_options>(nullptr, "graft_generator_options");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->prefill, 64u);
  graft_checkpoint_options older = {};
  older.struct_size = offsetof(graft_checkpoint_options, keep);
  older.journal_every = 3;
  older.keep = 99;  // after the end of the older struct
  const auto read = c_api::read_options(&older, "graft_checkpoint_options");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->journal_every, 3u);
  EXPECT_EQ(read->keep, 4u);
  graft_checkpoint_options zeroed = {};
  zeroed.struct_size = sizeof zeroed;
  const std::string folder = folder_.file("zeroed");
  zeroed.folder = folder.c_str();
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 1, 0)), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_checkpoint_open(h_.trainer, &zeroed, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "journal_every is 0; it must be 1 or more")) << h_.message();
}

TEST_F(CApiSafety, NumbersOutOfTheirRangeAreRefused) {
  const auto said = [](auto change) {
    graft_trainer_options options = c_api::default_graft_trainer_options(GRAFT_ADAMW);
    change(options);
    return c_api::read_trainer_options(&options).status().message();
  };
  EXPECT_EQ(said([](auto&) {}), "");
  EXPECT_EQ(said([](auto& o) { o.beta1 = 0; }), "") << "an end that belongs to it";
  EXPECT_EQ(said([](auto& o) { o.beta2 = 1; }), "graft_trainer_options.beta2 is 1; it must be in [0, 1).");
  EXPECT_NE(said([](auto& o) { o.beta2 = 1 - 1e-12; }), "") << "1 as a float";
  EXPECT_EQ(said([](auto& o) { o.beta2 = 1 - 1e-6; }), "");
  EXPECT_EQ(said([](auto& o) { o.learning_rate = std::nan(""); }),
            "graft_trainer_options.learning_rate is nan; it must be in [0, 1e+30].");
  EXPECT_NE(said([](auto& o) { o.rise = 0; }), "") << "an open end";
  EXPECT_EQ(said([](auto& o) { o.clip_threshold = 1e-12; }), "") << "an end that is no float";
  EXPECT_EQ(said([](auto& o) { o.step_size = 0; }), "graft_trainer_options.step_size is 0; it must be 1 or more.");
  EXPECT_EQ(said([](auto& o) { o.max_time = -1; }),
            "graft_trainer_options.max_time is -1; it must be a number of 0 or more.");
  EXPECT_NE(said([](auto& o) { o.max_time = HUGE_VAL; }), "");
  EXPECT_EQ(said([](auto& o) { o.class_axis = GRAFT_AXIS_OF_LABELS; }), "") << "a word outside the range";
  EXPECT_NE(said([](auto& o) { o.class_axis = 8; }), "");
  graft_server_options server = c_api::defaults<graft_server_options>();
  server.tau = 0;
  EXPECT_EQ(c_api::check_ranges(server).message(), "graft_server_options.tau is 0; it must be a number above 0.");

  graft_parameter_group group = c_api::defaults<graft_parameter_group>();
  group.pattern = "fc1.*";
  group.learning_rate_scale = -1;
  graft_trainer_options options = c_api::default_graft_trainer_options(GRAFT_ADAMW);
  options.groups = &group;
  options.group_count = 1;
  EXPECT_EQ(c_api::train_options_of(options).status().message(),
            "Parameter group 0: graft_parameter_group.learning_rate_scale is -1; it must be in [0, 1e+30].");
  group.learning_rate_scale = 1;
  group.weight_decay = -0.5;
  EXPECT_EQ(c_api::train_options_of(options).status().message(),
            "The weight decay of parameter group 0 is -0.5; it must be -1 or 0 or more.");
}

TEST_F(CApiSafety, StructsOfTheWrongSizeAreRefusedBeforeAnythingRuns) {
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 1, 0)), GRAFT_OK) << h_.message();
  const std::string before = state();
  graft_metrics metrics{};
  EXPECT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "nothing changed")) << h_.message();
  int done = 0;
  EXPECT_EQ(graft_train_micro_step(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, &done, &metrics),
            GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_evaluate(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, &metrics),
            GRAFT_INVALID_ARGUMENT);
  const std::string folder = folder_.file("kept");
  auto options = sized<graft_checkpoint_options>();
  options.folder = folder.c_str();
  graft_checkpoint_info info{};
  EXPECT_EQ(graft_checkpoint_open(h_.trainer, &options, &info), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(state(), before);
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &options, nullptr), GRAFT_OK) << "the refused call opened nothing";
}

TEST_F(CApiSafety, WeightsThatAreNotFiniteAreNeitherStoredNorSaved) {
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 0, 0)), GRAFT_OK) << h_.message();
  const std::vector<float> before = run_model(h_.model);
  float bias[6] = {0, 0, 0, kNan, 0, 0};
  ASSERT_TRUE(h_.trainer->trainer->write("fc1.bias", std::as_bytes(std::span(bias))).ok());
  EXPECT_EQ(graft_trainer_store(h_.trainer), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "\"fc1.bias\" is not finite at element 3")) << h_.message();
  EXPECT_EQ(run_model(h_.model), before);

  // A model that holds such a weight in any case.
  graft_model* bad = nullptr;
  auto allowed = sized<graft_model_options>();
  allowed.allow_non_finite = 1;
  const std::string saved = folder_.file("bad.graft");
  ASSERT_EQ(graft_model_open(h_.context, path_.c_str(), &allowed, &bad), GRAFT_OK) << h_.message();
  const auto id = bad->model.graph.find_value("fc1.bias");
  ASSERT_TRUE(bad->model.copy_weight(id, std::as_bytes(std::span(bias))).ok());
  EXPECT_EQ(graft_model_save(bad, saved.c_str()), GRAFT_OK) << h_.message();
  graft_model_destroy(bad);
  ASSERT_EQ(graft_model_load(h_.context, saved.c_str(), &bad), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_save(bad, folder_.file("again.graft").c_str()), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "Nothing was saved")) << h_.message();
  graft_model_destroy(bad);
}

TEST_F(CApiSafety, SnapshotsAreFiniteAndAResumeTakesTheNewestThatIs) {
  const std::string folder = folder_.file("kept");
  auto kept = sized<graft_checkpoint_options>();
  kept.folder = folder.c_str();
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 0, 0)), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &kept, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, nullptr), GRAFT_OK) << h_.message();
  const std::string good = state();
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  float bias[6] = {kInfinity};
  ASSERT_TRUE(h_.trainer->trainer->write("fc1.bias", std::as_bytes(std::span(bias))).ok());
  EXPECT_EQ(graft_checkpoint_save(h_.trainer, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "no snapshot was written")) << h_.message();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;

  // Somebody insists: the store has a snapshot that is not finite.
  kept.resume = 1;
  kept.allow_non_finite = 1;
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 0, 0)), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_checkpoint_open(h_.trainer, &kept, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(state(), good);
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_TRUE(h_.trainer->trainer->write("fc1.bias", std::as_bytes(std::span(bias))).ok());
  ASSERT_EQ(graft_checkpoint_save(h_.trainer, "bad"), GRAFT_OK) << h_.message();

  kept.allow_non_finite = 0;
  for (const char* from : {"bad", static_cast<const char*>(nullptr)}) {
    ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 0, 0)), GRAFT_OK) << h_.message();
    kept.from = from;
    EXPECT_EQ(graft_checkpoint_open(h_.trainer, &kept, nullptr), from == nullptr ? GRAFT_OK : GRAFT_CORRUPT)
        << h_.message();
  }
  EXPECT_EQ(state(), good);
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
}

TEST_F(CApiSafety, HandlesAreDestroyedInAnyOrder) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 0, 0)), GRAFT_OK) << h_.message();
  graft_context_destroy(h_.context);
  graft_model_destroy(h_.model);
  graft_model_destroy(h_.model);  // its memory is still there: nothing happens
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK);
  EXPECT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK);
  EXPECT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK);
  EXPECT_EQ(graft_session_run(h_.session), GRAFT_OK);
  graft_session_destroy(h_.session);
  graft_trainer_destroy(h_.trainer);
  h_.context = nullptr;
  h_.model = nullptr;
  h_.session = nullptr;
  h_.trainer = nullptr;
}

TEST_F(CApiSafety, AdaptersChangeOnlyWhileNothingUsesTheModel) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_add_adapters(h_.model, "r=2", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "Nothing changed")) << h_.message();
  EXPECT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  graft_session_destroy(h_.session);
  h_.session = nullptr;
  EXPECT_EQ(graft_model_add_adapters(h_.model, "r=2", 1), GRAFT_OK) << h_.message();
}

TEST_F(CApiSafety, TwoThreadsTakeTurns) {
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 1, 0)), GRAFT_OK) << h_.message();
  constexpr int kSteps = 10;
  std::atomic<int> failed{0};
  const auto steps = [&] {
    for (int i = 0; i < kSteps; ++i) failed += batch_.step(h_.trainer) == GRAFT_OK ? 0 : 1;
  };
  std::thread other(steps);
  steps();
  other.join();
  EXPECT_EQ(failed, 0);
  const std::string together = state();
  ASSERT_EQ(open_trainer(options_of(GRAFT_ADAMW, 1, 0)), GRAFT_OK) << h_.message();
  steps();
  steps();
  EXPECT_EQ(state(), together) << "each call is one step, whoever makes it";
}

TEST_F(CApiSafety, ACallbackThatCallsGraftGetsAnError) {
  struct Caller {
    graft_context* context = nullptr;
    graft_model* model = nullptr;
    int refused = 0;
    int calls = 0;
  } caller;
  CHandles h;
  auto options = context_options(device_);
  options.log_level = GRAFT_LOG_DEBUG;
  options.log_user = &caller;
  options.log = [](void* user, graft_log_level, const char*) {
    auto& self = *static_cast<Caller*>(user);
    if (self.model == nullptr) return;
    ++self.calls;
    self.refused += graft_model_save(self.model, "/nowhere") == GRAFT_INVALID_ARGUMENT ? 1 : 0;
    graft_model_destroy(self.model);  // does nothing
  };
  ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
  ASSERT_EQ(graft_model_load(h.context, path_.c_str(), &h.model), GRAFT_OK) << h.message();
  caller.context = h.context;
  caller.model = h.model;
  EXPECT_EQ(c_api::guarded(h.context,
                           [&] {
                             h.context->log(LogLevel::warning, "Something to tell.");
                             return ok_status();
                           }),
            GRAFT_OK);
  EXPECT_EQ(caller.calls, 1);
  EXPECT_EQ(caller.refused, 1);
  EXPECT_EQ(graft_model_save(h.model, folder_.file("s.graft").c_str()), GRAFT_OK) << "it is still there";
  caller.model = nullptr;
}

}  // namespace
}  // namespace graft::test::c_api_safety_test
