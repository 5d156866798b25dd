// A snapshot's tables in memory, and their way to and from a file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/hash.h"
#include "platform/base/status.h"
#include "runtime/checkpoint/codec.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/slab.h"

namespace graft::checkpoint {

/// What a stream is for; numbers as in schema/checkpoint.fbs.
enum class StreamKind : std::uint8_t {
  parameter,
  optimizer,
  accumulator,
  schedule,
  rng,
  data_cursor,
  metrics,
  config,
  other,
};

/// What a stream's bytes are, for the choice of codecs; numbers as in schema/checkpoint.fbs.
enum class Element : std::uint8_t { bytes, f32, i32, boolean, f16, bf16 };

constexpr std::size_t element_size(Element element) {
  return element == Element::bytes ? 1 : element == Element::f16 || element == Element::bf16 ? 2 : 4;
}

constexpr bool is_float(Element element) {
  return element == Element::f32 || element == Element::f16 || element == Element::bf16;
}

struct Chunk {
  Hash128 hash;  ///< of the decoded bytes
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;
  std::uint64_t stored_checksum = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t decoded_bytes = 0;
  std::uint32_t parent = kNoParent;  ///< index in Manifest::chunks, smaller than this chunk's own
  Codec codec = Codec::plain;
  Compression compression = Compression::none;
  std::uint8_t element_bytes = 1;
};

/// Stands for bytes that are not in the store: a frozen weight is named by hash and never written.
struct FrozenBytes {
  Hash128 hash;
  std::uint64_t bytes = 0;
};

/// Named by worker and name.
struct Stream {
  std::string name;
  StreamKind kind = StreamKind::other;
  Element element = Element::bytes;
  std::uint64_t bytes = 0;
  std::uint32_t worker = 0;            ///< whose section it is in; 0: what all workers share
  std::optional<Hash128> frozen = {};  ///< of bytes that are not in the store; there are no chunks then
  std::uint32_t first = 0;             ///< of its chunks, in Manifest::indices
  std::uint32_t count = 0;             ///< of its chunks

  friend bool operator==(const Stream&, const Stream&) = default;
};

/// What the snapshots of a run mostly have alike; they share it then, so that a store of thousands is read fast.
template <class T>
class Shared {
 public:
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  bool is(const Shared& other) const { return value_ == other.value_; }
  /// This one's own from here on. Not while another thread copies it.
  T& edit() {
    if (value_.use_count() != 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }

 private:
  static const std::shared_ptr<T>& none() {
    static const auto empty = std::make_shared<T>();
    return empty;
  }
  std::shared_ptr<T> value_ = none();
};

using Metadata = Shared<std::map<std::string, std::string, std::less<>>>;  ///< text by key
using Streams = Shared<std::vector<Stream>>;

/// What the caller says about a snapshot.
struct SnapshotMeta {
  std::uint64_t step = 0;
  double loss = 0;
  std::int64_t wall_clock_ms = 0;  ///< since 1970; for people
  std::vector<std::string> tags;
  Metadata metadata;
};

/// A snapshot. `chunks` is complete: it holds every chunk that decoding one of the streams needs, parents first.
struct Manifest {
  std::uint64_t number = 0;
  std::uint64_t parent = 0;  ///< the snapshot before; 0: none. It need not exist any more.
  std::uint32_t chunk_bytes = 0;
  SnapshotMeta meta;
  Streams streams;
  Rows<std::uint32_t> indices;  ///< of the streams' chunks, stream after stream
  Rows<Chunk> chunks;

  const Stream* find(std::string_view name, std::uint32_t worker = 0) const;
  /// In the order of the stream's bytes.
  std::span<const std::uint32_t> chunks_of(const Stream& stream) const {
    return std::span(indices).subspan(stream.first, stream.count);
  }
};

/// What a snapshot may share with one that was read before it.
struct Alike {
  Metadata metadata;
  Streams streams;
  std::shared_ptr<Slab> slab = {};  ///< null: none; in which the tables are to lie
};

/// The tables, without the file's header. Requires a manifest that check() accepts.
std::vector<std::byte> encode_tables(const Manifest& manifest);
/// Reads the tables of a snapshot with this header; every rule of CHECKPOINT_FORMAT.md that needs no other file holds
/// afterwards. `tables` must start at a multiple of 8 bytes. What is as in `like`, of a good manifest, is shared with
/// it.
Result<Manifest> decode_tables(std::span<const std::byte> tables, const Header& header, const Alike& like = {});
/// The rules on what the tables mean: names, sizes, chains, limits. What is shared with `like` is not looked at again.
Status check(const Manifest& manifest, const Alike& like = {});
/// Where a stored chunk stands: segment and offset.
using Place = std::pair<std::uint64_t, std::uint64_t>;
inline Place place_of(const Chunk& chunk) { return {chunk.segment, chunk.offset}; }

/// What decoding one chunk takes, itself and its parents.
struct ChainCost {
  std::uint32_t length = 1;
  std::uint64_t bytes = 0;  ///< read and decoded, added up
};
/// All that must be decoded for chunk `index`, it last.
std::vector<Chunk> chain_of(const Manifest& manifest, std::uint32_t index);
/// For each chunk; requires parents before children.
std::vector<ChainCost> chain_costs(std::span<const Chunk> chunks);

}  // namespace graft::checkpoint
