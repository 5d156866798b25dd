// Files that somebody else opened: all that an app has of an asset inside a package, say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "platform/os/file.h"

namespace graft::os {

/// A file over a copy of `descriptor`, which may be closed meanwhile; its own position is neither used nor moved.
/// `name` stands for the path in messages. io_error: it is no open file, or a folder.
Result<std::unique_ptr<File>> open_descriptor(int descriptor, const std::string& name);

/// How many bytes of it stand from `offset` on: `bytes`, or where that is 0 all to its end. corrupt: it ends before.
Result<std::uint64_t> descriptor_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                       const std::string& name);

/// These bytes; `offset` need not be a multiple of anything: the view starts as far behind a page as it does. The
/// descriptor may be closed meanwhile.
Result<std::unique_ptr<MappedFile>> map_descriptor(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                                   const std::string& name);

}  // namespace graft::os
