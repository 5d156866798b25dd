// From a graft_source to bytes in memory.
#pragma once

#include <memory>

#include "graft/source.h"
#include "platform/os/file.h"
#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

struct SourceBytes {
  std::string name;  ///< for messages
  std::unique_ptr<os::MappedFile> bytes;
};

/// Mapped, borrowed or read, as graft_source says. Reads into memory of the context's allocator.
Result<SourceBytes> read_source(const graft_context& context, const graft_source* source);

/// The .graft file there.
Result<Model> load_source(const graft_context& context, const graft_source* source, const LoadOptions& options);

/// What the C options say.
Result<LoadOptions> load_options(const graft_model_options& options);

}  // namespace graft::c_api
