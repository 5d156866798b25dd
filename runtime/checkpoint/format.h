// The files of a checkpoint store: names, the header that all share, limits. See schema/CHECKPOINT_FORMAT.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "platform/base/hash.h"
#include "platform/base/status.h"

namespace graft::checkpoint {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kHeaderFieldBytes = 48;  ///< before its checksum; what follows it is sealed with these

// Limits. They bound what a hostile store can make a reader allocate or compute.
inline constexpr std::uint32_t kMaxChunkBytes = 1u << 22;
inline constexpr std::uint32_t kMinChunkBytes = 64;
inline constexpr std::uint32_t kMaxChain = 32;  ///< chunks that must be decoded to decode one
inline constexpr std::uint64_t kMaxSnapshotFileBytes = 1u << 30;
inline constexpr std::uint64_t kMaxJournalBytes = 1u << 28;
inline constexpr std::uint32_t kMaxRecordBytes = 1u << 20;
inline constexpr std::uint64_t kMaxListed = 1u << 16;  ///< streams, tags, metadata entries
inline constexpr std::size_t kMaxNameBytes = 1024;
inline constexpr std::size_t kMaxTextBytes = 1u << 20;
inline constexpr std::size_t kMaxSealBytes = 64;  ///< by which a cipher may lengthen anything
inline constexpr std::uint32_t kNoParent = 0xffffffff;

enum class FileKind { root, snapshot, segment, journal };

/// The first 64 bytes of every file of a store. What a, b and c mean depends on the kind:
/// root: number = next free number, a = head snapshot (0: none), b = journal, c = newest compacted segment (0: none);
/// snapshot: a = bytes after the header, b = parent snapshot (0: none); segment: none;
/// journal: a = the snapshot that it follows, b = the journal before it (0: none), c = how many bytes of that one
/// count.
struct Header {
  FileKind kind = FileKind::root;
  std::uint64_t store = 0;  ///< the store's random identity
  std::uint64_t number = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t c = 0;
  bool sealed = false;  ///< what follows it went through the store's cipher
};

/// `body` is what the checksum covers beyond the header: all that follows it in ROOT and snapshots, nothing elsewhere.
std::array<std::byte, kHeaderBytes> write_header(const Header& header, std::span<const std::byte> body = {});

/// Reads and checks the header of a whole snapshot or root (the checksum covers all bytes after it), or of the start of
/// a segment or journal. unsupported: another version.
Result<Header> read_header(FileKind kind, std::span<const std::byte> bytes);

/// "snapshot-00000000000000ff"; ROOT has no number.
std::string file_name(FileKind kind, std::uint64_t number);
/// The number in such a name; nullopt for every other name.
std::optional<std::uint64_t> file_number(FileKind kind, std::string_view name);

inline constexpr std::string_view kRootName = "ROOT";
inline constexpr std::string_view kLockName = "LOCK";

/// The first eight bytes of a Hash128.
inline std::uint64_t checksum64(std::span<const std::byte> bytes) { return hash128(bytes).low; }

/// A frame of the journal: 32 bytes, then the payload. The checksum covers the previous frame's checksum (the header's
/// for the first), the first 16 bytes and the payload, so that frames cannot be left out, moved or taken from
/// elsewhere.
inline constexpr std::size_t kFrameHeaderBytes = 32;
struct FrameHeader {
  std::uint32_t bytes = 0;
  std::uint32_t kind = 0;
  std::uint64_t step = 0;
  Hash128 checksum;
};
/// The 16 bytes with which a frame of a payload of `bytes` bytes starts.
std::array<std::byte, 16> frame_start(std::size_t bytes, std::uint32_t kind, std::uint64_t step);
std::array<std::byte, kFrameHeaderBytes> write_frame(std::span<const std::byte> start,
                                                     std::span<const std::byte> payload, const Hash128& previous);
/// The frame at the start of `bytes`, or nullopt where there is no whole and right one.
std::optional<FrameHeader> read_frame(std::span<const std::byte> bytes, const Hash128& previous);
/// What a frame's payload is bound to when it is sealed; `start` is the frame's first 16 bytes.
std::array<std::byte, 40> frame_binding(std::span<const std::byte> start, const Hash128& previous);
/// The checksum with which the chain of frames begins.
Hash128 header_checksum(std::span<const std::byte> header);

}  // namespace graft::checkpoint
