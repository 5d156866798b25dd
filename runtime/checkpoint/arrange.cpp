#include "runtime/checkpoint/arrange.h"

#include <algorithm>
#include <cstring>

namespace graft::checkpoint {
namespace {

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// Maps a float's bits so that neighbouring numbers become neighbouring integers: a small change is then a small
/// difference, whose zigzag code has zeros in its high bytes.
template <typename T>
struct Delta {
  static constexpr unsigned kBits = 8 * sizeof(T);
  static constexpr T kSign = static_cast<T>(T{1} << (kBits - 1));
  static T ordered(T bits) { return static_cast<T>((bits & kSign) != 0 ? ~bits : bits | kSign); }
  static T unordered(T value) { return static_cast<T>((value & kSign) != 0 ? value & ~kSign : ~value); }
  static T code(T value, T parent) {
    const T d = static_cast<T>(ordered(value) - ordered(parent));
    return static_cast<T>((d << 1) ^ (T{0} - (d >> (kBits - 1))));
  }
  static T decode(T code, T parent) {
    const T d = static_cast<T>((code >> 1) ^ (T{0} - (code & 1)));
    return unordered(static_cast<T>(ordered(parent) + d));
  }
};

template <typename T>
struct Xor {
  static T code(T value, T parent) { return static_cast<T>(value ^ parent); }
  static T decode(T code, T parent) { return static_cast<T>(code ^ parent); }
};

template <typename T>
struct Itself {
  static T code(T value, T) { return value; }
  static T decode(T code, T) { return code; }
};

/// Byte b of element i of n stands at b * n + i.
template <typename T>
void put_planes(std::byte* planes, std::size_t n, std::size_t i, T value) {
  for (std::size_t b = 0; b < sizeof(T); ++b) planes[b * n + i] = static_cast<std::byte>(value >> (8 * b));
}

template <typename T>
T get_planes(const std::byte* planes, std::size_t n, std::size_t i) {
  T value = 0;
  for (std::size_t b = 0; b < sizeof(T); ++b) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(planes[b * n + i]) << (8 * b)));
  }
  return value;
}

/// `parent` is any bytes of the same size where the code does not look at it.
template <template <typename> typename Coder, typename T>
void to_planes(std::span<const std::byte> bytes, const std::byte* parent, std::byte* out) {
  const std::size_t n = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = i * sizeof(T);
    put_planes(out, n, i, Coder<T>::code(load<T>(&bytes[at]), load<T>(parent + at)));
  }
}

template <template <typename> typename Coder, typename T>
void from_planes(const std::byte* planes, const std::byte* parent, std::span<std::byte> out) {
  const std::size_t n = out.size() / sizeof(T);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t at = i * sizeof(T);
    store(&out[at], Coder<T>::decode(get_planes<T>(planes, n, i), load<T>(parent + at)));
  }
}

constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kMaxGap = 255;

/// The number m of elements that differ from the parent's (4 bytes); for each, how many before it are equal (bytes; 255
/// means 255 and more to come); then the codes of the m elements, in planes.
template <template <typename> typename Coder, typename T>
std::size_t to_sparse(std::span<const std::byte> bytes, std::span<const std::byte> parent, std::span<std::byte> out) {
  const std::size_t n = bytes.size() / sizeof(T);
  const auto code = [&](std::size_t i) {
    return Coder<T>::code(load<T>(&bytes[i * sizeof(T)]), load<T>(&parent[i * sizeof(T)]));
  };
  std::size_t count = 0, gap = 0, at = kCountBytes;
  for (std::size_t i = 0; i < n; ++i) {
    if (code(i) == 0) {
      ++gap;
      continue;
    }
    // Room for the gap and for all codes so far: with it, the codes fit in the end.
    if (at + gap / kMaxGap + 1 + (count + 1) * sizeof(T) > out.size()) return 0;
    for (; gap >= kMaxGap; gap -= kMaxGap) out[at++] = static_cast<std::byte>(kMaxGap);
    out[at++] = static_cast<std::byte>(gap);
    gap = 0;
    ++count;
  }
  if (at > out.size()) return 0;
  store(out.data(), static_cast<std::uint32_t>(count));
  std::size_t done = 0;
  for (std::size_t i = 0; i < n && done < count; ++i) {
    if (const T value = code(i); value != 0) put_planes(&out[at], count, done++, value);
  }
  return at + count * sizeof(T);
}

template <template <typename> typename Coder, typename T>
bool from_sparse(std::span<const std::byte> arranged, std::span<const std::byte> parent, std::span<std::byte> out) {
  const std::size_t n = out.size() / sizeof(T);
  if (arranged.size() < kCountBytes) return false;
  const std::size_t count = load<std::uint32_t>(arranged.data());
  if (count > n || count * sizeof(T) > arranged.size() - kCountBytes) return false;
  const auto gaps = arranged.subspan(kCountBytes, arranged.size() - kCountBytes - count * sizeof(T));
  const std::byte* planes = gaps.data() + gaps.size();
  std::copy_n(parent.begin(), n * sizeof(T), out.begin());
  std::size_t done = 0, i = 0;
  for (const std::byte gap : gaps) {
    i += static_cast<std::size_t>(gap);
    if (gap == static_cast<std::byte>(kMaxGap)) continue;
    if (done == count || i >= n) return false;
    const std::size_t at = i * sizeof(T);
    store(&out[at], Coder<T>::decode(get_planes<T>(planes, count, done), load<T>(&parent[at])));
    ++done, ++i;
  }
  return done == count;
}

/// The bytes of whole elements of type T.
template <typename T>
std::size_t arrange_elements(Codec codec, std::span<const std::byte> bytes, std::span<const std::byte> parent,
                             std::span<std::byte> out) {
  switch (codec) {
    case Codec::plain: std::copy(bytes.begin(), bytes.end(), out.begin()); break;
    case Codec::planes: to_planes<Itself, T>(bytes, bytes.data(), out.data()); break;
    case Codec::delta_planes: to_planes<Delta, T>(bytes, parent.data(), out.data()); break;
    case Codec::xor_planes: to_planes<Xor, T>(bytes, parent.data(), out.data()); break;
    case Codec::sparse: return to_sparse<Delta, T>(bytes, parent, out);
  }
  return bytes.size();
}

template <typename T>
bool restore_elements(Codec codec, std::span<const std::byte> arranged, std::span<const std::byte> parent,
                      std::span<std::byte> out) {
  if (codec == Codec::sparse) return from_sparse<Delta, T>(arranged, parent, out);
  if (arranged.size() != out.size()) return false;
  switch (codec) {
    case Codec::planes: from_planes<Itself, T>(arranged.data(), arranged.data(), out); break;
    case Codec::delta_planes: from_planes<Delta, T>(arranged.data(), parent.data(), out); break;
    case Codec::xor_planes: from_planes<Xor, T>(arranged.data(), parent.data(), out); break;
    default: std::copy(arranged.begin(), arranged.end(), out.begin()); break;
  }
  return true;
}

}  // namespace

std::size_t arrange(Codec codec, std::size_t width, std::span<const std::byte> bytes, std::span<const std::byte> parent,
                    std::span<std::byte> out) {
  const std::size_t whole = bytes.size() / width * width;
  const auto from = bytes.first(whole);
  const auto to = out.first(whole);
  const std::size_t filled = width == 4   ? arrange_elements<std::uint32_t>(codec, from, parent, to)
                             : width == 2 ? arrange_elements<std::uint16_t>(codec, from, parent, to)
                                          : arrange_elements<std::uint8_t>(codec, from, parent, to);
  if (filled == 0 && codec == Codec::sparse) return 0;
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(),
            out.begin() + static_cast<std::ptrdiff_t>(filled));
  return filled + bytes.size() - whole;
}

bool restore_arranged(Codec codec, std::size_t width, std::span<const std::byte> arranged,
                      std::span<const std::byte> parent, std::span<std::byte> out) {
  const std::size_t whole = out.size() / width * width, rest = out.size() - whole;
  if (arranged.size() < rest) return false;
  const auto from = arranged.first(arranged.size() - rest);
  std::copy(arranged.end() - static_cast<std::ptrdiff_t>(rest), arranged.end(),
            out.begin() + static_cast<std::ptrdiff_t>(whole));
  const auto to = out.first(whole);
  return width == 4   ? restore_elements<std::uint32_t>(codec, from, parent, to)
         : width == 2 ? restore_elements<std::uint16_t>(codec, from, parent, to)
                      : restore_elements<std::uint8_t>(codec, from, parent, to);
}

}  // namespace graft::checkpoint
