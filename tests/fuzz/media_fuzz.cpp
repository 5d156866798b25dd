// Pictures and sounds: any file is decoded, or refused with the rest of one sentence. Limits are small, so that a
// header which promises more than the file holds costs nothing.
#include <cstdint>

#include "platform/codecs/codecs.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"

namespace {

using namespace graft;
using namespace graft::fuzz;

constexpr media::Limits kLimits{.pixels = 1 << 16, .samples = 1 << 16};

std::string mutate_media(std::string_view bytes, Random& random) {
  std::string changed(bytes);
  change_bytes(changed, random);
  return changed;
}

void read_image(std::span<const std::byte> file) {
  const media::Codecs& codecs = codecs::system_codecs();
  const auto header = codecs.image_header(file, kLimits);
  if (!header.ok()) return check_refusal(header.status());
  check(header->orientation >= 1 && header->orientation <= 8 && (header->bits == 8 || header->bits == 16));
  for (const auto pixels :
       {media::Pixels::gray, media::Pixels::rgb, media::Pixels::index, media::Pixels::gray16, media::Pixels::rgb16}) {
    const auto image = codecs.decode_image(file, pixels, kLimits);
    if (!image.ok()) {
      check_refusal(image.status());
      continue;
    }
    check(image->header.width == header->width && image->header.height == header->height);
    check(image->bytes.size() == std::size_t{header->width} * header->height * media::bytes_per_pixel(pixels));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  read_image(file);
  const auto sound = codecs::system_codecs().decode_sound(file, kLimits);
  if (!sound.ok()) {
    check_refusal(sound.status());
  } else {
    check(!sound->samples.empty() && sound->samples.size() <= kLimits.samples && sound->rate > 0);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_media, data, size, max_size, seed);
}
