// BMP without compression, which no library of Debian serves alone: a palette of 1, 4 or 8 bits, or 24 or 32 bits.
#include <cstring>

#include "platform/codecs/formats.h"

namespace graft::codecs {
namespace {

std::uint32_t little(Bytes file, std::size_t at, std::size_t bytes) {
  return static_cast<std::uint32_t>(number_at(file, at, bytes, false));
}

struct Header {
  media::ImageHeader size;
  bool from_top = false;
  std::uint32_t bits = 0;
  std::uint64_t data = 0;     // offset of the pixels
  std::uint64_t palette = 0;  // offset of the colours
  std::uint32_t colours = 0;
  std::uint64_t stride = 0;  // bytes of a row
};

Result<Header> parse(Bytes file) {
  constexpr std::size_t kFileHeader = 14, kInfoHeader = 40;
  if (file.size() < kFileHeader + kInfoHeader) return corrupt("is damaged: a BMP of ", file.size(), " bytes.");
  const std::uint64_t header_bytes = little(file, 14, 4);
  if (header_bytes < kInfoHeader) return unsupported("is a BMP of OS/2; one of Windows is wanted.");
  const auto width = static_cast<std::int32_t>(little(file, 18, 4));
  const auto height = static_cast<std::int32_t>(little(file, 22, 4));
  Header h;
  h.bits = little(file, 28, 2);
  const std::uint32_t compression = little(file, 30, 4);
  h.from_top = height < 0;
  const std::int64_t rows = h.from_top ? -static_cast<std::int64_t>(height) : height;
  if (width <= 0 || rows == 0 || width > 65535 || rows > 65535) {
    return corrupt("is damaged: a BMP of ", width, " x ", height, " pixels.");
  }
  h.size.width = static_cast<std::uint32_t>(width);
  h.size.height = static_cast<std::uint32_t>(rows);
  const bool palette = h.bits == 1 || h.bits == 4 || h.bits == 8;
  // Compression 3 says where the colours of 32 bits lie; all write them as without it.
  if ((compression != 0 && !(compression == 3 && h.bits == 32)) || (!palette && h.bits != 24 && h.bits != 32)) {
    return unsupported("is a BMP of ", h.bits, " bits with compression ", compression, "; uncompressed ones are read.");
  }
  h.data = little(file, 10, 4);
  h.stride = (static_cast<std::uint64_t>(width) * h.bits + 31) / 32 * 4;
  if (h.data > file.size() || h.stride * h.size.height > file.size() - h.data) {
    return corrupt("is damaged: a BMP that ends before its last pixel.");
  }
  if (palette) {
    h.palette = kFileHeader + header_bytes;
    h.colours = little(file, 46, 4);
    if (h.colours == 0 || h.colours > (1u << h.bits)) h.colours = 1u << h.bits;
    if (h.palette + 4ull * h.colours > file.size()) return corrupt("is damaged: a BMP that ends before its colours.");
  }
  return h;
}

bool is_bmp(Bytes file) { return starts_with(file, "BM"); }

Result<media::ImageHeader> bmp_header(Bytes file) {
  GRAFT_TRY_ASSIGN(const Header h, parse(file));
  return h.size;
}

Status bmp_decode(Bytes file, media::Pixels pixels, media::Image& image) {
  GRAFT_TRY_ASSIGN(const Header h, parse(file));
  if (pixels == media::Pixels::index && h.palette == 0)
    return unsupported("is a BMP of colours; a mask has a palette.");
  std::uint8_t* out = image.bytes.data();
  for (std::uint32_t y = 0; y < h.size.height; ++y) {
    const std::uint64_t row = h.data + h.stride * (h.from_top ? y : h.size.height - 1 - y);
    for (std::uint32_t x = 0; x < h.size.width; ++x, out += bytes_per_pixel(pixels)) {
      std::uint64_t colour = row + static_cast<std::uint64_t>(x) * (h.bits / 8);
      if (h.palette != 0) {
        const std::uint32_t per_byte = 8 / h.bits, byte = little(file, row + x / per_byte, 1);
        const std::uint32_t index = byte >> (8 - h.bits * (x % per_byte + 1)) & ((1u << h.bits) - 1);
        if (index >= h.colours) return corrupt("is damaged: a BMP whose pixel ", x, ", ", y, " has no colour.");
        if (pixels == media::Pixels::index) {
          *out = static_cast<std::uint8_t>(index);
          continue;
        }
        colour = h.palette + 4ull * index;
      }
      const std::uint8_t rgb[3] = {std::to_integer<std::uint8_t>(file[colour + 2]),
                                   std::to_integer<std::uint8_t>(file[colour + 1]),
                                   std::to_integer<std::uint8_t>(file[colour])};
      store_rgb(rgb, 1, pixels, out);
    }
  }
  return ok_status();
}

}  // namespace

const ImageFormat kBmp = {"BMP", is_bmp, bmp_header, bmp_decode};

}  // namespace graft::codecs
