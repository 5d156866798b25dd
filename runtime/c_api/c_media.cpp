#include "runtime/c_api/c_media.h"

#include "platform/base/exceptions.h"
#include "runtime/c_api/c_calls.h"
#include "runtime/c_api/c_options.h"

namespace graft::c_api {
namespace {

class GivenCodecs final : public media::Codecs {
 public:
  explicit GivenCodecs(const graft_media& given) : given_(given) {}

  /// The app's own words, or else `otherwise`.
  Status failed(Status otherwise) const {
    const char* const why = given_.failure == nullptr ? nullptr : given_.failure(given_.user);
    return why == nullptr ? otherwise : error(otherwise.code(), why);
  }

  Result<media::ImageHeader> image_header(std::span<const std::byte> file, const media::Limits& limits) const override {
    const CallbackScope in_callback;
    media::ImageHeader header;
    if (given_.image_formats == nullptr) return unsupported("is a picture, and the app gave no decoder of such.");
    if (given_.image_size(given_.user, file.data(), file.size(), &header.width, &header.height) != 0) {
      return failed(unsupported("is no picture that the app's decoders read (", image_formats(), ")."));
    }
    if (given_.image_form != nullptr &&
        given_.image_form(given_.user, file.data(), file.size(), &header.bits, &header.orientation) != 0) {
      return failed(unsupported("is no picture that the app's decoders read (", image_formats(), ")."));
    }
    if ((header.bits != 8 && header.bits != 16) || header.orientation < 1 || header.orientation > 8) {
      return invalid("has ", header.bits, " bits a channel and orientation ", header.orientation,
                     " by the app's decoders; 8 or 16 bits and 1 to 8 are known.");
    }
    GRAFT_TRY(check_size(header, limits, file.size()));
    return header;
  }

  Result<media::Image> decode_image(std::span<const std::byte> file, media::Pixels pixels,
                                    const media::Limits& limits) const override {
    media::Image image;
    GRAFT_TRY_ASSIGN(image.header, image_header(file, limits));
    image.bytes.resize(std::size_t{image.header.width} * image.header.height * media::bytes_per_pixel(pixels));
    const CallbackScope in_callback;
    if (given_.decode_image(given_.user, file.data(), file.size(), static_cast<graft_pixels>(pixels),
                            image.bytes.data(), image.bytes.size()) != 0) {
      return failed(corrupt("is a picture that the app's decoders could not read."));
    }
    return image;
  }

  Result<media::Sound> decode_sound(std::span<const std::byte> file, const media::Limits& limits) const override {
    if (given_.sound_formats == nullptr) return unsupported("is a sound, and the app gave no decoder of such.");
    Taken taken{{}, media::most_samples(limits, file.size())};
    const auto give = [](void* to, const float* samples, std::size_t count) {
      auto& into = *static_cast<Taken*>(to);
      if (count > into.most - into.sound.samples.size()) return 1;
      return or_without_memory(1, [&] {  // the app's frames need not let an exception through
        into.sound.samples.insert(into.sound.samples.end(), samples, samples + count);
        return 0;
      });
    };
    const CallbackScope in_callback;
    if (given_.decode_sound(given_.user, file.data(), file.size(), &taken.sound.rate, give, &taken) != 0) {
      return failed(unsupported("is no sound that the app's decoders read (", sound_formats(),
                                "), or one of more than ", taken.most, " samples."));
    }
    if (taken.sound.rate == 0) return corrupt("is a sound of 0 samples a second.");
    return std::move(taken.sound);
  }

  std::string image_formats() const override { return given_.image_formats == nullptr ? "" : given_.image_formats; }
  std::string sound_formats() const override { return given_.sound_formats == nullptr ? "" : given_.sound_formats; }

 private:
  struct Taken {
    media::Sound sound;
    std::uint64_t most;
  };
  graft_media given_;
};

}  // namespace

Result<std::unique_ptr<media::Codecs>> read_media(const graft_media* given) {
  if (given == nullptr) return std::unique_ptr<media::Codecs>();
  GRAFT_TRY_ASSIGN(const graft_media media, read_options(given, "graft_media"));
  if (media.image_formats != nullptr && (media.image_size == nullptr || media.decode_image == nullptr)) {
    return invalid("The graft_media reads ", media.image_formats, ", but a function for pictures is NULL.");
  }
  if (media.sound_formats != nullptr && media.decode_sound == nullptr) {
    return invalid("The graft_media reads ", media.sound_formats, ", but decode_sound is NULL.");
  }
  return std::unique_ptr<media::Codecs>(std::make_unique<GivenCodecs>(media));
}

}  // namespace graft::c_api
