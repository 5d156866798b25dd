// What reads pictures and sounds: the interface. Its implementation is a library of its own (platform/codecs), which
// the runtime does not need: whoever wants it gives it to what reads files.
//
// Contents are hostile: sizes are known from headers, and held against the limits, before anything is decoded.
// Threads: any number may call at once.
#pragma once

#include <algorithm>
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
  gray,    ///< 1 byte: luma of ITU-R BT.601, as Pillow's "L"
  rgb,     ///< 3 bytes; transparency is left out
  index,   ///< 1 byte, as stored: a palette's index or a gray value of at most 8 bits; for maps of classes
  gray16,  ///< as gray, in 2 bytes of the host's order, 0 to 65535; only of images with 16 bits a channel
  rgb16,   ///< as rgb, in 6 bytes
};
constexpr std::uint32_t channels_of(Pixels pixels) { return pixels == Pixels::rgb || pixels == Pixels::rgb16 ? 3 : 1; }
constexpr bool is_16_bit(Pixels pixels) { return pixels == Pixels::gray16 || pixels == Pixels::rgb16; }
constexpr std::uint32_t bytes_per_pixel(Pixels pixels) { return channels_of(pixels) * (is_16_bit(pixels) ? 2 : 1); }

struct ImageHeader {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t bits = 8;         ///< of a channel: 8 or 16
  std::uint32_t orientation = 1;  ///< EXIF's tag: how to turn the stored rows, 1 to 8; 1: not at all
};

/// Rows from the top, pixels from the left, without gaps, as the file stores them: not yet turned upright.
struct Image {
  ImageHeader header;
  std::vector<std::uint8_t> bytes;
};

struct Sound {
  std::uint32_t rate = 0;      ///< samples a second
  std::vector<float> samples;  ///< the mean of all channels; full scale is 1
};

/// What a file of `bytes` may decode to: a small file cannot fill memory by what its header says. At most 24 bytes of
/// pixels and 12 of samples for each of its bytes, and 40 MiB; the limits hold as well.
constexpr std::uint64_t kDecodedBytes = 40u << 20;
constexpr std::uint64_t most_pixels(const Limits& limits, std::uint64_t bytes, std::uint32_t bits) {
  return std::min(limits.pixels, (kDecodedBytes + 24 * bytes) / (bits > 8 ? 6 : 3));
}
constexpr std::uint64_t most_samples(const Limits& limits, std::uint64_t bytes) {
  return std::min(limits.samples, (kDecodedBytes + 12 * bytes) / sizeof(float));
}
/// Whether a picture stays within that; the error is the rest of a sentence that begins with the file's name.
inline Status check_size(const ImageHeader& header, const Limits& limits, std::uint64_t bytes) {
  const std::uint64_t most = most_pixels(limits, bytes, header.bits);
  if (header.width == 0 || header.height == 0) return corrupt("is a picture without pixels.");
  if (std::uint64_t{header.width} * header.height <= most) return ok_status();
  return invalid("has ", header.width, " x ", header.height, " pixels, more than the limit of ", most,
                 most < limits.pixels ? cat(" for a file of ", bytes, " bytes.") : ".");
}

class Codecs {
 public:
  virtual ~Codecs() = default;
  /// Of a picture. corrupt or unsupported says what is wrong with the file, as the rest of a sentence that begins with
  /// its name: "is no picture that ...".
  virtual Result<ImageHeader> image_header(std::span<const std::byte> file, const Limits& limits) const = 0;
  virtual Result<Image> decode_image(std::span<const std::byte> file, Pixels pixels, const Limits& limits) const = 0;
  /// All of it.
  virtual Result<Sound> decode_sound(std::span<const std::byte> file, const Limits& limits) const = 0;
  /// "JPEG, PNG, WebP, BMP": what pictures may be in this build; empty: nothing.
  virtual std::string image_formats() const = 0;
  virtual std::string sound_formats() const = 0;
};

}  // namespace graft::media
