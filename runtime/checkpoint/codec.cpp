#include "runtime/checkpoint/codec.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace graft::checkpoint {
namespace {

constexpr int kSampleLevel = 1;
constexpr std::size_t kSampleBytes = std::size_t{16} << 10;
constexpr std::size_t kMaxFrames = 8, kFrameOverhead = 64;
constexpr std::size_t kMinFrameBytes = 1024;  // of fewer, the frames' headers take more than they save

}  // namespace

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
  impl.compressed.resize(ZSTD_compressBound(bytes.size()) + kMaxFrames * kFrameOverhead);
  const std::size_t arranged = arrange(codec, width, bytes, parent, impl.arranged);
  if (arranged == 0) return bytes.size();
  // A frame for each plane: each plane's bytes have a distribution of their own, which one table of codes would blur.
  const std::size_t plane = codec == Codec::plain || codec == Codec::sparse ? arranged : bytes.size() / width;
  const bool split = plane >= kMinFrameBytes;
  std::size_t done = 0, size = 0;
  while (done < arranged) {
    const std::size_t part = !split || arranged - done < 2 * plane ? arranged - done : plane;
    const std::size_t got = ZSTD_compressCCtx(impl.context, impl.compressed.data() + size,
                                              impl.compressed.size() - size, impl.arranged.data() + done, part, level);
    if (ZSTD_isError(got) != 0) {
      return error(Code::out_of_memory, "zstd could not compress a chunk of ", bytes.size(),
                   " bytes: ", ZSTD_getErrorName(got), ".");
    }
    size += got;
    done += part;
  }
  return size;
}

Result<EncodedChunk> ChunkEncoder::encode(std::span<const std::byte> bytes, std::span<const std::byte> parent,
                                          std::size_t width, bool is_float, int level) {
  std::array<Codec, 5> candidates = {Codec::plain};
  std::size_t count = 1;
  if (width > 1) candidates[count++] = Codec::planes;
  if (!parent.empty()) candidates[count++] = Codec::xor_planes;
  if (!parent.empty() && is_float) candidates[count++] = Codec::delta_planes;
  if (!parent.empty()) candidates[count++] = Codec::sparse;

  // The middle of the chunk stands for all of it; whole elements, so that planes are those of the full chunk.
  const std::size_t sample = std::min(bytes.size(), kSampleBytes);
  const std::size_t start = (bytes.size() - sample) / 2 / 8 * 8;
  const auto part = bytes.subspan(start, sample);
  const auto parent_part = parent.empty() ? parent : parent.subspan(start, sample);
  Codec best = Codec::plain, best_dense = Codec::plain;
  std::size_t best_size = part.size(), best_dense_size = part.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Codec codec = candidates[i];
    GRAFT_TRY_ASSIGN(const std::size_t size, compressed_size(codec, width, part, parent_part, kSampleLevel));
    if (size < best_size) best = codec, best_size = size;
    if (size < best_dense_size && codec != Codec::sparse) best_dense = codec, best_dense_size = size;
  }
  GRAFT_TRY_ASSIGN(std::size_t size, compressed_size(best, width, bytes, parent, level));
  if (size >= bytes.size() && best != best_dense) {  // only the sample was sparse
    best = best_dense;
    GRAFT_TRY_ASSIGN(size, compressed_size(best, width, bytes, parent, level));
  }
  if (size >= bytes.size()) return EncodedChunk{Codec::plain, Compression::none, bytes};
  return EncodedChunk{best, Compression::zstd, std::span<const std::byte>(impl_->compressed).first(size)};
}

struct ChunkDecoder::Impl {
  ZSTD_DCtx* context = nullptr;  // made for the first chunk: 150 KiB, which many readers never need
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
    if (impl.context == nullptr) impl.context = ZSTD_createDCtx();
    if (impl.context == nullptr) return error(Code::out_of_memory, "There is no memory for a zstd decompressor.");
    impl.arranged.resize(out.size());
    // One shot into a buffer of the declared size: zstd takes no window of its own, so a bomb has nothing to inflate.
    const std::size_t size =
        ZSTD_decompressDCtx(impl.context, impl.arranged.data(), impl.arranged.size(), stored.data(), stored.size());
    if (ZSTD_isError(size) != 0) return corrupt("A chunk does not decompress: ", ZSTD_getErrorName(size), ".");
    arranged = std::span<const std::byte>(impl.arranged).first(size);
  }
  if (!restore_arranged(codec, width, arranged, parent, out)) {
    return corrupt("A chunk holds ", arranged.size(), " bytes that do not make up the ", out.size(), " declared.");
  }
  return ok_status();
}

}  // namespace graft::checkpoint
