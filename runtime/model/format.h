// The parts of the file format that are not in schema/model.fbs: header, alignment, limits. See MODEL_FORMAT.md.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft::model_format {

static_assert(std::endian::native == std::endian::little, "Model files are mapped as they are: little-endian.");

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint64_t kHeaderBytes = 64;
inline constexpr std::uint64_t kSegmentAlignment = 64 << 10;  // the coarsest page that systems in use map by
inline constexpr std::uint64_t kHashedBlock = 1 << 20;        // what one entry of Tensor.blocks covers
inline constexpr std::uint64_t kTensorAlignment = 256;        // the largest storage-buffer offset alignment of Vulkan

// Limits. They bound what a hostile file can make a reader allocate; real models stay far below.
inline constexpr std::uint64_t kMaxRootBytes = 1u << 30;
inline constexpr std::uint64_t kMaxValues = 1u << 18;
inline constexpr std::uint64_t kMaxNodes = 1u << 18;
inline constexpr std::uint64_t kMaxListed = 1u << 16;  // outputs, signatures, symbols, metadata entries, attributes
inline constexpr std::uint64_t kMaxNameBytes = 1024;

/// Stands for an optional input left out.
inline constexpr std::uint32_t kNoIndex = 0xffffffff;

/// Checks the 64 bytes before the tables, and the root's checksum; returns the root (header included). `bytes` is the
/// whole file.
Result<std::span<const std::byte>> open_root(std::span<const std::byte> bytes);

/// Puts the header into a finished FlatBuffers root; `file_bytes` is left 0, for seal() to fill in.
std::string add_header(std::string_view flat_buffer);

/// Writes the sizes and the checksum into a root made by add_header().
void seal(std::span<std::byte> root, std::uint64_t file_bytes);

/// UTF-8 without control characters; line breaks and tabs only where `lines` says so.
bool is_text(std::string_view text, bool lines);
/// A name is not empty, at most kMaxNameBytes long, and text; `what` starts the error, as in "A value's name".
Status check_name(std::string_view name, std::string_view what);
Status check_count(std::uint64_t count, std::uint64_t limit, std::string_view what);

}  // namespace graft::model_format
