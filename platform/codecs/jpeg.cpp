#include <csetjmp>
#include <cstdio>
#include <cstring>

// After <cstdio>, which it needs and does not include.
#include <jerror.h>
#include <jpeglib.h>

#include "platform/codecs/formats.h"

namespace graft::codecs {
namespace {

/// libjpeg reports errors by a jump and what it made up for by warnings.
struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX];
};

void fail(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  errors->base.format_message(info, errors->text);
  std::longjmp(errors->jump, 1);
}

/// Missing or impossible data is a damaged file, which libjpeg would fill with gray; odd markers are none.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
      code == JWRN_BOGUS_PROGRESSION) {
    fail(info);
  }
}

/// A progressive file of a few bytes may ask for thousands of scans over the whole picture.
void watch_scans(j_common_ptr info) {
  constexpr int kMaxScans = 200;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    std::strcpy(errors->text, "it has more than 200 scans");
    std::longjmp(errors->jump, 1);
  }
}

struct Decoder {
  jpeg_decompress_struct info;
  Errors errors;
  jpeg_progress_mgr progress;
};

void open(Decoder& d) {
  d.info.err = jpeg_std_error(&d.errors.base);
  d.errors.base.error_exit = fail;
  d.errors.base.emit_message = warn;
  std::memset(&d.progress, 0, sizeof d.progress);
}

/// The header; false where errors.text says why not. Nothing here may need a destructor: errors jump.
bool begin(Decoder& d, Bytes file) {
  jpeg_create_decompress(&d.info);
  d.progress.progress_monitor = watch_scans;
  d.info.progress = &d.progress;
  // A progressive file is held as a whole: within what the pixels leave of what a reader may take.
  d.info.mem->max_memory_to_use = static_cast<long>((80u << 20) + 8 * file.size());
  jpeg_mem_src(&d.info, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
  return jpeg_read_header(&d.info, TRUE) == JPEG_HEADER_OK;
}

Status damaged(const Errors& errors) { return corrupt("is damaged: ", errors.text, "."); }

/// Of the first segment APP1 that is EXIF's.
std::uint32_t orientation_of(Bytes file) {
  constexpr unsigned kApp1 = 0xe1, kScan = 0xda, kFirstAlone = 0xd0, kLastAlone = 0xd9;
  for (std::size_t at = 2; at + 4 <= file.size();) {
    const auto marker = static_cast<unsigned>(number_at(file, at + 1, 1, true));
    if (number_at(file, at, 1, true) != 0xff || marker == kScan) return 1;
    if (marker == 0xff) {  // a byte that fills up
      ++at;
      continue;
    }
    if (marker >= kFirstAlone && marker <= kLastAlone) {
      at += 2;
      continue;
    }
    const std::size_t bytes = number_at(file, at + 2, 2, true);
    if (bytes < 2 || bytes > file.size() - at - 2) return 1;
    if (marker == kApp1 && starts_with(file, std::string_view("Exif\0\0", 6), at + 4)) {
      return exif_orientation(file.subspan(at + 4, bytes - 2));
    }
    at += 2 + bytes;
  }
  return 1;
}

Result<media::ImageHeader> jpeg_header(Bytes file) {
  Decoder d{};
  open(d);
  if (setjmp(d.errors.jump) != 0) {
    jpeg_destroy_decompress(&d.info);
    return damaged(d.errors);
  }
  const bool ok = begin(d, file);
  const media::ImageHeader header{d.info.image_width, d.info.image_height, 8, orientation_of(file)};
  jpeg_destroy_decompress(&d.info);
  if (!ok) return corrupt("is damaged: it holds no picture.");
  return header;
}

/// A row as the decoder gives it (1, 3 or 4 components) to `pixels`.
void store_row(const Decoder& d, const std::uint8_t* row, media::Pixels pixels, std::uint8_t* out) {
  const std::uint32_t width = d.info.output_width;
  for (std::uint32_t x = 0; x < width; ++x) {
    std::uint8_t rgb[3];
    if (d.info.output_components == 1) {
      rgb[0] = rgb[1] = rgb[2] = row[x];
    } else if (d.info.output_components == 4) {
      // Adobe writes the inverse of what CMYK means.
      const std::uint8_t* cmyk = row + 4ull * x;
      for (int c = 0; c < 3; ++c) {
        const unsigned ink = d.info.saw_Adobe_marker ? cmyk[c] : 255u - cmyk[c];
        const unsigned black = d.info.saw_Adobe_marker ? cmyk[3] : 255u - cmyk[3];
        rgb[c] = static_cast<std::uint8_t>((ink * black + 127) / 255);
      }
    } else {
      std::memcpy(rgb, row + 3ull * x, 3);
    }
    if (d.info.output_components == 1 && pixels == media::Pixels::gray) {
      out[x] = row[x];
    } else {
      store_rgb(rgb, 1, pixels, out + static_cast<std::size_t>(x) * bytes_per_pixel(pixels));
    }
  }
}

Status jpeg_decode(Bytes file, media::Pixels pixels, media::Image& image) {
  if (pixels == media::Pixels::index) {
    return unsupported("is a JPEG, whose losses change the classes of a mask; use PNG or BMP.");
  }
  std::vector<std::uint8_t> row(4ull * image.header.width);
  std::uint8_t* const rows[] = {row.data()};
  std::uint8_t* const out = image.bytes.data();
  Decoder d{};
  open(d);
  if (setjmp(d.errors.jump) != 0) {
    jpeg_destroy_decompress(&d.info);
    return damaged(d.errors);
  }
  begin(d, file);
  const int components = d.info.num_components;
  d.info.out_color_space = components == 4 ? JCS_CMYK : components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  d.info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&d.info);
  while (d.info.output_scanline < d.info.output_height) {
    const std::size_t y = d.info.output_scanline;
    jpeg_read_scanlines(&d.info, const_cast<JSAMPARRAY>(rows), 1);
    store_row(d, row.data(), pixels, out + y * image.header.width * bytes_per_pixel(pixels));
  }
  jpeg_finish_decompress(&d.info);
  jpeg_destroy_decompress(&d.info);
  return ok_status();
}

bool is_jpeg(Bytes file) { return starts_with(file, "\xff\xd8\xff"); }

}  // namespace

const ImageFormat kJpeg = {"JPEG", is_jpeg, jpeg_header, jpeg_decode};

}  // namespace graft::codecs
