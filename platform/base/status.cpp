#include "platform/base/status.h"

namespace graft {

const char* code_name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_found: return "not_found";
    case Code::io_error: return "io_error";
    case Code::corrupt: return "corrupt";
    case Code::unsupported: return "unsupported";
    case Code::out_of_memory: return "out_of_memory";
    case Code::device_error: return "device_error";
    case Code::device_lost: return "device_lost";
    case Code::timeout: return "timeout";
    case Code::cancelled: return "cancelled";
    case Code::internal: return "internal";
  }
  return "unknown";
}

}  // namespace graft
