// What reads pictures and sounds: the interface. Its implementation is a library of its own (platform/codecs), which
// the runtime does not need: whoever wants it gives it to what reads files.
//
// Contents are hostile: sizes are known from headers, and held against the limits, before anything is decoded.
// Threads: any number may call at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::media {

struct Limits {
  std::uint64_t pixels = 1ull << 26;   ///< of a picture
  std::uint64_t samples = 1ull << 26;  ///< of a sound, all channels together
};

enum class Pixels : std::uint8_t {
  gray,   ///< 1 byte: luma of ITU-R BT.601, as Pillow's "L"
  rgb,    ///< 3 bytes; transparency is left out
  index,  ///< 1 byte, as stored: a palette's index or a gray value of at most 8 bits; for maps of classes
};
constexpr std::uint32_t bytes_per_pixel(Pixels pixels) { return pixels == Pixels::rgb ? 3 : 1; }

struct ImageSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// Rows from the top, pixels from the left, without gaps.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> bytes;
};

struct Sound {
  std::uint32_t rate = 0;      ///< samples a second
  std::vector<float> samples;  ///< the mean of all channels; full scale is 1
};

class Codecs {
 public:
  virtual ~Codecs() = default;
  /// Of a picture, from its header. corrupt or unsupported says what is wrong with the file, as the rest of a sentence
  /// that begins with its name: "is no picture that ...".
  virtual Result<ImageSize> image_size(std::span<const std::byte> file, const Limits& limits) const = 0;
  virtual Result<Image> decode_image(std::span<const std::byte> file, Pixels pixels, const Limits& limits) const = 0;
  /// All of it.
  virtual Result<Sound> decode_sound(std::span<const std::byte> file, const Limits& limits) const = 0;
  /// "JPEG, PNG, WebP, BMP": what pictures may be in this build; empty: nothing.
  virtual std::string image_formats() const = 0;
  virtual std::string sound_formats() const = 0;
};

}  // namespace graft::media
