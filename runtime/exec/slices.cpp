#include "runtime/exec/slices.h"

#include <algorithm>

namespace graft {

double slow_device_ns(const Step& step) {
  constexpr double kFlopsPerNs = 10, kBytesPerNs = 5;
  return static_cast<double>(step.flops) / kFlopsPerNs + static_cast<double>(step.bytes) / kBytesPerNs;
}

std::vector<std::uint32_t> split_steps(std::span<const Step> steps, std::uint32_t first, std::uint32_t end,
                                       std::uint32_t parts) {
  double left = 0;
  for (std::uint32_t s = first; s < end; ++s) left += slow_device_ns(steps[s]);
  std::vector<std::uint32_t> ends;
  double part = 0;
  for (std::uint32_t s = first; s < end; ++s) {
    const double ns = slow_device_ns(steps[s]);
    const auto parts_left = static_cast<double>(parts - ends.size());
    // A step goes to the part in which more of it lies.
    if (part > 0 && parts_left > 1 && part + ns / 2 > left / parts_left) {
      ends.push_back(s);
      left -= part;
      part = 0;
    }
    part += ns;
  }
  ends.push_back(end);
  return ends;
}

std::vector<Workgroups> split_dispatch(const Workgroups& whole, std::uint32_t parts) {
  std::size_t axis = 2;
  while (axis > 0 && whole.count[axis] <= 1) --axis;
  const auto is_zero = [](std::uint32_t first) { return first == 0; };
  if (!std::all_of(whole.first.begin() + static_cast<std::ptrdiff_t>(axis) + 1, whole.first.end(), is_zero)) {
    return {whole};  // the numbers of its groups depend on how wide it is
  }
  const std::uint32_t size = whole.count[axis];
  parts = std::clamp(parts, 1u, std::max(size, 1u));
  std::vector<Workgroups> split(parts, whole);
  for (std::uint32_t p = 0, at = 0; p < parts; ++p) {
    const std::uint32_t count = size / parts + (p < size % parts ? 1 : 0);
    split[p].first[axis] += at;
    split[p].count[axis] = count;
    at += count;
  }
  return split;
}

}  // namespace graft
