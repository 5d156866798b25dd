// Delta files: a header of 64 bytes and a FlatBuffers root (schema/delta.fbs).
//
//   0  "GRFW"    4  version, 1    8  bytes of the root    16  XXH3-128 of the root    32  zeros
//
// At most 2 GiB, which a FlatBuffer may have.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/os/file.h"
#include "runtime/delta/delta.h"

namespace graft::delta {

/// The same delta gives the same bytes. invalid_argument: more than 2 GiB.
Result<std::vector<std::byte>> to_bytes(const Delta& delta);
Status write_delta(os::FileSystem& files, const std::string& path, const Delta& delta);

/// Memory: at most 2,500 times the bytes. corrupt, with what is wrong; unsupported: a newer version. `name` stands for
/// the file in messages.
Result<Delta> from_bytes(std::span<const std::byte> bytes, std::string_view name);
Result<Delta> read_delta(os::FileSystem& files, const std::string& path);

/// A residual as a file; empty where there is none yet, as before the first round.
Result<Residual> read_residual(os::FileSystem& files, const std::string& path);
/// `made`: the delta that left it.
Status write_residual(os::FileSystem& files, const std::string& path, const Delta& made, const Residual& residual);

}  // namespace graft::delta
