#include "tests/fuzz/follow.h"

#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "platform/base/hash.h"
#include "runtime/core/graph_text.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/session/session.h"
#include "runtime/text/tokenizer/tokenizer.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "runtime/train/plan/training_plan.h"
#include "runtime/train/step/training_graph.h"

namespace graft::fuzz {
namespace {

// Planning takes time that grows with the graph, and the search for small plans many times that. Honest seeds have up
// to 150 nodes.
constexpr std::size_t kMaxNodes = 400;
constexpr std::size_t kMaxSearched = 40;

Bindings all_bound(const Model& model) {
  Bindings bindings = model.symbol_defaults;
  for (const std::string& symbol : model.graph.symbols()) bindings.try_emplace(symbol, 2);
  return bindings;
}

Status plan_inference(const Model& model, const gpu::Target& target, const PlanOptions& options) {
  GRAFT_TRY_ASSIGN(const SessionGraph session, session_graph(model, all_bound(model), {}, DType::f32));
  GRAFT_TRY_ASSIGN(const Graph graph, fused_graph(session.graph, target, options));
  check(validate(graph).ok());
  const Graph* const graphs[] = {&graph};
  GRAFT_TRY_ASSIGN(const Residents residents, residents_within(target, graphs, options));
  GRAFT_TRY_ASSIGN(const Plan plan, make_plan(graph, target, residents, options));
  check(options.budget == 0 || plan.memory.total() <= options.budget);
  return ok_status();
}

}  // namespace

void check(bool condition) {
  if (!condition) std::abort();
}

void check_refusal(const Status& status) {
  if (status.ok()) return;
  if (status.code() == Code::internal || !status.message().ends_with('.')) {
    std::fprintf(stderr, "This is no sentence about the input: %s\n", status.message().c_str());
    std::abort();
  }
}

void follow_model(const Model& model, const gpu::Target& target) {
  (void)graph_text(model.graph);
  if (model.graph.nodes().size() <= kMaxNodes) check_refusal(plan_inference(model, target, {}));
}

void follow_model_far(const Model& model) {
  const gpu::Target target{.caps = {.device_name = "any Vulkan 1.1 device"}};
  // Most changes of a file leave its graph as it was, which would be planned the same again.
  static std::unordered_set<std::uint64_t> planned;
  const std::string text = graph_text(model.graph);
  if (!planned.insert(hash128(std::as_bytes(std::span(text))).low).second) return;
  follow_model(model, target);
  if (model.graph.nodes().size() > kMaxSearched) return;
  check_refusal(plan_inference(model, target, {.budget = 1 << 20}));
  train::TrainOptions options;
  options.loss.kind = train::Loss::mse;
  options.batch = 2;
  options.bindings = all_bound(model);
  if (const auto symbol = train::batch_symbol(model.graph); symbol.ok()) options.bindings.erase(*symbol);
  train::PlanRequest request;
  request.plan.budget = 4 << 20;
  request.shrink_micro_batch = true;
  if (const auto plan = train::plan_training(model.graph, options, request, target); !plan.ok()) {
    check_refusal(plan.status());
  }
}

void follow_vocabulary(const text::Vocabulary& vocabulary) {
  const std::string bytes = text::vocabulary_to_bytes(vocabulary);
  const auto again = text::vocabulary_from_bytes(std::as_bytes(std::span(bytes)));
  check(again.ok() && text::vocabulary_to_bytes(*again) == bytes);
  const auto tokenizer = text::Tokenizer::make(vocabulary);
  if (!tokenizer.ok()) return check_refusal(tokenizer.status());
  constexpr std::string_view kTexts[] = {"",
                                         "a",
                                         "Hello, world! It's 2026.",
                                         "  two  spaces\n\ttab ",
                                         "\xc3\xa9t\xc3\xa9 e\xcc\x81 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x8e\x89",
                                         "\xff\xc3 broken \xe6\x97",
                                         "<s>[INST] <|im_end|> </s>",
                                         "aaaaaaaaaaaaaaaabbbbbbbbabababab"};
  for (const std::string_view text : kTexts) {
    const auto ids = tokenizer->encode(text, {.parse_special = text.starts_with('<')});
    if (!ids.ok()) {
      check_refusal(ids.status());
      continue;
    }
    const auto decoded = tokenizer->decode(*ids);
    check(decoded.ok());
    text::StreamDecoder stream(*tokenizer);
    std::string pieces;
    for (const text::TokenId id : *ids) pieces += stream.push(id).value();
    check(pieces + stream.finish() == *decoded);
  }
}

}  // namespace graft::fuzz
