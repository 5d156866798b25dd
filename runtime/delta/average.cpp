#include "runtime/delta/average.h"

#include <algorithm>
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/delta/privacy.h"

namespace graft::delta {
namespace {

Status check_options(const AverageOptions& options) {
  if (!(options.expected_clients >= 0) || !std::isfinite(options.expected_clients) ||
      (options.expected_clients > 0 && options.noise == 0)) {
    return invalid("A number of expected clients is a positive number, and goes with noise.");
  }
  if (options.noise == 0) return ok_status();
  if (!(options.noise > 0) || !(options.clip_norm > 0) || !std::isfinite(options.noise * options.clip_norm)) {
    return invalid("Noise is given as a multiple of the norm that each client was clipped to.");
  }
  if (options.weighing != Weighing::equal) {
    return invalid("With noise all clients weigh the same: a client of many samples would show through it.");
  }
  return ok_status();
}

}  // namespace

/// Whether noise on the sum hides this client.
Status Averager::check_privacy(const Delta& delta) const {
  if (delta.clip_norm == 0 || delta.clip_norm > options_.clip_norm || delta.clients != 1) {
    return invalid("A delta was clipped to ", delta.clip_norm, " and is of ", delta.clients,
                   " clients; the noise is for single clients clipped to ", options_.clip_norm, ".");
  }
  Numbers numbers;
  for (const Tensor& tensor : delta.tensors) {
    const std::vector<float> decoded = numbers_of(delta, tensor);
    numbers[tensor.name].assign(decoded.begin(), decoded.end());
  }
  if (const double norm = norm_of(numbers); norm > options_.clip_norm && delta.noise == 0) {
    return invalid("A delta has the norm ", norm, ", above the ", options_.clip_norm,
                   " that it says it was clipped to.");
  }
  const auto known = [&](const Tensor& tensor) { return sums_.contains(tensor.name); };
  if (!like_ || (delta.tensors.size() == sums_.size() && std::ranges::all_of(delta.tensors, known))) return ok_status();
  return invalid("With noise all deltas have the same tensors; one has ", delta.tensors.size(), ", those before ",
                 sums_.size(), ".");
}

Status Averager::check(const Delta& delta) const {
  if (options_.noise > 0) GRAFT_TRY(check_privacy(delta));
  if (!like_) return ok_status();
  if (!(delta.base == like_->base)) {
    return invalid("One delta's base has the weights ", hash_text(delta.base), " and another's ",
                   hash_text(like_->base), ".");
  }
  if (delta.kind != like_->kind) return invalid("Deltas of weights and adapters do not add up.");
  const bool fixed = delta.coding == Coding::fixed;
  if (fixed != (like_->coding == Coding::fixed) || (fixed && delta.fixed_bits != like_->fixed_bits)) {
    return invalid("Integers add up with integers of as many bits behind the point alone.");
  }
  if (delta.kind == Kind::adapters) {
    for (const auto& [key, value] : like_->metadata) {
      const auto theirs = delta.metadata.find(key);
      if (theirs != delta.metadata.end() && theirs->second == value) continue;
      if (key.starts_with("adapter."))
        return invalid("Adapters differ in \"", key, "\": their matrices do not add up.");
    }
  }
  for (const Tensor& tensor : delta.tensors) {
    const auto sum = sums_.find(tensor.name);
    if (sum == sums_.end() || (sum->second.shape == tensor.shape && sum->second.dtype == tensor.dtype)) continue;
    return invalid("The tensor \"", tensor.name, "\" has the shape ", tensor.shape.text(), " in one delta and ",
                   sum->second.shape.text(), " in another.");
  }
  return ok_status();
}

Status Averager::add(const Delta& delta) {
  GRAFT_TRY(check_options(options_));
  GRAFT_TRY(check(delta));
  const bool fixed = delta.coding == Coding::fixed;
  if (fixed && options_.weighing == Weighing::equal) {
    return invalid("Integers carry their samples: they are weighed by them.");
  }
  const auto samples = checked_add(samples_, delta.samples);
  const auto steps = checked_add(local_steps_, delta.local_steps);
  const auto clients = checked_add(clients_, delta.clients);
  if (!samples || !steps || !clients) return invalid("The deltas' samples or steps are too many to count.");
  const double weight = options_.weighing == Weighing::samples ? static_cast<double>(delta.samples) : delta.clients;
  for (const Tensor& tensor : delta.tensors) {
    Sum& sum = sums_[tensor.name];
    const std::size_t count = tensor.shape.elements();
    sum.shape = tensor.shape;
    sum.dtype = tensor.dtype;
    if (fixed) {
      sum.integers.resize(count);
      for (std::size_t i = 0; i < count; ++i) sum.integers[i] += integer_at(tensor.coded, i);
      continue;
    }
    sum.numbers.resize(count);
    const std::vector<float> numbers = numbers_of(delta, tensor);
    for (std::size_t i = 0; i < count; ++i) sum.numbers[i] += weight * static_cast<double>(numbers[i]);
  }
  if (!like_) {
    like_ = delta;
    like_->tensors.clear();
  }
  weight_ += weight;
  samples_ = *samples;
  local_steps_ = *steps;
  clients_ = *clients;
  return ok_status();
}

Result<Delta> Averager::finish() {
  if (!like_) return invalid("There is no delta to average.");
  Numbers averages;
  if (options_.expected_clients > 0) {
    weight_ = options_.expected_clients;  // how many came would tell of them, and so would their samples
    clients_ = static_cast<std::uint32_t>(std::clamp(std::round(weight_), 1.0, double{UINT32_MAX}));
    samples_ = clients_;
    local_steps_ = 0;
  }
  const double scale = std::ldexp(weight_, static_cast<int>(like_->fixed_bits));
  for (auto& [name, sum] : sums_) {
    std::vector<double>& out = averages[name];
    out = std::move(sum.numbers);
    for (double& x : out) x /= weight_;
    if (like_->coding != Coding::fixed) continue;
    out.resize(sum.integers.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int32_t>(sum.integers[i]) / scale;
  }
  Delta average = *like_;
  average.noise = options_.noise * options_.clip_norm / weight_;
  if (average.noise > 0) GRAFT_TRY(add_noise(averages, average.noise, options_.seed));
  average.coding = Coding::f32;
  average.fixed_bits = 0;
  average.samples = samples_;
  average.clients = clients_;
  average.local_steps = local_steps_;
  average.norm = norm_of(averages);
  for (const auto& [name, sum] : sums_) {
    average.tensors.push_back({name, sum.shape, sum.dtype, {}});
    GRAFT_TRY(set_numbers(average, name, averages.at(name)));
  }
  return average;
}

}  // namespace graft::delta
