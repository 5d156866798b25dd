#include "platform/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace graft::detail {

void check_failed(const char* file, int line, const char* condition) {
  // The process state is already wrong: say where, and stop before files are harmed.
  std::fprintf(stderr, "%s:%d: internal check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace graft::detail
