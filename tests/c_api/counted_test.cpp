// The C ABI's outputs that are as long as the data decide: what is there of them, run by run.
#include "runtime/model/counted.h"
#include "tests/support/c_api.h"
#include "tests/support/parse_graph.h"

namespace graft::test::c_api_counted_test {
namespace {

// Of x [batch, 4] the places of its elements above 0, in a row, and as columns of two; and which those are.
constexpr std::string_view kGraph = R"(
  input x: f32[batch, 4]
  zero = full() {shape=shape[], value=0.0, dtype=0}
  mask = greater(x, zero)
  ones = cast(mask) {to=1}
  flat = reshape(ones) {shape=shape[4*batch]}
  totals = cumsum(flat) {axis=0}
  places = compact(totals)
  last = slice(totals) {starts=[-1], ends=[2147483647], steps=[1]}
  count = reshape(last) {shape=shape[]}
  row = reshape(places) {shape=shape[1, 4*batch]}
  both = concat(row, row) {axis=0}
  all = reshape(x) {shape=shape[4*batch]}
  found = gather(all, places) {axis=0}
  output both = both
  output found = found
  output n = count
)";

class CApiCounted : public CApi {
 protected:
  void SetUp() override {
    CApi::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto parsed = parse_graph(kGraph);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    Model model;
    model.graph = parsed->graph;
    const std::vector<CountedOutput> counted = {{"both", 1, "n"}, {"found", 0, "n"}};
    model.metadata[std::string(kMetaCounted)] = counted_text(counted);
    Signature alone{"alone", {}, {model.graph.outputs()[1]}};
    alone.inputs.push_back({"x", model.graph.find_value("x")});
    model.signatures.push_back(alone);
    const Status saved = save_model(os::system_files(), path_, model);
    ASSERT_TRUE(saved.ok()) << saved.message();
    graft_model_destroy(h_.model);
    ASSERT_EQ(graft_model_load(h_.context, path_.c_str(), &h_.model), GRAFT_OK) << h_.message();
  }

  void run(const std::vector<float>& x) {
    ASSERT_EQ(graft_session_set_input(h_.session, "x", x.data(), 4 * x.size()), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  }

  std::vector<std::int32_t> whole_numbers(const char* name, std::vector<std::int64_t> dims) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    graft_tensor_info info{};
    EXPECT_EQ(graft_session_output(h_.session, name, &data, &bytes, &info), GRAFT_OK) << h_.message();
    EXPECT_EQ(std::vector<std::int64_t>(info.dims, info.dims + info.rank), dims) << name;
    std::vector<std::int32_t> values(bytes / sizeof(std::int32_t));
    if (!values.empty()) std::memcpy(values.data(), data, bytes);
    return values;
  }
};

using Whole = std::vector<std::int32_t>;
using Floats = std::vector<float>;

TEST_F(CApiCounted, OutputsAreAsLongAsEachRunMakesThem) {
  ASSERT_EQ(open_session(sized<graft_session_options>(), 2), GRAFT_OK) << h_.message();
  const void* data = nullptr;
  EXPECT_EQ(graft_session_output(h_.session, "found", &data, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(h_.message(), "has not run yet")) << h_.message();
  run({0, 3, -1, 5, 0, 0, 7, 0});
  EXPECT_EQ(whole_numbers("both", {2, 3}), (Whole{1, 3, 6, 1, 3, 6}));
  EXPECT_EQ(output(h_.session, "found"), (Floats{3, 5, 7}));
  EXPECT_EQ(whole_numbers("n", {}), Whole{3});
  run(Floats(8, -1));
  EXPECT_EQ(whole_numbers("both", {2, 0}), Whole{});
  EXPECT_EQ(output(h_.session, "found"), Floats{});
  run({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(whole_numbers("both", {2, 8}), (Whole{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(output(h_.session, "found"), (Floats{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(CApiCounted, SmallerSizesAndSignaturesKnowTheCount) {
  auto options = sized<graft_session_options>();
  options.resizable = 1;
  ASSERT_EQ(open_session(options, 3), GRAFT_OK) << h_.message();
  const graft_binding one = {"batch", 1};
  ASSERT_EQ(graft_session_resize(h_.session, &one, 1), GRAFT_OK) << h_.message();
  run({0, 2, 0, 4});
  EXPECT_EQ(whole_numbers("both", {2, 2}), (Whole{1, 3, 1, 3}));
  options = sized<graft_session_options>();
  options.signature = "alone";
  ASSERT_EQ(open_session(options, 1), GRAFT_OK) << h_.message();
  run({0, 0, 9, 0});
  EXPECT_EQ(output(h_.session, "found"), Floats{9});
}

TEST_F(CApiCounted, ACountThatIsNoneIsRefused) {
  auto loaded = load_model(os::system_files(), path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  loaded->metadata[std::string(kMetaCounted)] = "both\t7\tn\n";
  ASSERT_TRUE(save_model(os::system_files(), folder_.file("bad.graft"), *loaded).ok());
  graft_model* bad = nullptr;
  ASSERT_EQ(graft_model_load(h_.context, folder_.file("bad.graft").c_str(), &bad), GRAFT_OK) << h_.message();
  std::swap(bad, h_.model);
  EXPECT_EQ(open_session(), GRAFT_CORRUPT);
  EXPECT_TRUE(contains(h_.message(), "axis 7 of \"both\"")) << h_.message();
  std::swap(bad, h_.model);
  graft_model_destroy(bad);
}

}  // namespace
}  // namespace graft::test::c_api_counted_test
