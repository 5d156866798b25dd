#include "runtime/checkpoint/codec.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace graft::checkpoint {
namespace {

constexpr int kSampleLevel = 1;
constexpr std::size_t kSampleBytes = std::size_t{16} << 10;

/// Floats as bits, in an order in which neighbours are neighbouring numbers: a small change is a small difference.
std::uint32_t ordered(std::uint32_t bits) { return bits >> 31 != 0 ? ~bits : bits | 0x80000000u; }
std::uint32_t unordered(std::uint32_t value) { return value >> 31 != 0 ? value & 0x7fffffffu : ~value; }
std::uint32_t zigzag(std::uint32_t d) { return (d << 1) ^ (0u - (d >> 31)); }
std::uint32_t unzigzag(std::uint32_t z) { return (z >> 1) ^ (0u - (z & 1)); }

std::uint32_t load32(const std::byte* at) {
  std::uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

void delta_to_planes(std::span<const std::byte> bytes, std::span<const std::byte> parent, std::byte* out) {
  const std::size_t count = bytes.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t z = zigzag(ordered(load32(&bytes[4 * i])) - ordered(load32(&parent[4 * i])));
    for (std::size_t b = 0; b < 4; ++b) out[b * count + i] = static_cast<std::byte>(z >> (8 * b));
  }
}

void delta_from_planes(std::span<const std::byte> bytes, std::span<const std::byte> parent, std::byte* out) {
  const std::size_t count = bytes.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t z = 0;
    for (std::size_t b = 0; b < 4; ++b) z |= static_cast<std::uint32_t>(bytes[b * count + i]) << (8 * b);
    const std::uint32_t value = unordered(ordered(load32(&parent[4 * i])) + unzigzag(z));
    std::memcpy(out + 4 * i, &value, 4);
  }
}

}  // namespace

void transform(Codec codec, std::size_t width, std::span<const std::byte> bytes, std::span<const std::byte> parent,
               std::span<std::byte> out) {
  const std::size_t count = bytes.size() / width;
  const std::size_t whole = count * width;
  switch (codec) {
    case Codec::plain: std::copy(bytes.begin(), bytes.end(), out.begin()); return;
    case Codec::delta_planes: delta_to_planes(bytes.first(whole), parent, out.data()); break;
    case Codec::planes:
      for (std::size_t b = 0; b < width; ++b)
        for (std::size_t i = 0; i < count; ++i) out[b * count + i] = bytes[i * width + b];
      break;
    case Codec::xor_planes:
      for (std::size_t b = 0; b < width; ++b)
        for (std::size_t i = 0; i < count; ++i) out[b * count + i] = bytes[i * width + b] ^ parent[i * width + b];
      break;
  }
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(),
            out.begin() + static_cast<std::ptrdiff_t>(whole));
}

void restore_transformed(Codec codec, std::size_t width, std::span<const std::byte> bytes,
                         std::span<const std::byte> parent, std::span<std::byte> out) {
  const std::size_t count = bytes.size() / width;
  const std::size_t whole = count * width;
  switch (codec) {
    case Codec::plain: std::copy(bytes.begin(), bytes.end(), out.begin()); return;
    case Codec::delta_planes: delta_from_planes(bytes.first(whole), parent, out.data()); break;
    case Codec::planes:
      for (std::size_t b = 0; b < width; ++b)
        for (std::size_t i = 0; i < count; ++i) out[i * width + b] = bytes[b * count + i];
      break;
    case Codec::xor_planes:
      for (std::size_t b = 0; b < width; ++b)
        for (std::size_t i = 0; i < count; ++i) out[i * width + b] = bytes[b * count + i] ^ parent[i * width + b];
      break;
  }
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(),
            out.begin() + static_cast<std::ptrdiff_t>(whole));
}

struct ChunkEncoder::Impl {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::vector<std::byte> arranged;
  std::vector<std::byte> compressed;
  ~Impl() { ZSTD_freeCCtx(context); }
};

ChunkEncoder::ChunkEncoder() : impl_(std::make_unique<Impl>()) {}
ChunkEncoder::~ChunkEncoder() = default;
ChunkEncoder::ChunkEncoder(ChunkEncoder&&) noexcept = default;
ChunkEncoder& ChunkEncoder::operator=(ChunkEncoder&&) noexcept = default;

Result<std::size_t> ChunkEncoder::compressed_size(Codec codec, std::size_t width, std::span<const std::byte> bytes,
                                                  std::span<const std::byte> parent, int level) {
  Impl& impl = *impl_;
  if (impl.context == nullptr) return error(Code::out_of_memory, "There is no memory for a zstd compressor.");
  impl.arranged.resize(bytes.size());
  impl.compressed.resize(ZSTD_compressBound(bytes.size()));
  transform(codec, width, bytes, parent, impl.arranged);
  const std::size_t size = ZSTD_compressCCtx(impl.context, impl.compressed.data(), impl.compressed.size(),
                                             impl.arranged.data(), impl.arranged.size(), level);
  if (ZSTD_isError(size) != 0) {
    return error(Code::out_of_memory, "zstd could not compress a chunk of ", bytes.size(),
                 " bytes: ", ZSTD_getErrorName(size), ".");
  }
  return size;
}

Result<EncodedChunk> ChunkEncoder::encode(std::span<const std::byte> bytes, std::span<const std::byte> parent,
                                          std::size_t width, bool is_f32, int level) {
  std::array<Codec, 4> candidates = {Codec::plain};
  std::size_t count = 1;
  if (width > 1) candidates[count++] = Codec::planes;
  if (!parent.empty()) candidates[count++] = Codec::xor_planes;
  if (!parent.empty() && is_f32) candidates[count++] = Codec::delta_planes;

  // The middle of the chunk stands for all of it; whole elements, so that planes are those of the full chunk.
  const std::size_t sample = std::min(bytes.size(), kSampleBytes);
  const std::size_t start = (bytes.size() - sample) / 2 / 8 * 8;
  const auto part = bytes.subspan(start, sample);
  const auto parent_part = parent.empty() ? parent : parent.subspan(start, sample);
  Codec best = Codec::plain;
  std::size_t best_size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    GRAFT_TRY_ASSIGN(const std::size_t size, compressed_size(candidates[i], width, part, parent_part, kSampleLevel));
    if (i == 0 || size < best_size) best = candidates[i], best_size = size;
  }
  GRAFT_TRY_ASSIGN(const std::size_t size, compressed_size(best, width, bytes, parent, level));
  if (size >= bytes.size()) return EncodedChunk{Codec::plain, Compression::none, bytes};
  return EncodedChunk{best, Compression::zstd, std::span<const std::byte>(impl_->compressed).first(size)};
}

struct ChunkDecoder::Impl {
  ZSTD_DCtx* context = ZSTD_createDCtx();
  std::vector<std::byte> arranged;
  ~Impl() { ZSTD_freeDCtx(context); }
};

ChunkDecoder::ChunkDecoder() : impl_(std::make_unique<Impl>()) {}
ChunkDecoder::~ChunkDecoder() = default;
ChunkDecoder::ChunkDecoder(ChunkDecoder&&) noexcept = default;
ChunkDecoder& ChunkDecoder::operator=(ChunkDecoder&&) noexcept = default;

Status ChunkDecoder::decode(Codec codec, Compression compression, std::size_t width, std::span<const std::byte> stored,
                            std::span<const std::byte> parent, std::span<std::byte> out) {
  auto arranged = stored;
  if (compression == Compression::zstd) {
    Impl& impl = *impl_;
    if (impl.context == nullptr) return error(Code::out_of_memory, "There is no memory for a zstd decompressor.");
    impl.arranged.resize(out.size());
    // One shot into a buffer of the declared size: zstd takes no window of its own, so a bomb has nothing to inflate.
    const std::size_t size =
        ZSTD_decompressDCtx(impl.context, impl.arranged.data(), impl.arranged.size(), stored.data(), stored.size());
    if (ZSTD_isError(size) != 0) return corrupt("A chunk does not decompress: ", ZSTD_getErrorName(size), ".");
    arranged = std::span<const std::byte>(impl.arranged).first(size);
  }
  if (arranged.size() != out.size()) {
    return corrupt("A chunk holds ", arranged.size(), " bytes, but ", out.size(), " were declared.");
  }
  restore_transformed(codec, width, arranged, parent, out);
  return ok_status();
}

}  // namespace graft::checkpoint
