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
  Result<media::ImageSize> image_size(Bytes file, const media::Limits& limits) const override {
    GRAFT_TRY_ASSIGN(const ImageFormat* format, find(file));
    return checked_size(*format, file, limits);
  }

  Result<media::Image> decode_image(Bytes file, media::Pixels pixels, const media::Limits& limits) const override {
    GRAFT_TRY_ASSIGN(const ImageFormat* format, find(file));
    media::Image image;
    GRAFT_TRY_ASSIGN(image.size, checked_size(*format, file, limits));
    image.bytes.resize(static_cast<std::size_t>(image.size.width) * image.size.height * bytes_per_pixel(pixels));
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

  static Result<media::ImageSize> checked_size(const ImageFormat& format, Bytes file, const media::Limits& limits) {
    GRAFT_TRY_ASSIGN(const media::ImageSize size, format.size(file));
    if (size.width == 0 || size.height == 0) return corrupt("is a ", format.name, " picture without a pixel.");
    if (static_cast<std::uint64_t>(size.width) * size.height > limits.pixels) {
      return invalid("has ", size.width, " x ", size.height, " pixels, more than the limit of ", limits.pixels, ".");
    }
    return size;
  }
};

}  // namespace

const media::Codecs& system_codecs() {
  static const SystemCodecs codecs;
  return codecs;
}

}  // namespace graft::codecs
