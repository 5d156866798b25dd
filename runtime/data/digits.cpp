#include "runtime/data/digits.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "runtime/data/digits_strokes.h"
#include "runtime/data/random.h"

namespace graft::data {
namespace {

constexpr int kPiecesPerCurve = 7;
constexpr int kMaxPoints = 64;  // the longest glyph has 5 curves in a stroke; checked below

/// A smooth wave of period 1 and amplitude 1: parabolas in place of a sine, which every machine computes alike.
double wave(double x) {
  const double t = x - std::floor(x);
  return t < 0.5 ? 16 * t * (0.5 - t) : -16 * (t - 0.5) * (1 - t);
}

/// How this sample's hand bends the model strokes: unit box -> pixels.
struct Hand {
  double xx, xy, yx, yy;  // linear part
  double wobble_x, wobble_y, frequency_x, frequency_y, phase_x, phase_y;
  double offset_x, offset_y;

  static Hand draw(Random& random) {
    Hand hand{};
    const double width = random.uniform(10.5, 17.5);
    const double height = random.uniform(17.0, 21.0);
    const double slant = 0.16 + 0.20 * random.bell();  // handwriting leans to the right
    const double turn = std::clamp(0.10 * random.bell(), -0.3, 0.3);
    // A rotation by the angle whose half has the tangent `turn / 2`.
    const double half = turn / 2;
    const double cosine = (1 - half * half) / (1 + half * half);
    const double sine = 2 * half / (1 + half * half);
    hand.xx = cosine * width;
    hand.xy = (-cosine * slant - sine) * height;
    hand.yx = sine * width;
    hand.yy = (cosine - sine * slant) * height;
    hand.wobble_x = random.uniform(0.0, 0.050);
    hand.wobble_y = random.uniform(0.0, 0.050);
    hand.frequency_x = random.uniform(0.5, 1.3);
    hand.frequency_y = random.uniform(0.5, 1.3);
    hand.phase_x = random.uniform();
    hand.phase_y = random.uniform();
    hand.offset_x = kDigitSide / 2.0 + 0.8 * random.bell();
    hand.offset_y = kDigitSide / 2.0 + 0.8 * random.bell();
    return hand;
  }

  StrokePoint apply(StrokePoint p) const {
    const double x = p.x - 0.5 + wobble_x * wave(frequency_x * p.y + phase_x);
    const double y = p.y - 0.5 + wobble_y * wave(frequency_y * p.x + phase_y);
    return {offset_x + xx * x + xy * y, offset_y + yx * x + yy * y};
  }
};

StrokePoint bezier(const StrokePoint* p, double t) {
  const double s = 1 - t;
  const double a = s * s * s, b = 3 * s * s * t, c = 3 * s * t * t, d = t * t * t;
  return {a * p[0].x + b * p[1].x + c * p[2].x + d * p[3].x, a * p[0].y + b * p[1].y + c * p[2].y + d * p[3].y};
}

double distance_to_segment(double px, double py, StrokePoint a, StrokePoint b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  const double along = length2 > 0 ? std::clamp(((px - a.x) * dx + (py - a.y) * dy) / length2, 0.0, 1.0) : 0.0;
  const double ex = px - (a.x + along * dx), ey = py - (a.y + along * dy);
  return std::sqrt(ex * ex + ey * ey);
}

using Ink = std::array<double, kDigitPixels>;

/// Anti-aliased: full inside the radius, fading out over one pixel.
void draw_segment(StrokePoint a, StrokePoint b, double radius, Ink& ink) {
  const double reach = radius + 1;
  const auto low = [&](double u, double v) {
    return std::max(0, static_cast<int>(std::floor(std::min(u, v) - reach)));
  };
  const auto high = [&](double u, double v) {
    return std::min(kDigitSide - 1, static_cast<int>(std::ceil(std::max(u, v) + reach)));
  };
  for (int y = low(a.y, b.y); y <= high(a.y, b.y); ++y) {
    for (int x = low(a.x, b.x); x <= high(a.x, b.x); ++x) {
      const double cover = std::clamp(radius + 0.5 - distance_to_segment(x + 0.5, y + 0.5, a, b), 0.0, 1.0);
      double& pixel = ink[static_cast<std::size_t>(y) * kDigitSide + static_cast<std::size_t>(x)];
      pixel = std::max(pixel, cover);
    }
  }
}

void draw_stroke(const Stroke& stroke, const Hand& hand, double shake, double radius, Random& random, Ink& ink) {
  std::array<StrokePoint, kMaxPoints> points{};
  const std::size_t count = std::min<std::size_t>(stroke.points.size(), kMaxPoints);
  for (std::size_t i = 0; i < count; ++i) {
    points[i] = {stroke.points[i].x + shake * random.bell(), stroke.points[i].y + shake * random.bell()};
  }
  StrokePoint last = hand.apply(points[0]);
  for (std::size_t curve = 0; curve + 3 < count; curve += 3) {
    for (int piece = 1; piece <= kPiecesPerCurve; ++piece) {
      const StrokePoint next = hand.apply(bezier(&points[curve], static_cast<double>(piece) / kPiecesPerCurve));
      draw_segment(last, next, radius, ink);
      last = next;
    }
  }
}

class DigitsSource final : public Source {
 public:
  explicit DigitsSource(const DigitsOptions& options) : options_(options) {
    fields_.push_back({"image", DType::f32, Shape{1, kDigitSide, kDigitSide}, Role::feature});
    fields_.push_back({"label", DType::i32, Shape{}, Role::label});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return options_.count; }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= options_.count) return false;
    DigitImage image;
    const std::int32_t label = draw_digit(options_, position, image);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const float value = static_cast<float>(image[i]) / 255.0f;
      std::memcpy(out[0] + 4 * i, &value, 4);
    }
    std::memcpy(out[1], &label, 4);
    ++position;
    return true;
  }

 private:
  DigitsOptions options_;
  std::vector<Field> fields_;
};

}  // namespace

int draw_digit(const DigitsOptions& options, std::uint64_t index, DigitImage& image) {
  const std::uint64_t key = mix(options.seed, options.test ? 1 : 0);
  const auto classes = static_cast<std::uint64_t>(options.classes);
  const int label = static_cast<int>(Permutation(classes, mix(key, index / classes))(index % classes));
  Random random(mix(key, index, 0x6469676974));
  const auto glyphs = digit_glyphs(label);
  const Glyph& glyph = glyphs[random.below(glyphs.size())];
  const Hand hand = Hand::draw(random);
  const double radius = random.uniform(0.65, 1.55);
  const double shake = random.uniform(0.0, 0.035);
  Ink ink{};
  for (const Stroke& stroke : glyph.strokes) draw_stroke(stroke, hand, shake, radius, random, ink);
  const double darkness = random.uniform(0.80, 1.0);
  const double noise = random.uniform(0.0, 0.06);
  for (std::size_t i = 0; i < image.size(); ++i) {
    const double value = ink[i] * darkness + noise * random.bell();
    image[i] = static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 1.0) * 255.0));
  }
  return label;
}

Result<std::unique_ptr<Source>> open_digits(const DigitsOptions& options) {
  if (options.count == 0) return invalid("0 digits were asked for; a data set holds at least one sample.");
  return std::unique_ptr<Source>(new DigitsSource(options));
}

}  // namespace graft::data
