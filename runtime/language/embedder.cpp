#include "runtime/language/embedder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "platform/base/stable_sort.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/language/text_model.h"
#include "runtime/lora/adapter.h"

namespace graft {
namespace {

constexpr std::uint32_t kUsualLength = 512;
constexpr std::uint32_t kShortest = 16;  ///< that a group of texts is padded to
constexpr std::string_view kPool = "graft/pool";
constexpr std::string_view kEmbedding = "graft/embedding";

}  // namespace

/// The vectors of a text's tokens times weights that add up to 1, on the device.
Status Embedder::add_pooling(const Model& model) {
  GRAFT_TRY_ASSIGN(pooled_, borrow_model(model));
  Graph& graph = pooled_.graph;
  GRAFT_TRY_ASSIGN(const ValueId hidden, hidden_state_of(graph, options_.of));
  const Shape shape = graph.value(hidden).shape;
  whole_ = static_cast<std::uint32_t>(shape[2].value());
  width_ = options_.dimensions != 0 ? options_.dimensions : whole_;
  if (width_ > whole_) {
    return invalid("Vectors of ", width_, " dimensions were asked for; the model's have ", whole_, ".");
  }
  GRAFT_TRY_ASSIGN(const ValueId pool, graph.add_value(std::string(kPool), DType::f32,
                                                       Shape({shape[0], Dim(1), shape[1]}), ValueKind::input));
  GRAFT_TRY_ASSIGN(const NodeId product, graph.add_node(Op::matmul, {pool, hidden}, {}, std::string(kEmbedding)));
  graph.clear_outputs();
  graph.add_output(std::string(kEmbedding), graph.node(product).outputs[0]);
  pooled_.signatures.clear();
  return {};
}

Result<std::unique_ptr<Embedder>> Embedder::create(gpu::Device& device, const Model& model,
                                                   const EmbedderOptions& options) {
  GRAFT_TRY(model.check_before_use());
  std::unique_ptr<Embedder> out(new Embedder());
  out->options_ = options;
  const std::uint32_t made_for = context_of(model).value_or(kUsualLength);
  out->length_ = options.length != 0 ? options.length : std::min(made_for, kUsualLength);
  if (context_of(model) && out->length_ > made_for) {
    return invalid("Texts of ", out->length_, " tokens were asked for; the model was made for ", made_for, ".");
  }
  out->pooling_ = options.pooling.value_or(pooling_of(model.metadata).value_or(Pooling::mean));
  out->normalize_ = options.normalize || (!options.pooling && normalizes(model.metadata));
  GRAFT_TRY_ASSIGN(out->inputs_, text_inputs_of(model.graph));
  out->vocabulary_ = table_rows(model.graph);
  GRAFT_TRY(out->add_pooling(model));
  if (model.tokenizer) {
    GRAFT_TRY_ASSIGN(text::Tokenizer tokenizer, tokenizer_of(model));
    out->tokenizer_.emplace(std::move(tokenizer));
  }
  SessionOptions session;
  session.bindings = {{out->inputs_.batch, options.batch}, {out->inputs_.seq, out->length_}};
  session.resizable = true;
  session.precision = options.precision;
  session.plan = options.plan;
  session.program = options.program;
  session.reopen = options.reopen;
  GRAFT_TRY_ASSIGN(out->session_, Session::create(device, out->pooled_, session));
  out->memory_ = out->session_->plan().memory;
  return out;
}

Status Embedder::check(std::span<const std::vector<text::TokenId>> texts) const {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) return invalid("Text ", i, " has no tokens.");
    if (texts[i].size() > length_ && !options_.cut) {
      return invalid("Text ", i, " has ", texts[i].size(), " tokens; ", length_, " fit.");
    }
    for (const text::TokenId id : texts[i]) {
      if (id >= 0 && (vocabulary_ == 0 || id < vocabulary_)) continue;
      return invalid("Token ", id, " of text ", i, " is none of the model's ", vocabulary_, ".");
    }
  }
  return {};
}

/// Few lengths: each is planned once.
std::uint32_t Embedder::padded(std::size_t tokens) const {
  const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(tokens, length_));
  if (!inputs_.pads) return count;
  std::uint32_t size = kShortest;
  while (size < count) size *= 2;
  return std::min(size, length_);
}

Result<std::vector<float>> Embedder::embed(std::span<const std::string_view> texts) {
  if (!tokenizer_) return error(Code::not_found, "The model carries no tokenizer; give tokens.");
  std::vector<std::vector<text::TokenId>> ids;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto encoded = tokenizer_->encode(texts[i]);
    if (!encoded.ok()) return Status(encoded.status()).with_context(cat("In text ", i));
    ids.push_back(std::move(*encoded));
  }
  return embed(ids);
}

Result<std::vector<float>> Embedder::embed(std::span<const std::vector<text::TokenId>> texts) {
  GRAFT_TRY(check(texts));
  counts_.clear();
  for (const auto& text : texts) counts_.push_back(static_cast<std::uint32_t>(text.size()));
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  graft::stable_sort(order,
                     [&](std::size_t i, std::size_t j) { return padded(texts[i].size()) < padded(texts[j].size()); });
  std::vector<float> out(texts.size() * width_);
  for (std::size_t first = 0; first < order.size();) {
    const std::uint32_t length = padded(texts[order[first]].size());
    std::size_t end = first;
    while (end < order.size() && end - first < options_.batch && padded(texts[order[end]].size()) == length) ++end;
    GRAFT_TRY(run(texts, std::span(order).subspan(first, end - first), length, out));
    first = end;
  }
  return out;
}

/// One batch; rows without a text hold the first one again, and are passed over.
Status Embedder::run(std::span<const std::vector<text::TokenId>> texts, std::span<const std::size_t> which,
                     std::uint32_t length, std::vector<float>& out) {
  GRAFT_TRY(session_->resize({{inputs_.seq, length}}));
  const std::size_t places = std::size_t{options_.batch} * length;
  std::vector<float> pool(places);
  std::vector<std::int32_t> numbers(places);
  const auto tokens_of = [&](std::size_t row) { return std::span(texts[which[row < which.size() ? row : 0]]); };
  for (const TextInput& input : inputs_.inputs) {
    for (std::size_t row = 0; row < options_.batch; ++row) {
      fill_text_row(input.role, tokens_of(row), std::span(numbers).subspan(row * length, length));
    }
    GRAFT_TRY(session_->set_input(input.name, std::as_bytes(std::span(numbers))));
  }
  for (std::size_t row = 0; row < options_.batch; ++row) {
    fill_pooling_row(pooling_, tokens_of(row).size(), std::span(pool).subspan(row * length, length));
  }
  GRAFT_TRY(session_->set_input(kPool, std::as_bytes(std::span(pool))));
  GRAFT_TRY(session_->run());
  const std::span<const std::byte> found = session_->output(kEmbedding);
  for (std::size_t row = 0; row < which.size(); ++row) {
    float* const vector = out.data() + which[row] * width_;
    std::memcpy(vector, found.data() + row * whole_ * sizeof(float), width_ * sizeof(float));
    double squares = 0;
    for (std::uint32_t k = 0; k < width_; ++k) squares += double{vector[k]} * vector[k];
    if (!std::isfinite(squares)) return invalid("The embedding of text ", which[row], " is not finite.");
    if (!normalize_ || squares == 0) continue;
    for (std::uint32_t k = 0; k < width_; ++k) vector[k] = static_cast<float>(vector[k] / std::sqrt(squares));
  }
  return {};
}

}  // namespace graft
