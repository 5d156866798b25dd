#include "platform/codecs/codecs.h"

#include "platform/codecs/formats.h"

namespace graft::codecs {
namespace {

const ImageFormat* const kFormats[] = {
#ifdef GRAFT_HAVE_JPEG
    &kJpeg,
#endif
#ifdef GRAFT_HAVE_PNG
    &kPng,
#endif
#ifdef GRAFT_HAVE_WEBP
    &kWebp,
#endif
    &kBmp,
};

class SystemCodecs final : public media::Codecs {
 public:
  Result<media::ImageHeader> image_header(Bytes file, const media::Limits& limits) const override {
    GRAFT_TRY_ASSIGN(const ImageFormat* format, find(file));
    return checked_header(*format, file, limits);
  }

  Result<media::Image> decode_image(Bytes file, media::Pixels pixels, const media::Limits& limits) const override {
    GRAFT_TRY_ASSIGN(const ImageFormat* format, find(file));
    media::Image image;
    GRAFT_TRY_ASSIGN(image.header, checked_header(*format, file, limits));
    if (is_16_bit(pixels) && image.header.bits != 16) {
      return unsupported("is a ", format->name, " of ", image.header.bits, " bits a channel, not of 16.");
    }
    image.bytes.resize(static_cast<std::size_t>(image.header.width) * image.header.height * bytes_per_pixel(pixels));
    GRAFT_TRY(format->decode(file, pixels, image));
    return image;
  }

  Result<media::Sound> decode_sound([[maybe_unused]] Bytes file,
                                    [[maybe_unused]] const media::Limits& limits) const override {
#ifdef GRAFT_HAVE_SNDFILE
    return codecs::decode_sound(file, limits);
#else
    return unsupported("cannot be read: this build has no libsndfile.");
#endif
  }

  std::string image_formats() const override {
    std::string names;
    for (const ImageFormat* format : kFormats) names += cat(names.empty() ? "" : ", ", format->name);
    return names;
  }

  std::string sound_formats() const override {
#ifdef GRAFT_HAVE_SNDFILE
    return "WAV, AIFF, FLAC";
#else
    return "";
#endif
  }

 private:
  Result<const ImageFormat*> find(Bytes file) const {
    for (const ImageFormat* format : kFormats) {
      if (format->is(file)) return format;
    }
    return unsupported("is no picture that this build reads: ", image_formats(), ".");
  }

  static Result<media::ImageHeader> checked_header(const ImageFormat& format, Bytes file, const media::Limits& limits) {
    GRAFT_TRY_ASSIGN(const media::ImageHeader header, format.header(file));
    GRAFT_TRY(check_size(header, limits, file.size()));
    return header;
  }
};

}  // namespace

const media::Codecs& system_codecs() {
  static const SystemCodecs codecs;
  return codecs;
}

}  // namespace graft::codecs
