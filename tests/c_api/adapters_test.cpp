// ctest: middle
// The C ABI: low-rank adapters, put on, trained, saved, swapped and taken off.
#include <cmath>

#include "tests/support/c_api.h"

namespace graft::test::c_api_adapters_test {
namespace {

class Adapters : public CApi {
 protected:
  /// Thirty steps more lower the loss of the first.
  void train_and_store() {
    ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
    auto metrics = sized<graft_metrics>();
    ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
    const double first = metrics.loss;
    for (int i = 0; i < 30; ++i) ASSERT_EQ(batch_.step(h_.trainer, &metrics), GRAFT_OK) << h_.message();
    EXPECT_LT(metrics.loss, first);
    ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  }
};

TEST_F(Adapters, AreTrainedSavedSwappedAndTakenOff) {
  const std::vector<float> plain = run_model(h_.model);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "r=0", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "targets=nothing", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "\"nothing\" matches no weight")) << h_.message();
  EXPECT_EQ(graft_model_save_adapters(h_.model, path_.c_str()), GRAFT_INVALID_ARGUMENT) << "there are none";
  EXPECT_EQ(run_model(h_.model), plain) << "failures change nothing";

  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u) << "two matrices for each of two layers";
  EXPECT_EQ(run_model(h_.model), plain) << "B starts as zeros";
  train_and_store();
  const std::vector<float> trained = run_model(h_.model);
  EXPECT_NE(trained, plain);

  const std::string adapters = folder_.file("adapters.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), plain);
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u) << "two weights and two biases";
  ASSERT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), trained) << "bit for bit";
  // Another set instead, and back.
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=3", 2), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), plain);
  ASSERT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), trained);
  EXPECT_EQ(graft_model_load_adapters(h_.model, path_.c_str()), GRAFT_INVALID_ARGUMENT) << "a model is no adapter";
  EXPECT_EQ(run_model(h_.model), trained) << "failures change nothing";
}

/// Adapters of one layer with contents, as a file.
void write_adapters(graft_context* context, const std::string& model, const std::string& path, const char* options,
                    float b) {
  graft_model* made = nullptr;
  ASSERT_EQ(graft_model_load(context, model.c_str(), &made), GRAFT_OK);
  ASSERT_EQ(graft_model_add_adapters(made, options, 3), GRAFT_OK) << graft_message(context);
  ASSERT_EQ(graft_model_save_adapters(made, path.c_str()), GRAFT_OK) << graft_message(context);
  graft_model_destroy(made);
  auto loaded = load_model(os::system_files(), path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  for (const ValueId id : loaded->graph.of_kind(ValueKind::parameter)) {
    const Value& value = loaded->graph.value(id);
    if (!value.name.ends_with("lora_B.weight")) continue;
    const std::vector<float> numbers(value.shape.elements(), b);
    ASSERT_TRUE(loaded->copy_weight(id, std::as_bytes(std::span(numbers))).ok());
  }
  ASSERT_TRUE(save_model(os::system_files(), path, *loaded).ok());
}

TEST_F(Adapters, MergedAreAnOrdinaryModel) {
  const std::string first = folder_.file("first.graft"), second = folder_.file("second.graft");
  write_adapters(h_.context, path_, first, "r=3,alpha=6,targets=fc1|fc2", 0.25F);
  EXPECT_EQ(graft_model_merge_adapters(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "no adapters")) << h_.message();
  ASSERT_EQ(graft_model_load_adapters(h_.model, first.c_str()), GRAFT_OK) << h_.message();
  const std::vector<float> with_first = run_model(h_.model);
  EXPECT_EQ(graft_model_merge_adapters(h_.model, "q9"), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "q8_0")) << h_.message();
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_merge_adapters(h_.model, nullptr), GRAFT_INVALID_ARGUMENT) << "it is in use";
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  EXPECT_EQ(run_model(h_.model), with_first) << "failures change nothing";

  ASSERT_EQ(graft_model_merge_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u) << "two weights and two biases";
  const std::vector<float> merged = run_model(h_.model);
  // W + scale B A is rounded once for each weight, and sums come in another order: some roundings of numbers near 1.
  for (std::size_t i = 0; i < merged.size(); ++i)
    EXPECT_NEAR(merged[i], with_first[i], 1e-5F * (1 + std::abs(merged[i])));
  const std::string saved = folder_.file("merged.graft");
  ASSERT_EQ(graft_model_save(h_.model, saved.c_str()), GRAFT_OK) << h_.message();
  graft_model* again = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, saved.c_str(), &again), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(again), merged) << "bit for bit";
  graft_model_destroy(again);
  // It takes adapters as any model does, and gives them back.
  write_adapters(h_.context, saved, second, "r=2,alpha=8,targets=fc2", 0.5F);
  ASSERT_EQ(graft_model_load_adapters(h_.model, second.c_str()), GRAFT_OK) << h_.message();
  EXPECT_NE(run_model(h_.model), merged);
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), merged);
}

TEST_F(Adapters, OfSeveralSourcesAreAddedUp) {
  const std::string first = folder_.file("first.graft"), second = folder_.file("second.graft");
  write_adapters(h_.context, path_, first, "r=3,alpha=6,targets=fc1|fc2", 0.25F);
  write_adapters(h_.context, path_, second, "r=2,alpha=8,targets=fc2", 0.5F);
  const char* const paths[] = {first.c_str(), second.c_str()};
  const double weights[] = {0.5, -2};
  ASSERT_EQ(graft_model_load_adapters_together(h_.model, paths, weights, 2), GRAFT_OK) << h_.message();
  const std::vector<float> of_files = run_model(h_.model);
  const std::string bytes[] = {os::read_text_file(os::system_files(), first, 1 << 24).value(),
                               os::read_text_file(os::system_files(), second, 1 << 24).value()};
  graft_source sources[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    sources[i].struct_size = sizeof sources[i];
    sources[i].kind = GRAFT_SOURCE_MEMORY;
    sources[i].name = i == 0 ? "one" : "two";
    sources[i].data = bytes[i].data();
    sources[i].bytes = bytes[i].size();
    sources[i].copy = 1;
  }
  const graft_source* const both[] = {&sources[0], &sources[1]};
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_load_adapters_sources(h_.model, both, weights, 2), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), of_files) << "bit for bit";
  ASSERT_EQ(graft_model_load_adapters(h_.model, first.c_str()), GRAFT_OK) << h_.message();
  const std::vector<float> of_first = run_model(h_.model);
  ASSERT_EQ(graft_model_load_adapters_sources(h_.model, both, nullptr, 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), of_first) << "bit for bit";

  sources[1].bytes = bytes[1].size() / 2;
  EXPECT_EQ(graft_model_load_adapters_sources(h_.model, both, weights, 2), GRAFT_CORRUPT);
  EXPECT_TRUE(contains(h_.message(), "two")) << h_.message();
  const graft_source* const missing[] = {&sources[0], nullptr};
  EXPECT_EQ(graft_model_load_adapters_sources(h_.model, missing, weights, 2), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_load_adapters_sources(h_.model, both, weights, 0), GRAFT_INVALID_ARGUMENT);
  // What does not fit is named.
  const std::string other = folder_.file("other.graft");
  auto broken = load_model(os::system_files(), first);
  ASSERT_TRUE(broken.ok());
  broken->metadata["adapter.base"] = std::string(32, '0') + " another.graft";
  ASSERT_TRUE(save_model(os::system_files(), other, *broken).ok());
  EXPECT_EQ(graft_model_load_adapters(h_.model, other.c_str()), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "While putting the adapter \"" + other + "\" on")) << h_.message();
  EXPECT_EQ(run_model(h_.model), of_first) << "failures change nothing";
}

TEST_F(Adapters, WithLengthsAreTrainedSavedAndMerged) {
  const std::vector<float> plain = run_model(h_.model);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "dora=1", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "must be yes or no")) << h_.message();
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=all-linear,dora=yes,rslora=yes", 1), GRAFT_OK)
      << h_.message();
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2,dora=yes", 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 6u) << "two matrices and lengths for each of two layers";
  const std::vector<float> start = run_model(h_.model);
  // Lengths over lengths are 1 to a rounding of the root and one of the division.
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(start[i], plain[i], 1e-6F * (1 + std::abs(plain[i])));

  train_and_store();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  const std::vector<float> trained = run_model(h_.model);
  const std::string adapters = folder_.file("adapters.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();

  // A running model has no room for lengths, and its own have no other's.
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, nullptr), GRAFT_UNSUPPORTED);
  graft_session_destroy(h_.session);
  h_.session = nullptr;
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, adapters.c_str()), GRAFT_UNSUPPORTED);
  EXPECT_TRUE(contains(h_.message(), "is DoRA")) << h_.message();
  graft_session_destroy(h_.session);
  h_.session = nullptr;

  ASSERT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run_model(h_.model), trained) << "bit for bit";
  ASSERT_EQ(graft_model_merge_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  const std::vector<float> merged = run_model(h_.model);
  for (std::size_t i = 0; i < merged.size(); ++i) EXPECT_NEAR(merged[i], trained[i], 1e-5F * (1 + std::abs(merged[i])));
}

TEST_F(Adapters, ThatBeginAsTheWeightsDirectionsAreTrainedSavedAndMerged) {
  const std::vector<float> plain = run_model(h_.model);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "init=svd", 1), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_add_adapters(h_.model, "init=pissa,dora=yes", 1), GRAFT_UNSUPPORTED);
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,alpha=6,targets=fc1|fc2,init=pissa", 1), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_model_count(h_.model, GRAFT_PARAMETERS), 4u) << "two matrices for each of two layers";
  const std::vector<float> start = run_model(h_.model);
  // What is added and taken off again is no larger than what the weight gives: a few roundings.
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(start[i], plain[i], 1e-5F * (1 + std::abs(plain[i])));
  train_and_store();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  const std::vector<float> trained = run_model(h_.model);
  EXPECT_NE(trained, start);
  const std::string adapters = folder_.file("adapters.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();

  // Without its adapters the running model would lack what they began with.
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, nullptr), GRAFT_UNSUPPORTED);
  EXPECT_TRUE(contains(h_.message(), "init=pissa")) << h_.message();
  graft_session_destroy(h_.session);
  h_.session = nullptr;

  // A file holds both, as any adapter of twice the rank.
  ASSERT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
  const std::vector<float> loaded = run_model(h_.model);
  for (std::size_t i = 0; i < loaded.size(); ++i)
    EXPECT_NEAR(loaded[i], trained[i], 1e-5F * (1 + std::abs(trained[i])));
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, nullptr), GRAFT_OK) << h_.message();
  graft_session_destroy(h_.session);
  h_.session = nullptr;
  ASSERT_EQ(graft_model_merge_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  const std::vector<float> merged = run_model(h_.model);
  for (std::size_t i = 0; i < merged.size(); ++i)
    EXPECT_NEAR(merged[i], trained[i], 1e-5F * (1 + std::abs(trained[i])));
}

TEST_F(Adapters, ALiveSessionTakesOthers) {
  const std::string first = folder_.file("first.graft");
  const std::string second = folder_.file("second.graft");
  const std::string small = folder_.file("small.graft");
  const std::string elsewhere = folder_.file("elsewhere.graft");
  write_adapters(h_.context, path_, first, "r=3,alpha=6,targets=fc1|fc2", 0.25F);
  write_adapters(h_.context, path_, second, "r=3,alpha=6,targets=fc1|fc2", -0.5F);
  write_adapters(h_.context, path_, small, "r=2,alpha=8,targets=fc2", 0.5F);
  write_adapters(h_.context, path_, elsewhere, "r=4,targets=fc1", 1);
  const std::vector<float> plain = run_model(h_.model);
  const auto alone = [&](const std::string& adapters) {
    EXPECT_EQ(graft_model_load_adapters(h_.model, adapters.c_str()), GRAFT_OK) << h_.message();
    return run_model(h_.model);
  };
  const std::vector<float> with_second = alone(second);
  const std::vector<float> with_small = alone(small);
  const std::vector<float> with_first = alone(first);
  EXPECT_NE(with_second, with_first);

  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  const auto run = [&] {
    EXPECT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
    return output(h_.session);
  };
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run(), with_first);
  ASSERT_EQ(graft_session_swap_adapters(h_.session, second.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(run(), with_second) << "bit for bit";
  // Fewer layers, a smaller rank and another scale: zeros fill up, and the scale of 4 instead of 2 goes into B exactly.
  ASSERT_EQ(graft_session_swap_adapters(h_.session, small.c_str()), GRAFT_OK) << h_.message();
  const std::vector<float> swapped = run();
  for (std::size_t i = 0; i < swapped.size(); ++i) EXPECT_NEAR(swapped[i], with_small[i], 1e-5) << i;
  ASSERT_EQ(graft_session_swap_adapters(h_.session, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(run(), plain);
  ASSERT_EQ(graft_session_swap_adapters(h_.session, first.c_str()), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, elsewhere.c_str()), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "rank 4; there is room for 3")) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, path_.c_str()), GRAFT_INVALID_ARGUMENT) << "a model is no adapter";
  EXPECT_EQ(graft_session_swap_adapters(nullptr, first.c_str()), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(run(), with_first) << "failures change nothing";
  graft_session_destroy(h_.session);
  h_.session = nullptr;
  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_swap_adapters(h_.session, first.c_str()), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "made without adapters")) << h_.message();
}

}  // namespace
}  // namespace graft::test::c_api_adapters_test
