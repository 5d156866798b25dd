#include "runtime/checkpoint/format.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace graft::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "Store files are written as they lie in memory.");

constexpr std::size_t kChecksumAt = kHeaderFieldBytes;
constexpr std::uint32_t kSealedFlag = 1u << 16;

template <typename T>
void put(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::string_view magic(FileKind kind) {
  switch (kind) {
    case FileKind::root: return "GRFR";
    case FileKind::snapshot: return "GRFS";
    case FileKind::segment: return "GRFD";
    case FileKind::journal: return "GRFJ";
  }
  return "";
}

std::string_view prefix(FileKind kind) {
  switch (kind) {
    case FileKind::root: return "";
    case FileKind::snapshot: return "snapshot-";
    case FileKind::segment: return "segment-";
    case FileKind::journal: return "journal-";
  }
  return "";
}

Hash128 file_checksum(std::span<const std::byte> header, std::span<const std::byte> body) {
  const std::array parts = {header.first(kChecksumAt), body};
  return hash128(parts);
}

Hash128 frame_checksum(std::span<const std::byte> start, std::span<const std::byte> payload, const Hash128& previous) {
  const std::array<std::uint64_t, 2> before = {previous.low, previous.high};
  const std::array<std::span<const std::byte>, 3> parts = {std::as_bytes(std::span(before)), start, payload};
  return hash128(parts);
}

}  // namespace

std::array<std::byte, kHeaderBytes> write_header(const Header& header, std::span<const std::byte> body) {
  std::array<std::byte, kHeaderBytes> bytes{};
  std::memcpy(bytes.data(), magic(header.kind).data(), 4);
  put(bytes, 4, kVersion | (header.sealed ? kSealedFlag : 0));
  put(bytes, 8, header.store);
  put(bytes, 16, header.number);
  put(bytes, 24, header.a);
  put(bytes, 32, header.b);
  put(bytes, 40, header.c);
  const Hash128 checksum = file_checksum(bytes, body);
  put(bytes, kChecksumAt, checksum.low);
  put(bytes, kChecksumAt + 8, checksum.high);
  return bytes;
}

Result<Header> read_header(FileKind kind, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes)
    return corrupt("It has ", bytes.size(), " bytes, fewer than the ", kHeaderBytes, " of a header.");
  if (std::memcmp(bytes.data(), magic(kind).data(), 4) != 0) {
    return corrupt("Its first four bytes are not \"", magic(kind), "\".");
  }
  const bool whole = kind == FileKind::root || kind == FileKind::snapshot;
  const auto body = whole ? bytes.subspan(kHeaderBytes) : std::span<const std::byte>();
  if (file_checksum(bytes, body) != header_checksum(bytes)) return corrupt("Its checksum is wrong.");
  const auto version = get<std::uint32_t>(bytes, 4);
  if ((version & ~kSealedFlag) != kVersion) {
    return unsupported("It has version ", version, " of the format; this graft reads version ", kVersion, ".");
  }
  return Header{kind,
                get<std::uint64_t>(bytes, 8),
                get<std::uint64_t>(bytes, 16),
                get<std::uint64_t>(bytes, 24),
                get<std::uint64_t>(bytes, 32),
                get<std::uint64_t>(bytes, 40),
                (version & kSealedFlag) != 0};
}

std::string file_name(FileKind kind, std::uint64_t number) {
  if (kind == FileKind::root) return std::string(kRootName);
  std::string name(prefix(kind));
  for (int shift = 60; shift >= 0; shift -= 4) name += "0123456789abcdef"[number >> shift & 15];
  return name;
}

std::optional<std::uint64_t> file_number(FileKind kind, std::string_view name) {
  const std::string_view start = prefix(kind);
  if (start.empty() || name.size() != start.size() + 16 || name.substr(0, start.size()) != start) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : name.substr(start.size())) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    number = number * 16 + static_cast<std::uint64_t>(digit);
  }
  return number;
}

std::array<std::byte, 16> frame_start(std::size_t bytes, std::uint32_t kind, std::uint64_t step) {
  std::array<std::byte, 16> start{};
  put(start, 0, static_cast<std::uint32_t>(bytes));
  put(start, 4, kind);
  put(start, 8, step);
  return start;
}

std::array<std::byte, kFrameHeaderBytes> write_frame(std::span<const std::byte> start,
                                                     std::span<const std::byte> payload, const Hash128& previous) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  std::copy(start.begin(), start.end(), bytes.begin());
  const Hash128 checksum = frame_checksum(start, payload, previous);
  put(bytes, 16, checksum.low);
  put(bytes, 24, checksum.high);
  return bytes;
}

std::optional<FrameHeader> read_frame(std::span<const std::byte> bytes, const Hash128& previous) {
  if (bytes.size() < kFrameHeaderBytes) return std::nullopt;
  FrameHeader frame{get<std::uint32_t>(bytes, 0),
                    get<std::uint32_t>(bytes, 4),
                    get<std::uint64_t>(bytes, 8),
                    {get<std::uint64_t>(bytes, 16), get<std::uint64_t>(bytes, 24)}};
  if (frame.bytes > kMaxRecordBytes + kMaxSealBytes || frame.bytes > bytes.size() - kFrameHeaderBytes)
    return std::nullopt;
  const auto payload = bytes.subspan(kFrameHeaderBytes, frame.bytes);
  if (frame_checksum(bytes.first(16), payload, previous) != frame.checksum) return std::nullopt;
  return frame;
}

std::array<std::byte, 40> frame_binding(std::span<const std::byte> start, const Hash128& previous) {
  std::array<std::byte, 40> bytes{};
  std::memcpy(bytes.data(), magic(FileKind::journal).data(), 4);
  put(bytes, 8, previous.low);
  put(bytes, 16, previous.high);
  std::memcpy(&bytes[24], start.data(), 16);
  return bytes;
}

Hash128 header_checksum(std::span<const std::byte> header) {
  return {get<std::uint64_t>(header, kChecksumAt), get<std::uint64_t>(header, kChecksumAt + 8)};
}

}  // namespace graft::checkpoint
