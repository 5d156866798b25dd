#include <algorithm>
#include <cmath>
#include <cstdint>

#include "runtime/reference/ref_place.h"
#include "shaders/cache/cache_base.h"

namespace graft::ops::attention {
namespace {

constexpr std::size_t kPlacesInput = 5;
constexpr std::size_t kNoPlaces = SIZE_MAX;
constexpr double kUnseen = -3e38;  // of a mask: as good as minus infinity

/// One head of one query, and all that it needs to find its scores.
class Row {
 public:
  /// `row` counts over [B, S, Hq]; `sequences` is the input that may hold them, the next may be a mask.
  Row(const RefContext& c, std::size_t row, std::size_t sequences) : c_(c), sequences_(sequences) {
    const auto& q = c.in_dims(0);
    const auto heads = static_cast<std::size_t>(q[2]);
    queries_ = q[1];
    keys_ = c.in_dims(1)[1];
    kv_heads_ = static_cast<std::size_t>(c.in_dims(1)[2]);
    dim_ = static_cast<std::size_t>(q[3]);
    batch_ = static_cast<std::int64_t>(row / heads) / queries_;
    query_ = static_cast<std::int64_t>(row / heads) % queries_;
    // A gradient has no places.
    place_ = ref_place(c, sequences == 3 ? kPlacesInput : kNoPlaces, static_cast<std::size_t>(batch_), 1);
    head_ = static_cast<std::int64_t>(row % heads);
    kv_head_ = row % heads / (heads / kv_heads_);
    start_ = row * dim_;
    scale_ = c.attrs().has("scale") ? c.attrs().number("scale") : 1 / std::sqrt(static_cast<double>(dim_));
    softcap_ = c.attrs().number("softcap");
  }

  std::int64_t keys() const { return keys_; }
  std::size_t dim() const { return dim_; }
  std::size_t start() const { return start_; }
  std::size_t key_start(std::int64_t key) const {
    return ((place_.slot * static_cast<std::size_t>(keys_) + static_cast<std::size_t>(key)) * kv_heads_ + kv_head_) *
           dim_;
  }

  bool sees(std::int64_t key) const {
    const Attrs& attrs = c_.attrs();
    std::int64_t place = query_ + (attrs.flag("from_step") ? place_.position : keys_ - queries_);
    if (attrs.flag("from_step") && place_.position == UINT32_MAX) return false;
    if (attrs.flag("forgets")) {
      place -=
          cache_base(std::max(place_.furthest, place_.position), static_cast<std::uint32_t>(attrs.integer("window")));
    }
    if (attrs.flag("causal") && key > place) return false;
    const std::int64_t window = attrs.integer("window");
    if (window != 0 && std::abs(key - place) >= window) return false;
    if (added(key) <= kUnseen) return false;
    if (!c_.has(sequences_)) return true;
    const double own = c_.in(sequences_)[static_cast<std::size_t>(batch_ * queries_ + query_)];
    return own >= 0 && own == c_.in(sequences_)[static_cast<std::size_t>(batch_ * queries_ + key)];
  }

  /// What the mask adds.
  double added(std::int64_t key) const {
    if (!c_.has(sequences_ + 1)) return 0;
    const auto& dims = c_.in_dims(sequences_ + 1);
    const std::int64_t at[] = {batch_, head_, query_, key};
    std::int64_t index = 0;
    for (std::size_t i = 0; i < 4; ++i) index = index * dims[i] + (dims[i] == 1 ? 0 : at[i]);
    return c_.in(sequences_ + 1)[static_cast<std::size_t>(index)];
  }

  /// Without the mask.
  double score(std::int64_t key) const {
    double product = 0;
    for (std::size_t i = 0; i < dim_; ++i) product += c_.in(0)[start_ + i] * c_.in(1)[key_start(key) + i];
    product *= scale_;
    return softcap_ > 0 ? softcap_ * std::tanh(product / softcap_) : product;
  }

  /// The derivative of a score by its product of query and key.
  double slope(double score) const {
    const double ratio = softcap_ > 0 ? score / softcap_ : 0;
    return scale_ * (1 - ratio * ratio);
  }

 private:
  const RefContext& c_;
  std::size_t sequences_;
  std::int64_t queries_, keys_, batch_, query_, head_;
  std::size_t kv_heads_, dim_, kv_head_, start_;
  double scale_, softcap_;
  RefPlace place_;
};

}  // namespace

void ref_attention(RefContext& c) {
  for (std::size_t r = 0; r < c.out(1).size(); ++r) {
    const Row row(c, r, 3);
    std::vector<std::pair<std::int64_t, double>> scores;
    double top = -INFINITY;
    for (std::int64_t key = 0; key < row.keys(); ++key) {
      if (!row.sees(key)) continue;
      scores.emplace_back(key, row.score(key) + row.added(key));
      top = std::max(top, scores.back().second);
    }
    double total = 0;
    for (const auto& [key, score] : scores) total += std::exp(score - top);
    c.out(1)[r] = scores.empty() ? -INFINITY : top + std::log(total);
    for (const auto& [key, score] : scores) {
      const double weight = std::exp(score - c.out(1)[r]);
      for (std::size_t i = 0; i < row.dim(); ++i) c.out()[row.start() + i] += weight * c.in(2)[row.key_start(key) + i];
    }
  }
}

void ref_attention_grad(RefContext& c) {
  const auto dy = c.in(5);
  for (std::size_t r = 0; r < c.in(4).size(); ++r) {
    const Row row(c, r, 6);
    double delta = 0;
    for (std::size_t i = 0; i < row.dim(); ++i) delta += c.in(3)[row.start() + i] * dy[row.start() + i];
    for (std::int64_t key = 0; key < row.keys(); ++key) {
      if (!row.sees(key)) continue;
      const std::size_t at = row.key_start(key);
      const double score = row.score(key);
      const double weight = std::exp(score + row.added(key) - c.in(4)[r]);
      double along = 0;
      for (std::size_t i = 0; i < row.dim(); ++i) along += dy[row.start() + i] * c.in(2)[at + i];
      const double slope = weight * (along - delta) * row.slope(score);
      for (std::size_t i = 0; i < row.dim(); ++i) {
        c.out(0)[row.start() + i] += slope * c.in(1)[at + i];
        c.out(1)[at + i] += slope * c.in(0)[row.start() + i];
        c.out(2)[at + i] += weight * dy[row.start() + i];
      }
    }
  }
}

}  // namespace graft::ops::attention
