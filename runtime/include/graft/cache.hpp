/// Context::open_cache() for C++; see graft/cache.h.
#pragma once

#include <string>

#include "graft/cache.h"
#include "graft/graft.hpp"

namespace graft {

/// As graft_cache_options.
struct CacheOptions {
  std::string folder;
  bool self_test = true;
};

/// See graft_context_open_cache().
inline Status open_cache(Context& context, const CacheOptions& options) {
  graft_cache_options raw{};
  raw.struct_size = sizeof raw;
  raw.folder = options.folder.c_str();
  raw.skip_self_test = options.self_test ? 0 : 1;
  return detail::to_status(graft_context_open_cache(context.get(), &raw), context.get());
}

}  // namespace graft
