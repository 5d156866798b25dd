// CHECK and DCHECK: for bugs in graft itself, never for bad input (that is Status).
#pragma once

namespace graft::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}  // namespace graft::detail

#define GRAFT_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::graft::detail::check_failed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define GRAFT_DCHECK(condition) static_cast<void>(0)
#else
#define GRAFT_DCHECK(condition) GRAFT_CHECK(condition)
#endif
