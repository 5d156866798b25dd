#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/reference/ref_context.h"

namespace graft::ops::nms {
namespace {

struct Box {
  double top, left, bottom, right;
  double area() const { return (bottom - top) * (right - left); }
};

Box box_at(std::span<const double> v, bool centred) {
  if (centred) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

double shared_part(const Box& a, const Box& b) {
  const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0 && width > 0)) return 0;
  const double all = a.area() + b.area() - height * width;
  return all > 0 ? height * width / all : 0;
}

}  // namespace

void ref_nms(RefContext& c) {
  const auto size = [](std::int64_t dim) { return static_cast<std::size_t>(dim); };
  const std::size_t classes = size(c.in_dims(1)[1]), boxes = size(c.in_dims(1)[2]), places = size(c.out_dims()[2]);
  const bool centred = c.attrs().flag("center_point_box"), limited = c.attrs().has("score_threshold");
  // As the device has them.
  const double most = static_cast<float>(c.attrs().number("iou_threshold"));
  const double least = static_cast<float>(c.attrs().number("score_threshold"));
  for (std::size_t group = 0; group < size(c.in_dims(1)[0]) * classes; ++group) {
    const std::span<const double> scores = c.in(1).subspan(group * boxes, boxes);
    const auto box = [&](std::size_t i) {
      return box_at(c.in(0).subspan((group / classes * boxes + i) * 4, 4), centred);
    };
    std::vector<std::size_t> order, kept;
    for (std::size_t i = 0; i < boxes; ++i) {
      if (!std::isnan(scores[i]) && (!limited || scores[i] > least)) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    for (const std::size_t i : order) {
      if (kept.size() == places) break;
      const auto hides = [&](std::size_t other) { return shared_part(box(i), box(other)) > most; };
      if (std::none_of(kept.begin(), kept.end(), hides)) kept.push_back(i);
    }
    for (std::size_t k = 0; k < places; ++k) {
      c.out()[group * places + k] = k < kept.size() ? static_cast<double>(kept[k]) : -1;
    }
  }
}

}  // namespace graft::ops::nms
