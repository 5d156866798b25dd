#include "runtime/data/picture.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace graft::data {
namespace {

Picture empty_like(const Picture& in, Extent size) {
  Picture out{size, in.channels, {}};
  out.values.resize(static_cast<std::size_t>(size.height * size.width * in.channels));
  return out;
}

/// Which elements of a line make element i of another, and how much of each.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), widened = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(centre - widened + 0.5), 0);
    const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(centre + widened + 0.5), from);
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t k = first; k < end; ++k) {
      const double distance = std::abs((static_cast<double>(k) - centre + 0.5) / widened);
      weights.push_back(std::max(1 - distance, 0.0));
      total += weights.back();
    }
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / total));
  }
  return all;
}

/// Along rows first, then along columns, as Pillow does.
Picture resized_linear(const Picture& in, Extent size) {
  Picture rows = empty_like(in, {in.size.height, size.width});
  const auto across = taps_of(in.size.width, size.width), down = taps_of(in.size.height, size.height);
  for (std::int64_t y = 0; y < in.size.height; ++y) {
    for (std::int64_t x = 0; x < size.width; ++x) {
      const Taps& taps = across[static_cast<std::size_t>(x)];
      for (std::int64_t c = 0; c < in.channels; ++c) {
        float sum = 0;
        for (std::size_t k = 0; k < taps.weights.size(); ++k) {
          sum += taps.weights[k] * in.at(y, taps.first + static_cast<std::int64_t>(k))[c];
        }
        rows.at(y, x)[c] = sum;
      }
    }
  }
  Picture out = empty_like(in, size);
  for (std::int64_t y = 0; y < size.height; ++y) {
    const Taps& taps = down[static_cast<std::size_t>(y)];
    float* const to = out.at(y, 0);
    for (std::size_t k = 0; k < taps.weights.size(); ++k) {
      const float* from = rows.at(taps.first + static_cast<std::int64_t>(k), 0);
      for (std::int64_t i = 0; i < size.width * in.channels; ++i) to[i] += taps.weights[k] * from[i];
    }
  }
  return out;
}

float luma_of(const float* rgb) { return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]; }

/// Towards `other` where factor < 1, away from it where > 1; within 0 to 255.
float blend(float value, float other, float factor) {
  return std::clamp(factor * value + (1 - factor) * other, 0.0f, 255.0f);
}

void turn_hue(float* rgb, float turns) {
  const float high = std::max({rgb[0], rgb[1], rgb[2]}), low = std::min({rgb[0], rgb[1], rgb[2]}), range = high - low;
  if (range <= 0) return;
  float hue = high == rgb[0]   ? (rgb[1] - rgb[2]) / range
              : high == rgb[1] ? (rgb[2] - rgb[0]) / range + 2
                               : (rgb[0] - rgb[1]) / range + 4;
  hue = hue / 6 + turns;
  hue -= std::floor(hue);
  for (int c = 0; c < 3; ++c) {
    // How far the channel lies from its own hue: 0, 1/3 and 2/3 of a turn.
    float away = std::abs(hue - static_cast<float>(c) / 3);
    away = std::min(away, 1 - away);
    rgb[c] = low + range * std::clamp(2 - 6 * away, 0.0f, 1.0f);
  }
}

}  // namespace

Picture to_picture(const media::Image& image, std::int64_t channels) {
  Picture out{{image.size.height, image.size.width}, channels, {}};
  out.values.assign(image.bytes.begin(), image.bytes.end());
  return out;
}

Picture resized(const Picture& in, Extent size, Sampling sampling) {
  if (size == in.size) return in;
  if (sampling == Sampling::linear) return resized_linear(in, size);
  Picture out = empty_like(in, size);
  for (std::int64_t y = 0; y < size.height; ++y) {
    const std::int64_t from_y = (2 * y + 1) * in.size.height / (2 * size.height);
    for (std::int64_t x = 0; x < size.width; ++x) {
      const float* from = in.at(from_y, (2 * x + 1) * in.size.width / (2 * size.width));
      std::copy_n(from, in.channels, out.at(y, x));
    }
  }
  return out;
}

Picture window(const Picture& in, std::int64_t top, std::int64_t left, Extent size, float fill) {
  if (top == 0 && left == 0 && size == in.size) return in;
  Picture out = empty_like(in, size);
  std::ranges::fill(out.values, fill);
  const std::int64_t first = std::max<std::int64_t>(-left, 0), end = std::min(size.width, in.size.width - left);
  for (std::int64_t y = std::max<std::int64_t>(-top, 0); y < size.height && y + top < in.size.height; ++y) {
    if (first < end) std::copy_n(in.at(y + top, first + left), (end - first) * in.channels, out.at(y, first));
  }
  return out;
}

void flip_columns(Picture& p) {
  for (std::int64_t y = 0; y < p.size.height; ++y) {
    for (std::int64_t x = 0; x < p.size.width / 2; ++x) {
      std::swap_ranges(p.at(y, x), p.at(y, x) + p.channels, p.at(y, p.size.width - 1 - x));
    }
  }
}

void flip_rows(Picture& p) {
  const std::int64_t row = p.size.width * p.channels;
  for (std::int64_t y = 0; y < p.size.height / 2; ++y) {
    std::swap_ranges(p.at(y, 0), p.at(y, 0) + row, p.at(p.size.height - 1 - y, 0));
  }
}

Picture rotated(const Picture& in, double degrees, Sampling sampling, float fill) {
  const double angle = degrees * std::numbers::pi / 180, cosine = std::cos(angle), sine = std::sin(angle);
  const double middle_y = static_cast<double>(in.size.height - 1) / 2;
  const double middle_x = static_cast<double>(in.size.width - 1) / 2;
  Picture out = empty_like(in, in.size);
  const auto value = [&](std::int64_t y, std::int64_t x, std::int64_t c) {
    const bool inside = y >= 0 && x >= 0 && y < in.size.height && x < in.size.width;
    return inside ? static_cast<double>(in.at(y, x)[c]) : fill;
  };
  for (std::int64_t y = 0; y < in.size.height; ++y) {
    for (std::int64_t x = 0; x < in.size.width; ++x) {
      const double dy = static_cast<double>(y) - middle_y, dx = static_cast<double>(x) - middle_x;
      const double from_y = middle_y + sine * dx + cosine * dy, from_x = middle_x + cosine * dx - sine * dy;
      const bool nearest = sampling == Sampling::nearest;
      const double base_y = std::floor(nearest ? from_y + 0.5 : from_y),
                   base_x = std::floor(nearest ? from_x + 0.5 : from_x);
      const auto top = static_cast<std::int64_t>(base_y), left = static_cast<std::int64_t>(base_x);
      const double down = nearest ? 0 : from_y - base_y, right = nearest ? 0 : from_x - base_x;
      for (std::int64_t c = 0; c < in.channels; ++c) {
        const double above = value(top, left, c) * (1 - right) + (right > 0 ? value(top, left + 1, c) * right : 0);
        double below = 0;
        if (down > 0)
          below = value(top + 1, left, c) * (1 - right) + (right > 0 ? value(top + 1, left + 1, c) * right : 0);
        out.at(y, x)[c] = static_cast<float>(above * (1 - down) + below * down);
      }
    }
  }
  return out;
}

void jitter(Picture& p, const Jitter& most, Random& random) {
  const auto factor = [&](double range) {
    return static_cast<float>(random.uniform(std::max(1 - range, 0.0), 1 + range));
  };
  const float brightness = factor(most.brightness), contrast = factor(most.contrast),
              saturation = factor(most.saturation);
  const auto hue = static_cast<float>(random.uniform(-most.hue, most.hue));
  const bool colour = p.channels == 3;
  for (float& value : p.values) value = blend(value, 0, brightness);
  double sum = 0;
  const std::int64_t pixels = p.size.height * p.size.width;
  for (std::int64_t i = 0; i < pixels; ++i) sum += colour ? luma_of(p.at(0, i)) : *p.at(0, i);
  const auto mean = static_cast<float>(sum / static_cast<double>(pixels));
  for (float& value : p.values) value = blend(value, mean, contrast);
  for (std::int64_t i = 0; colour && i < pixels; ++i) {
    float* const rgb = p.at(0, i);
    const float gray = luma_of(rgb);
    for (int c = 0; c < 3; ++c) rgb[c] = blend(rgb[c], gray, saturation);
    if (most.hue > 0) turn_hue(rgb, hue);
  }
}

void cut_out(Picture& p, std::int64_t side, Random& random) {
  const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(p.size.height)));
  const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(p.size.width)));
  const std::int64_t top = std::max<std::int64_t>(y - side / 2, 0), left = std::max<std::int64_t>(x - side / 2, 0);
  const std::int64_t bottom = std::min(y - side / 2 + side, p.size.height);
  const std::int64_t right = std::min(x - side / 2 + side, p.size.width);
  for (std::int64_t row = top; row < bottom; ++row) {
    std::fill(p.at(row, left), p.at(row, left) + (right - left) * p.channels, 0.0f);
  }
}

}  // namespace graft::data
