// For what runs in a thread, at whose end an exception would end the process.
#pragma once

#include "platform/base/exceptions.h"
#include "platform/base/status.h"

namespace graft::os {

/// What body() returns, a Status, or an error where it throws.
template <typename Body>
Status caught(Body&& body) {
  return catching(body, [](Thrown thrown) {
    if (thrown == Thrown::bad_alloc) return error(Code::out_of_memory, "Host memory is used up.");
    return error(Code::internal, "The standard library failed in a thread.");
  });
}

}  // namespace graft::os
