// Pictures as numbers, and what is done to them before they are samples. All of it is plain arithmetic in one order, so
// that the same file gives the same bits in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/media/media.h"
#include "runtime/data/random.h"

namespace graft::data {

struct Extent {
  std::int64_t height = 0;
  std::int64_t width = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// 0 to 255 (a mask: its numbers as they are); rows from the top, the channels of a pixel together.
struct Picture {
  Extent size;
  std::int64_t channels = 1;
  std::vector<float> values;

  const float* at(std::int64_t y, std::int64_t x) const { return values.data() + (y * size.width + x) * channels; }
  float* at(std::int64_t y, std::int64_t x) { return values.data() + (y * size.width + x) * channels; }
};

/// What a decoder gave, turned upright while it is read: numbers are made of the lines that are needed, so that a large
/// picture takes no more memory than its bytes.
class Decoded {
 public:
  /// `upright`: the header's orientation is applied.
  Decoded(media::Image image, media::Pixels pixels, bool upright);

  Extent size() const { return size_; }
  std::int64_t channels() const { return channels_; }
  /// Pixels [first, first + count) of line y, 0 to 255 (16 bits: with fractions), channels together.
  void read(std::int64_t y, std::int64_t first, std::int64_t count, float* out) const;

 private:
  media::Image image_;
  Extent size_;
  std::int64_t channels_;
  bool words_;
  // The stored pixel of (y, x) is origin_ + y * down_ + x * across_.
  std::int64_t origin_ = 0, down_ = 0, across_ = 0;
};
/// The size of an image, turned upright or as it is stored.
Extent upright_extent(const media::ImageHeader& header, bool upright);

enum class Sampling : std::uint8_t {
  linear,   ///< a triangle that widens where the picture shrinks: Pillow's BILINEAR
  nearest,  ///< for masks
};
Picture resized(const Decoded& in, Extent size, Sampling sampling);
/// The window of `size` whose first pixel is (top, left), which may lie outside; `fill` stands there.
Picture window(const Picture& in, std::int64_t top, std::int64_t left, Extent size, float fill);
Picture window(const Decoded& in, std::int64_t top, std::int64_t left, Extent size, float fill);
void flip_columns(Picture& picture);
void flip_rows(Picture& picture);
/// Counterclockwise about the centre, by degrees; `fill` where nothing was.
Picture rotated(const Picture& in, double degrees, Sampling sampling, float fill);

/// Factors of torchvision's ColorJitter: each is drawn from [1 - x, 1 + x], hue from [-x, x] turns.
struct Jitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};
void jitter(Picture& picture, const Jitter& most, Random& random);
/// A square of side `side` about any pixel becomes 0; what lies outside is cut off.
void cut_out(Picture& picture, std::int64_t side, Random& random);

}  // namespace graft::data
