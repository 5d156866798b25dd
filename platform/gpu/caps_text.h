// A device's capabilities as JSON, the text that `graft devices --json` prints, so that plans can be made for a device
// that is elsewhere.
#pragma once

#include <string>
#include <string_view>

#include "platform/base/status.h"
#include "platform/gpu/caps.h"

namespace graft::gpu {

const char* type_name(DeviceType type);  ///< "discrete"
/// "matrices of f16 16x16x16".
std::string matrix_text(const MatrixShape& shape);

/// Puts what the text says over `caps`; what it leaves out stays. It is an object of a device, or a list of one.
/// Without "features" that name them there are no matrix units. `name` stands for the text in messages.
/// corrupt: no JSON; invalid_argument: no such object, a limit or feature that graft does not know, a number that
/// cannot be.
Status read_caps(std::string_view text, const std::string& name, Caps& caps);

}  // namespace graft::gpu
