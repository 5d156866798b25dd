#include <png.h>

#include <bit>
#include <csetjmp>
#include <cstring>

#include "platform/codecs/formats.h"

namespace graft::codecs {
namespace {

struct Reading {
  Bytes file;
  std::size_t at = 0;
  std::string_view why = "it ends too early";
  char text[96] = {};
};

void read(png_structp png, png_bytep out, png_size_t count) {
  auto* reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading->file.size() - reading->at) png_error(png, "it ends too early");
  std::memcpy(out, reading->file.data() + reading->at, count);
  reading->at += count;
}
void fail(png_structp png, png_const_charp text) {
  auto* reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading->text, text, sizeof reading->text - 1);
  png_longjmp(png, 1);
}
void warn(png_structp, png_const_charp) {}

struct Png {
  png_structp png = nullptr;
  png_infop info = nullptr;
  explicit Png(Reading& reading) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, fail, warn);
    if (png != nullptr) info = png_create_info_struct(png);
    if (info == nullptr) return;
    png_set_read_fn(png, &reading, read);
    png_set_user_limits(png, 65535, 65535);
    png_set_chunk_malloc_max(png, 8u << 20);
    png_set_chunk_cache_max(png, 128);
  }
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
  Png(const Png&) = delete;
};

Status damaged(const Reading& reading) { return corrupt("is damaged: ", reading.text, "."); }

/// What the transforms make of a row: channels of a pixel.
std::uint32_t prepare(const Png& p, media::Pixels pixels) {
  const int type = png_get_color_type(p.png, p.info), depth = png_get_bit_depth(p.png, p.info);
  if (pixels == media::Pixels::index) {
    png_set_packing(p.png);
    png_set_interlace_handling(p.png);
    png_read_update_info(p.png, p.info);
    return 1;
  }
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(p.png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(p.png);
  if (depth == 16 && is_16_bit(pixels) && std::endian::native == std::endian::little) png_set_swap(p.png);
  if (depth == 16 && !is_16_bit(pixels)) png_set_strip_16(p.png);
  png_set_strip_alpha(p.png);
  png_set_interlace_handling(p.png);
  png_read_update_info(p.png, p.info);
  return png_get_channels(p.png, p.info);
}

/// Of the chunk eXIf, which may stand before or after the pixels.
std::uint32_t orientation_of(Bytes file) {
  constexpr std::size_t kBeside = 12;  // length, name and checksum
  for (std::size_t at = 8; at + kBeside <= file.size();) {
    const std::uint64_t bytes = number_at(file, at, 4, true);
    if (bytes > file.size() - at - kBeside) return 1;
    if (starts_with(file, "eXIf", at + 4)) return exif_orientation(file.subspan(at + 8, bytes));
    at += kBeside + bytes;
  }
  return 1;
}

Result<media::ImageHeader> png_header(Bytes file) {
  Reading reading{file};
  Png p(reading);
  if (p.info == nullptr) return error(Code::out_of_memory, "cannot be decoded: memory is short.");
  if (setjmp(png_jmpbuf(p.png)) != 0) return damaged(reading);
  png_read_info(p.png, p.info);
  const std::uint32_t bits = png_get_bit_depth(p.png, p.info) == 16 ? 16 : 8;
  return media::ImageHeader{png_get_image_width(p.png, p.info), png_get_image_height(p.png, p.info), bits,
                            orientation_of(file)};
}

/// A row of 16-bit pixels: colors as gray, or gray as colors.
void store_words(const std::uint8_t* from, std::uint32_t width, media::Pixels pixels, std::uint8_t* out) {
  for (std::uint32_t x = 0; x < width; ++x) {
    std::uint16_t words[3];
    if (pixels == media::Pixels::gray16) {
      std::memcpy(words, from + 6ull * x, 6);
      words[0] = static_cast<std::uint16_t>(luma(words[0], words[1], words[2]));
      std::memcpy(out + 2ull * x, words, 2);
    } else {
      std::memcpy(words, from + 2ull * x, 2);
      words[1] = words[2] = words[0];
      std::memcpy(out + 6ull * x, words, 6);
    }
  }
}

Status png_decode(Bytes file, media::Pixels pixels, media::Image& image) {
  Reading reading{file};
  const std::uint32_t width = image.header.width, height = image.header.height;
  std::vector<std::uint8_t> whole;
  std::vector<png_bytep> rows(height);
  Png p(reading);
  if (p.info == nullptr) return error(Code::out_of_memory, "cannot be decoded: memory is short.");
  if (setjmp(png_jmpbuf(p.png)) != 0) return damaged(reading);
  png_read_info(p.png, p.info);
  const int type = png_get_color_type(p.png, p.info);
  const bool indexed = type == PNG_COLOR_TYPE_PALETTE || type == PNG_COLOR_TYPE_GRAY;
  if (pixels == media::Pixels::index && (!indexed || png_get_bit_depth(p.png, p.info) > 8)) {
    return unsupported("is a PNG of colours or of 16 bits; a mask has a palette or is gray.");
  }
  const std::uint32_t channels = prepare(p, pixels);
  const std::size_t stride = static_cast<std::size_t>(width) * channels * (is_16_bit(pixels) ? 2 : 1);
  const bool direct = channels == channels_of(pixels);
  if (png_get_rowbytes(p.png, p.info) != stride || (channels != 1 && channels != 3)) {
    return unsupported("is a PNG of a kind that is not known.");
  }
  if (!direct) whole.resize(stride * height);
  std::uint8_t* const base = direct ? image.bytes.data() : whole.data();
  for (std::uint32_t y = 0; y < height; ++y) rows[y] = base + y * stride;
  png_read_image(p.png, rows.data());
  png_read_end(p.png, nullptr);
  for (std::uint32_t y = 0; !direct && y < height; ++y) {
    std::uint8_t* out = image.bytes.data() + static_cast<std::size_t>(y) * width * bytes_per_pixel(pixels);
    if (is_16_bit(pixels)) {
      store_words(rows[y], width, pixels, out);
    } else if (channels == 3) {
      store_rgb(rows[y], width, pixels, out);
    } else {
      for (std::uint32_t x = 0; x < width; ++x) std::memset(out + 3ull * x, rows[y][x], 3);
    }
  }
  return ok_status();
}

bool is_png(Bytes file) { return starts_with(file, "\x89PNG\r\n\x1a\n"); }

}  // namespace

const ImageFormat kPng = {"PNG", is_png, png_header, png_decode};

}  // namespace graft::codecs
