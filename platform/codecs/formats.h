// The picture formats, a file each. All are given the header's size before they decode.
#pragma once

#include "platform/media/media.h"

namespace graft::codecs {

using Bytes = std::span<const std::byte>;

inline std::uint64_t number_at(Bytes file, std::size_t at, std::size_t bytes, bool big_endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(file[at + i]) << (8 * (big_endian ? bytes - 1 - i : i));
  }
  return value;
}

/// One format. `is` looks at the first bytes only.
struct ImageFormat {
  const char* name;
  bool (*is)(Bytes file);
  Result<media::ImageHeader> (*header)(Bytes file);
  /// `image.bytes` has the room that image.header and `pixels` say; fills it.
  Status (*decode)(Bytes file, media::Pixels pixels, media::Image& image);
};

extern const ImageFormat kBmp;
#ifdef GRAFT_HAVE_JPEG
extern const ImageFormat kJpeg;
#endif
#ifdef GRAFT_HAVE_PNG
extern const ImageFormat kPng;
#endif
#ifdef GRAFT_HAVE_WEBP
extern const ImageFormat kWebp;
#endif
#ifdef GRAFT_HAVE_SNDFILE
Result<media::Sound> decode_sound(Bytes file, const media::Limits& limits);
#endif

inline bool starts_with(Bytes file, std::string_view magic, std::size_t at = 0) {
  if (file.size() < at + magic.size()) return false;
  for (std::size_t i = 0; i < magic.size(); ++i) {
    if (static_cast<char>(file[at + i]) != magic[i]) return false;
  }
  return true;
}

/// The orientation, 1 to 8, that EXIF's tags say; 1 where they do not. `tiff` begins with "II" or "MM", or with EXIF's
/// own mark before it.
std::uint32_t exif_orientation(Bytes tiff);

inline std::uint32_t luma(std::uint32_t r, std::uint32_t g, std::uint32_t b) {
  return (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;
}

/// A row of RGB pixels as `pixels` (gray or rgb).
inline void store_rgb(const std::uint8_t* rgb, std::uint32_t width, media::Pixels pixels, std::uint8_t* out) {
  for (std::uint32_t x = 0; x < width; ++x, rgb += 3) {
    if (pixels == media::Pixels::gray) {
      *out++ = static_cast<std::uint8_t>(luma(rgb[0], rgb[1], rgb[2]));
      continue;
    }
    for (int c = 0; c < 3; ++c) *out++ = rgb[c];
  }
}

}  // namespace graft::codecs
