// What EXIF says of a picture's orientation: a tag in the first directory of a TIFF header, wherever a format keeps it.
#include "platform/codecs/formats.h"

namespace graft::codecs {

std::uint32_t exif_orientation(Bytes tiff) {
  constexpr std::size_t kHeader = 8, kEntry = 12;
  constexpr std::uint64_t kOrientation = 0x0112, kShort = 3, kLong = 4;
  constexpr std::string_view kMark("Exif\0\0", 6);
  if (starts_with(tiff, kMark)) tiff = tiff.subspan(kMark.size());
  const bool big = starts_with(tiff, "MM");
  if (tiff.size() < kHeader || (!big && !starts_with(tiff, "II")) || number_at(tiff, 2, 2, big) != 42) return 1;
  const std::uint64_t directory = number_at(tiff, 4, 4, big);
  if (directory > tiff.size() - 2) return 1;
  const std::uint64_t entries = number_at(tiff, directory, 2, big);
  for (std::uint64_t i = 0, at = directory + 2; i < entries && at + kEntry <= tiff.size(); ++i, at += kEntry) {
    if (number_at(tiff, at, 2, big) != kOrientation) continue;
    const std::uint64_t type = number_at(tiff, at + 2, 2, big);
    if ((type != kShort && type != kLong) || number_at(tiff, at + 4, 4, big) != 1) return 1;
    const std::uint64_t value = number_at(tiff, at + 8, type == kShort ? 2 : 4, big);
    return value >= 1 && value <= 8 ? static_cast<std::uint32_t>(value) : 1;
  }
  return 1;
}

}  // namespace graft::codecs
