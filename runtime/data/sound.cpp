#include "runtime/data/sound.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>

namespace graft::data {
namespace {

constexpr double kPi = std::numbers::pi;

double hertz_to_mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double mel_to_hertz(double mel) { return 700 * (std::pow(10.0, mel / 2595) - 1); }

/// Rates in their lowest terms, and what the weights of an output depend on: where it stands between two inputs.
struct Resampling {
  std::uint64_t orig, next;
  double base;
  std::int64_t width;

  Resampling(std::uint32_t from, std::uint32_t to) : orig(from / std::gcd(from, to)), next(to / std::gcd(from, to)) {
    constexpr double kRolloff = 0.99;
    base = static_cast<double>(std::min(orig, next)) * kRolloff;
    width = static_cast<std::int64_t>(std::ceil(kCrossings * static_cast<double>(orig) / base));
  }
  std::uint64_t count(std::uint64_t samples) const { return (samples * next + orig - 1) / orig; }
  std::size_t taps() const { return static_cast<std::size_t>(2 * width + 1); }
  double weight(std::uint64_t phase, std::size_t k) const {
    const auto whole = static_cast<std::int64_t>(phase * orig / next);
    const double at = static_cast<double>(whole + static_cast<std::int64_t>(k) - width) / static_cast<double>(orig);
    const double t =
        std::clamp((at - static_cast<double>(phase) / static_cast<double>(next)) * base, -kCrossings, kCrossings);
    const double window = std::cos(t * kPi / kCrossings / 2);
    return (t == 0 ? 1 : std::sin(kPi * t) / (kPi * t)) * window * window * base / static_cast<double>(orig);
  }

 private:
  static constexpr double kCrossings = 6;
};

}  // namespace

std::uint64_t resampled_count(std::uint64_t samples, std::uint32_t from, std::uint32_t to) {
  return Resampling(from, to).count(samples);
}

std::vector<float> resampled(const std::vector<float>& in, std::uint32_t from, std::uint32_t to, std::uint64_t most) {
  if (from == to)
    return {in.begin(), in.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(most, in.size()))};
  const Resampling r(from, to);
  const std::uint64_t count = std::min(r.count(in.size()), most), phases = std::min(r.next, count);
  // Weights of all places are kept where they are few; unusual pairs of rates have more than memory is for.
  constexpr std::uint64_t kMostKept = 1u << 20;
  std::vector<double> kept;
  if (r.taps() * phases <= kMostKept) kept.reserve(r.taps() * phases);
  for (std::uint64_t phase = 0; r.taps() * phases <= kMostKept && phase < phases; ++phase) {
    for (std::size_t k = 0; k < r.taps(); ++k) kept.push_back(r.weight(phase, k));
  }
  std::vector<float> out(count);
  for (std::uint64_t n = 0; n < count; ++n) {
    const auto first = static_cast<std::int64_t>(n * r.orig / r.next) - r.width;
    const std::uint64_t phase = n % r.next;
    double sum = 0;
    for (std::size_t k = 0; k < r.taps(); ++k) {
      const std::int64_t at = first + static_cast<std::int64_t>(k);
      if (at < 0 || at >= static_cast<std::int64_t>(in.size())) continue;
      sum += (kept.empty() ? r.weight(phase, k) : kept[phase * r.taps() + k]) * in[static_cast<std::size_t>(at)];
    }
    out[n] = static_cast<float>(sum);
  }
  return out;
}

Result<LogMel> LogMel::create(const MelOptions& options, std::uint32_t rate) {
  LogMel mel;
  mel.options_ = options;
  MelOptions& o = mel.options_;
  if (o.fft == 0) o.fft = std::bit_ceil(o.window);
  if (o.high == 0) o.high = rate / 2.0;
  if (o.fft < o.window || !std::has_single_bit(o.fft)) {
    return invalid("Option fft=", o.fft, " must be a power of two that holds the window of ", o.window, " samples.");
  }
  if (!(o.low >= 0 && o.low < o.high && o.high <= rate / 2.0)) {
    return invalid("Options low=", o.low, " and high=", o.high, " must rise from 0 to half the rate of ", rate, ".");
  }
  for (std::uint64_t i = 0; i < o.window; ++i) {
    mel.window_.push_back(0.5 - 0.5 * std::cos(2 * kPi * static_cast<double>(i) / static_cast<double>(o.window)));
  }
  for (std::uint64_t i = 0; i < o.fft / 2; ++i) {
    const double angle = -2 * kPi * static_cast<double>(i) / static_cast<double>(o.fft);
    mel.cosine_.push_back(std::cos(angle));
    mel.sine_.push_back(std::sin(angle));
  }
  const double least = hertz_to_mel(o.low), most = hertz_to_mel(o.high);
  const auto edge = [&](std::uint64_t i) {
    return mel_to_hertz(least + (most - least) * static_cast<double>(i) / static_cast<double>(o.bands + 1));
  };
  for (std::uint64_t b = 0; b < o.bands; ++b) {
    const double left = edge(b), middle = edge(b + 1), right = edge(b + 2);
    Band band;
    for (std::uint64_t k = 0; k <= o.fft / 2; ++k) {
      const double hertz = static_cast<double>(k) * rate / static_cast<double>(o.fft);
      const double weight = std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      if (weight <= 0) continue;
      if (band.weights.empty()) band.first = k;
      band.weights.push_back(weight);
    }
    mel.bands_.push_back(std::move(band));
  }
  return mel;
}

std::uint64_t LogMel::frames(std::uint64_t samples) const {
  return samples < options_.window ? 0 : 1 + (samples - options_.window) / options_.hop;
}

/// In place: Cooley and Tukey, 1965.
void LogMel::transform(std::vector<double>& re, std::vector<double>& im) const {
  const std::size_t n = re.size();
  for (std::size_t i = 1, j = 0; i < n; ++i) {
    std::size_t bit = n >> 1;
    for (; (j & bit) != 0; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      std::swap(re[i], re[j]);
      std::swap(im[i], im[j]);
    }
  }
  for (std::size_t length = 2; length <= n; length *= 2) {
    const std::size_t stride = n / length;
    for (std::size_t start = 0; start < n; start += length) {
      for (std::size_t k = 0; k < length / 2; ++k) {
        const double c = cosine_[k * stride], s = sine_[k * stride];
        const std::size_t a = start + k, b = a + length / 2;
        const double x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
        re[b] = re[a] - x;
        im[b] = im[a] - y;
        re[a] += x;
        im[a] += y;
      }
    }
  }
}

std::vector<float> LogMel::of(const std::vector<float>& samples) const {
  const std::uint64_t count = frames(samples.size());
  std::vector<float> out(bands_.size() * count);
  std::vector<double> re(options_.fft), im(options_.fft);
  for (std::uint64_t t = 0; t < count; ++t) {
    std::ranges::fill(re, 0.0);
    std::ranges::fill(im, 0.0);
    for (std::uint64_t i = 0; i < options_.window; ++i) re[i] = window_[i] * samples[t * options_.hop + i];
    transform(re, im);
    for (std::size_t b = 0; b < bands_.size(); ++b) {
      double energy = 0;
      for (std::size_t k = 0; k < bands_[b].weights.size(); ++k) {
        const std::size_t bin = bands_[b].first + k;
        energy += bands_[b].weights[k] * (re[bin] * re[bin] + im[bin] * im[bin]);
      }
      out[b * count + t] = static_cast<float>(std::log(energy + 1e-6));
    }
  }
  return out;
}

}  // namespace graft::data
