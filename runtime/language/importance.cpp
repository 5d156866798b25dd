#include "runtime/language/importance.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/language/text_model.h"
#include "runtime/lora/adapter.h"

namespace graft {
namespace {

constexpr std::uint32_t kUsualChunk = 512;
constexpr std::string_view kSquares = "graft/importance/";

bool is_of_adapter(const std::string& name) {
  return name.find(".lora_") != std::string::npos || name.find(".pissa_") != std::string::npos;
}

/// Whether the node multiplies every token's numbers with a matrix of the model's own.
bool is_product(const Model& model, const Node& node, const TextInputs& inputs) {
  if (node.op != Op::matmul || !model.weight(node.inputs[1])) return false;
  const Value& weight = model.graph.value(node.inputs[1]);
  const Shape& x = model.graph.value(node.inputs[0]).shape;
  return weight.shape.rank() == 2 && !is_of_adapter(weight.name) && x.rank() == 3 && x[0].is_symbol() &&
         x[0].symbols() == inputs.batch && x[1].is_symbol() && x[1].symbols() == inputs.seq && x[2].is_constant();
}

}  // namespace

Status Importance::choose_context(const Model& model) {
  const std::uint32_t made_for = context_of(model).value_or(kUsualChunk);
  context_ = options_.context != 0 ? options_.context : std::min(made_for, kUsualChunk);
  if (!context_of(model) || context_ <= made_for) return {};
  return invalid("Chunks of ", context_, " tokens were asked for; the model was made for ", made_for, ".");
}

/// One site for each value that goes into products: queries, keys and values share theirs.
Status Importance::find_products(const Model& model) {
  const Graph& graph = model.graph;
  const NodeId head = head_of(graph);
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!is_product(model, node, inputs_) || (NodeId{i} == head && !options_.head)) continue;
    const std::string& name = graph.value(node.inputs[1]).name;
    const auto columns = static_cast<std::size_t>(graph.value(node.inputs[0]).shape[2].value());
    auto matrix = std::ranges::find(matrices_, name, &ImportanceSums::name);
    if (matrix == matrices_.end()) {
      matrix = matrices_.insert(matrix, {name, std::vector<double>(columns), 0});
    }
    auto site = std::ranges::find(sites_, node.inputs[0], &Site::value);
    if (site == sites_.end()) site = sites_.insert(site, {cat(kSquares, sites_.size()), node.inputs[0], {}});
    site->matrices.push_back(static_cast<std::size_t>(matrix - matrices_.begin()));
  }
  if (!sites_.empty()) return {};
  return unsupported("The model multiplies no token's numbers with a matrix of its own.");
}

/// The graph gives sums of squares and nothing else, so that the head is not computed.
Status Importance::add_squares(const Model& model) {
  GRAFT_TRY_ASSIGN(measured_, borrow_model(model));
  Graph& graph = measured_.graph;
  graph.clear_outputs();
  measured_.signatures.clear();
  Builder builder(graph);
  for (const Site& site : sites_) {
    graph.add_output(site.output, builder.reduce_sum(builder.mul(site.value, site.value), {0, 1}, false));
  }
  return builder.status();
}

Result<std::unique_ptr<Importance>> Importance::create(gpu::Device& device, const Model& model,
                                                       const ImportanceOptions& options) {
  GRAFT_TRY(model.check_before_use());
  std::unique_ptr<Importance> out(new Importance());
  out->options_ = options;
  auto inputs = text_inputs_of(model.graph);
  if (inputs.ok() && (inputs->inputs.size() != 1 || !inputs->pads)) {
    inputs = unsupported(
        "It is an encoder, or no model of texts: its tokens see those behind them, or it takes more "
        "than tokens.");
  }
  if (!inputs.ok()) return Status(inputs.status()).with_context("Only causal language models have importance matrices");
  out->inputs_ = std::move(*inputs);
  out->vocabulary_ = table_rows(model.graph);
  GRAFT_TRY(out->choose_context(model));
  GRAFT_TRY(out->find_products(model));
  GRAFT_TRY(out->add_squares(model));
  if (model.tokenizer) {
    GRAFT_TRY_ASSIGN(text::Tokenizer tokenizer, tokenizer_of(model));
    out->tokenizer_.emplace(std::move(tokenizer));
  }
  SessionOptions session;
  session.bindings = {{out->inputs_.batch, 1}, {out->inputs_.seq, out->context_}};
  session.plan = options.plan;
  session.program = options.program;
  session.reopen = options.reopen;
  GRAFT_TRY_ASSIGN(out->session_, Session::create(device, out->measured_, session));
  out->memory_ = out->session_->plan().memory;
  return out;
}

Status Importance::add(std::string_view text) {
  if (!tokenizer_) return error(Code::not_found, "The model carries no tokenizer; give tokens.");
  GRAFT_TRY_ASSIGN(const auto tokens, tokenizer_->encode(text, {.parse_special = options_.parse_special}));
  const std::size_t after = std::min(tokenizer_->vocabulary().after.size(), tokens.size());
  return add(std::span(tokens).first(tokens.size() - after));  // the text goes on in what is no whole chunk
}

Status Importance::add(std::span<const text::TokenId> tokens) {
  if (tokens.size() < context_) {
    return invalid("The text has ", tokens.size(), " tokens, which are no whole chunk of ", context_,
                   ": give a longer text, or a smaller context.");
  }
  for (const text::TokenId id : tokens) {
    if (id >= 0 && (vocabulary_ == 0 || id < vocabulary_)) continue;
    return invalid("Token ", id, " is none of the model's ", vocabulary_, ".");
  }
  std::uint64_t count = tokens.size() / context_;
  if (options_.chunks != 0) count = std::min(count, options_.chunks - std::min(options_.chunks, done_ + waiting()));
  dropped_ += tokens.size() - count * context_;
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(first_));
  first_ = 0;
  const std::size_t begin = waiting_.size();
  waiting_.insert(waiting_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count * context_));
  if (!tokenizer_) return {};
  const auto& before = tokenizer_->vocabulary().before;
  const std::size_t put = std::min<std::size_t>(before.size(), context_);
  for (std::size_t at = begin; at < waiting_.size(); at += context_) {
    std::copy_n(before.begin(), put, waiting_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

std::uint64_t Importance::waiting() const { return (waiting_.size() - first_) / context_; }

Status Importance::step() {
  if (waiting() == 0) return {};
  const auto chunk = std::span(waiting_).subspan(first_, context_);
  GRAFT_TRY(session_->set_input(inputs_.inputs[0].name, std::as_bytes(chunk)));
  GRAFT_TRY(session_->run());
  const auto squares_of = [&](const Site& site) {
    const std::span<const std::byte> bytes = session_->output(site.output);
    return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  for (const Site& site : sites_) {
    if (std::ranges::all_of(squares_of(site), [](float sum) { return std::isfinite(sum); })) continue;
    return invalid("In chunk ", done_, ", \"", matrices_[site.matrices.front()].name,
                   "\" is multiplied with numbers that are not finite, or whose squares are not.");
  }
  for (const Site& site : sites_) {
    const std::span<const float> squares = squares_of(site);
    for (const std::size_t matrix : site.matrices) {
      std::vector<double>& sums = matrices_[matrix].sums;
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += squares[k];
      matrices_[matrix].tokens += context_;
    }
  }
  first_ += context_;
  ++done_;
  return {};
}

}  // namespace graft
