#include <cmath>
#include <functional>

#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::norm {
namespace {

/// Which numbers share statistics, and which share scale and bias, by flat index.
struct Layout {
  std::function<std::int64_t(std::int64_t)> statistic;
  std::function<std::int64_t(std::int64_t)> channel;
  std::int64_t statistics = 0;
};

std::int64_t product(const std::vector<std::int64_t>& dims, std::size_t from, std::size_t to) {
  return ref_count({dims.begin() + static_cast<std::ptrdiff_t>(from), dims.begin() + static_cast<std::ptrdiff_t>(to)});
}

Layout batch_layout(const RefContext& c) {
  const std::int64_t channels = c.in_dims(0).back();
  const auto channel = [channels](std::int64_t i) { return i % channels; };
  return {channel, channel, channels};
}

Layout group_layout(const RefContext& c) {
  const auto& dims = c.in_dims(0);
  const std::int64_t channels = dims.back();
  const std::int64_t groups = c.attrs().integer("groups");
  const std::int64_t image = product(dims, 1, dims.size());
  const std::int64_t width = channels / groups;
  return {[=](std::int64_t i) { return i / image * groups + i % channels / width; },
          [=](std::int64_t i) { return i % channels; }, dims[0] * groups};
}

Layout layer_layout(const RefContext& c) {
  const auto& dims = c.in_dims(0);
  std::int64_t axis = c.attrs().integer("axis");
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  const std::int64_t row = product(dims, static_cast<std::size_t>(axis), dims.size());
  return {[=](std::int64_t i) { return i / row; }, [=](std::int64_t i) { return i % row; },
          product(dims, 0, static_cast<std::size_t>(axis))};
}

struct Statistics {
  std::vector<double> mean, variance, count;
};

Statistics statistics(std::span<const double> x, const Layout& layout) {
  const auto n = static_cast<std::size_t>(layout.statistics);
  Statistics s{std::vector<double>(n), std::vector<double>(n), std::vector<double>(n)};
  for (std::size_t i = 0; i < x.size(); ++i) {
    s.mean[layout.statistic(i)] += x[i];
    s.count[layout.statistic(i)] += 1;
  }
  for (std::size_t k = 0; k < n; ++k) s.mean[k] /= s.count[k];
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - s.mean[layout.statistic(i)];
    s.variance[layout.statistic(i)] += d * d;
  }
  for (std::size_t k = 0; k < n; ++k) s.variance[k] /= s.count[k];
  return s;
}

void forward(RefContext& c, const Layout& layout, const Statistics& s) {
  const double epsilon = c.attrs().number("epsilon");
  for (std::size_t i = 0; i < c.in(0).size(); ++i) {
    const auto k = layout.statistic(i);
    double y = (c.in(0)[i] - s.mean[k]) / std::sqrt(s.variance[k] + epsilon);
    if (c.has(1)) y *= c.in(1)[layout.channel(i)];
    if (c.has(2)) y += c.in(2)[layout.channel(i)];
    c.out()[i] = y;
  }
}

void forward_with_rstd(RefContext& c, const Layout& layout) {
  const double epsilon = c.attrs().number("epsilon");
  const Statistics s = statistics(c.in(0), layout);
  forward(c, layout, s);
  for (std::size_t k = 0; k < s.mean.size(); ++k) {
    c.out(1)[k] = s.mean[k];
    c.out(2)[k] = 1 / std::sqrt(s.variance[k] + epsilon);
  }
}

/// Inputs x, scale?, mean, rstd (given), dy. `constant`: statistics do not depend on x.
void backward(RefContext& c, const Layout& layout, const std::vector<double>& rstd, bool constant) {
  const auto x = c.in(0);
  const auto mean = c.in(2);
  const auto dy = c.in(4);
  std::vector<double> count(rstd.size()), sum(rstd.size()), product_sum(rstd.size());
  const auto scaled = [&](std::size_t i) { return c.has(1) ? dy[i] * c.in(1)[layout.channel(i)] : dy[i]; };
  const auto normal = [&](std::size_t i) { return (x[i] - mean[layout.statistic(i)]) * rstd[layout.statistic(i)]; };
  for (std::size_t i = 0; i < x.size(); ++i) {
    c.out(1)[layout.channel(i)] += dy[i] * normal(i);
    c.out(2)[layout.channel(i)] += dy[i];
    const auto k = layout.statistic(i);
    count[k] += 1;
    sum[k] += scaled(i);
    product_sum[k] += scaled(i) * normal(i);
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto k = layout.statistic(i);
    const double through = constant ? 0 : (sum[k] + normal(i) * product_sum[k]) / count[k];
    c.out()[i] = (scaled(i) - through) * rstd[k];
  }
}

}  // namespace

void ref_batch_norm(RefContext& c) {
  const auto copy = [&](std::size_t i) { return std::vector<double>(c.in(i).begin(), c.in(i).end()); };
  forward(c, batch_layout(c), {copy(3), copy(4), {}});
}

void ref_batch_norm_train(RefContext& c) {
  const Layout layout = batch_layout(c);
  const Statistics s = statistics(c.in(0), layout);
  forward(c, layout, s);
  for (std::size_t k = 0; k < s.mean.size(); ++k) {
    c.out(1)[k] = s.mean[k];
    c.out(2)[k] = s.variance[k];
  }
}

void ref_batch_norm_grad(RefContext& c) {
  std::vector<double> rstd;
  for (const double variance : c.in(3)) {
    rstd.push_back(1 / std::sqrt(variance + c.attrs().number("epsilon")));
  }
  backward(c, batch_layout(c), rstd, !c.attrs().flag("training"));
}

void ref_batch_norm_update(RefContext& c) {
  const double momentum = c.attrs().number("momentum");
  double n = static_cast<double>(c.attrs().integer("count"));
  if (c.attrs().has("count_shape")) n = static_cast<double>(ref_count(c.attrs().shape("count_shape").values()));
  const double factor = c.attrs().flag("unbiased") ? n / (n - 1) : 1;
  for (std::size_t i = 0; i < c.update(0).size(); ++i) {
    if (!std::isfinite(c.in(2)[i]) || !std::isfinite(c.in(3)[i])) continue;
    c.update(0)[i] += momentum * (c.in(2)[i] - c.update(0)[i]);
    c.update(1)[i] += momentum * (c.in(3)[i] * factor - c.update(1)[i]);
  }
}

void ref_group_norm(RefContext& c) { forward_with_rstd(c, group_layout(c)); }
void ref_layer_norm(RefContext& c) { forward_with_rstd(c, layer_layout(c)); }
void ref_group_norm_grad(RefContext& c) { backward(c, group_layout(c), {c.in(3).begin(), c.in(3).end()}, false); }
void ref_layer_norm_grad(RefContext& c) { backward(c, layer_layout(c), {c.in(3).begin(), c.in(3).end()}, false); }

}  // namespace graft::ops::norm
