#include <webp/decode.h>

#include "platform/codecs/formats.h"

namespace graft::codecs {
namespace {

const std::uint8_t* words(Bytes file) { return reinterpret_cast<const std::uint8_t*>(file.data()); }

bool is_webp(Bytes file) { return starts_with(file, "RIFF") && starts_with(file, "WEBP", 8); }

/// Of the chunk "EXIF", if there is one.
std::uint32_t orientation_of(Bytes file) {
  for (std::size_t at = 12; at + 8 <= file.size();) {
    const std::uint64_t bytes = number_at(file, at + 4, 4, false), left = file.size() - at - 8;
    if (bytes > left) return 1;
    if (starts_with(file, "EXIF", at)) return exif_orientation(file.subspan(at + 8, bytes));
    at += 8 + bytes + bytes % 2;
  }
  return 1;
}

Result<media::ImageHeader> webp_header(Bytes file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(words(file), file.size(), &features) != VP8_STATUS_OK) {
    return corrupt("is damaged: its header is no WebP header.");
  }
  if (features.has_animation != 0) return unsupported("is an animation; a picture is wanted.");
  return media::ImageHeader{static_cast<std::uint32_t>(features.width), static_cast<std::uint32_t>(features.height), 8,
                            orientation_of(file)};
}

Status webp_decode(Bytes file, media::Pixels pixels, media::Image& image) {
  if (pixels == media::Pixels::index) return unsupported("is a WebP, which holds colours; a mask is a PNG or a BMP.");
  const std::size_t stride = 3ull * image.header.width, bytes = stride * image.header.height;
  std::vector<std::uint8_t> rgb;
  if (pixels != media::Pixels::rgb) rgb.resize(bytes);
  std::uint8_t* const to = pixels == media::Pixels::rgb ? image.bytes.data() : rgb.data();
  if (WebPDecodeRGBInto(words(file), file.size(), to, bytes, static_cast<int>(stride)) == nullptr) {
    return corrupt("is damaged: it cannot be decoded as WebP.");
  }
  for (std::uint32_t y = 0; pixels != media::Pixels::rgb && y < image.header.height; ++y) {
    store_rgb(to + y * stride, image.header.width, pixels,
              image.bytes.data() + static_cast<std::size_t>(y) * image.header.width);
  }
  return ok_status();
}

}  // namespace

const ImageFormat kWebp = {"WebP", is_webp, webp_header, webp_decode};

}  // namespace graft::codecs
