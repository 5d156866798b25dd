// graft/codecs.h
#include "graft/codecs.h"

#include <algorithm>
#include <string>

#include "platform/codecs/codecs.h"

namespace graft::codecs {
namespace {

/// Why this thread's last file was not read.
std::string& failure() {
  thread_local std::string text;
  return text;
}

int failed(const Status& status) {
  failure() = status.message();
  return 1;
}

std::span<const std::byte> contents(const void* file, std::size_t bytes) {
  return {static_cast<const std::byte*>(file), bytes};
}

int image_size(void*, const void* file, std::size_t bytes, std::uint32_t* width, std::uint32_t* height) {
  const auto header = system_codecs().image_header(contents(file, bytes), {});
  if (!header.ok()) return failed(header.status());
  *width = header->width;
  *height = header->height;
  return 0;
}

int image_form(void*, const void* file, std::size_t bytes, std::uint32_t* bits, std::uint32_t* orientation) {
  const auto header = system_codecs().image_header(contents(file, bytes), {});
  if (!header.ok()) return failed(header.status());
  *bits = header->bits;
  *orientation = header->orientation;
  return 0;
}

int decode_image(void*, const void* file, std::size_t bytes, graft_pixels pixels, void* out, std::size_t out_bytes) {
  const auto image = system_codecs().decode_image(contents(file, bytes), static_cast<media::Pixels>(pixels), {});
  if (!image.ok()) return failed(image.status());
  if (image->bytes.size() != out_bytes) return failed(corrupt("is a picture of another size than its header says."));
  std::ranges::copy(image->bytes, static_cast<std::uint8_t*>(out));
  return 0;
}

int decode_sound(void*, const void* file, std::size_t bytes, std::uint32_t* rate,
                 int (*give)(void* to, const float* samples, std::size_t count), void* to) {
  const auto sound = system_codecs().decode_sound(contents(file, bytes), {});
  if (!sound.ok()) return failed(sound.status());
  *rate = sound->rate;
  failure() = "is a sound that takes more memory than there is.";
  return give(to, sound->samples.data(), sound->samples.size());
}

const char* last_failure(void*) { return failure().c_str(); }

}  // namespace
}  // namespace graft::codecs

const graft_media* graft_codecs_media(void) {
  static const std::string images = graft::codecs::system_codecs().image_formats();
  static const std::string sounds = graft::codecs::system_codecs().sound_formats();
  static const graft_media media = [] {
    graft_media made{};
    made.struct_size = sizeof made;
    made.image_size = graft::codecs::image_size;
    made.decode_image = graft::codecs::decode_image;
    made.decode_sound = graft::codecs::decode_sound;
    made.image_form = graft::codecs::image_form;
    made.image_formats = images.empty() ? nullptr : images.c_str();
    made.sound_formats = sounds.empty() ? nullptr : sounds.c_str();
    made.failure = graft::codecs::last_failure;
    return made;
  }();
  return &media;
}
