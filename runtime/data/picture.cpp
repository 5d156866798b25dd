#include "runtime/data/picture.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace graft::data {
namespace {

Picture empty_of(Extent size, std::int64_t channels) {
  Picture out{size, channels, {}};
  out.values.resize(static_cast<std::size_t>(size.height * size.width * channels));
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

/// Along rows first, then along columns, as Pillow does. A line goes to all lines of the result that it is part of, so
/// that no more than one is held.
Picture resized_linear(const Decoded& in, Extent size) {
  const std::int64_t channels = in.channels(), line_values = size.width * channels;
  const auto across = taps_of(in.size().width, size.width), down = taps_of(in.size().height, size.height);
  Picture out = empty_of(size, channels);
  std::vector<float> from(static_cast<std::size_t>(in.size().width * channels));
  std::vector<float> line(static_cast<std::size_t>(line_values));
  const auto end_of = [&](std::int64_t y) {
    const Taps& taps = down[static_cast<std::size_t>(y)];
    return taps.first + static_cast<std::int64_t>(taps.weights.size());
  };
  for (std::int64_t y = 0, begin = 0; y < in.size().height; ++y) {
    while (begin < size.height && end_of(begin) <= y) ++begin;
    if (begin == size.height || down[static_cast<std::size_t>(begin)].first > y) continue;
    in.read(y, 0, in.size().width, from.data());
    for (std::int64_t x = 0; x < size.width; ++x) {
      const Taps& taps = across[static_cast<std::size_t>(x)];
      for (std::int64_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (std::size_t k = 0; k < taps.weights.size(); ++k) {
          sum += taps.weights[k] *
                 from[static_cast<std::size_t>((taps.first + static_cast<std::int64_t>(k)) * channels + c)];
        }
        line[static_cast<std::size_t>(x * channels + c)] = sum;
      }
    }
    for (std::int64_t to = begin; to < size.height && down[static_cast<std::size_t>(to)].first <= y; ++to) {
      const Taps& taps = down[static_cast<std::size_t>(to)];
      const float weight = taps.weights[static_cast<std::size_t>(y - taps.first)];
      float* const sums = out.at(to, 0);
      for (std::int64_t i = 0; i < line_values; ++i) sums[i] += weight * line[static_cast<std::size_t>(i)];
    }
  }
  return out;
}

template <typename From>
Picture window_of(const From& from, Extent has, std::int64_t channels, std::int64_t top, std::int64_t left, Extent size,
                  float fill) {
  Picture out = empty_of(size, channels);
  std::ranges::fill(out.values, fill);
  const std::int64_t first = std::max<std::int64_t>(-left, 0), end = std::min(size.width, has.width - left);
  for (std::int64_t y = std::max<std::int64_t>(-top, 0); y < size.height && y + top < has.height; ++y) {
    if (first < end) from(y + top, first + left, end - first, out.at(y, first));
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

Extent upright_extent(const media::ImageHeader& header, bool upright) {
  const Extent stored{header.height, header.width};
  return upright && header.orientation >= 5 ? Extent{stored.width, stored.height} : stored;
}

Decoded::Decoded(media::Image image, media::Pixels pixels, bool upright)
    : image_(std::move(image)),
      size_(upright_extent(image_.header, upright)),
      channels_(media::channels_of(pixels)),
      words_(media::is_16_bit(pixels)) {
  // EXIF names the sides of the upright picture at which the stored first row and first column lie.
  constexpr struct {
    bool right, bottom;  ///< where the stored rows begin, and where they are counted from
  } kTurns[] = {{false, false}, {true, false}, {true, true}, {false, true}};
  const std::uint32_t orientation = upright ? image_.header.orientation : 1;
  const std::int64_t width = image_.header.width, height = image_.header.height;
  if (orientation <= 4) {
    const auto turn = kTurns[orientation - 1];
    across_ = turn.right ? -1 : 1;
    down_ = turn.bottom ? -width : width;
    origin_ = (turn.right ? width - 1 : 0) + (turn.bottom ? (height - 1) * width : 0);
  } else {
    // The stored rows are columns: 5 left from the top, 6 right from the top, 7 right from the bottom, 8 left from it.
    const bool right = orientation == 6 || orientation == 7, bottom = orientation >= 7;
    across_ = right ? -width : width;
    down_ = bottom ? -1 : 1;
    origin_ = (right ? (height - 1) * width : 0) + (bottom ? width - 1 : 0);
  }
}

void Decoded::read(std::int64_t y, std::int64_t first, std::int64_t count, float* out) const {
  std::int64_t pixel = origin_ + y * down_ + first * across_;
  for (std::int64_t x = 0; x < count; ++x, pixel += across_) {
    const std::uint8_t* at = image_.bytes.data() + pixel * channels_ * (words_ ? 2 : 1);
    for (std::int64_t c = 0; c < channels_; ++c) {
      if (!words_) {
        *out++ = at[c];
        continue;
      }
      std::uint16_t word = 0;
      std::memcpy(&word, at + 2 * c, 2);
      *out++ = static_cast<float>(word) / 257.0f;
    }
  }
}

Picture resized(const Decoded& in, Extent size, Sampling sampling) {
  if (size == in.size()) return window(in, 0, 0, size, 0);
  if (sampling == Sampling::linear) return resized_linear(in, size);
  Picture out = empty_of(size, in.channels());
  std::vector<float> line(static_cast<std::size_t>(in.size().width * in.channels()));
  for (std::int64_t y = 0; y < size.height; ++y) {
    in.read((2 * y + 1) * in.size().height / (2 * size.height), 0, in.size().width, line.data());
    for (std::int64_t x = 0; x < size.width; ++x) {
      const std::int64_t from = (2 * x + 1) * in.size().width / (2 * size.width);
      std::copy_n(line.data() + from * in.channels(), in.channels(), out.at(y, x));
    }
  }
  return out;
}

Picture window(const Picture& in, std::int64_t top, std::int64_t left, Extent size, float fill) {
  if (top == 0 && left == 0 && size == in.size) return in;
  const auto read = [&](std::int64_t y, std::int64_t x, std::int64_t count, float* out) {
    std::copy_n(in.at(y, x), count * in.channels, out);
  };
  return window_of(read, in.size, in.channels, top, left, size, fill);
}

Picture window(const Decoded& in, std::int64_t top, std::int64_t left, Extent size, float fill) {
  const auto read = [&](std::int64_t y, std::int64_t x, std::int64_t count, float* out) { in.read(y, x, count, out); };
  return window_of(read, in.size(), in.channels(), top, left, size, fill);
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
  Picture out = empty_of(in.size, in.channels);
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
