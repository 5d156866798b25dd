// The options of a TensorFlow Lite operator that graft does not know: refused unless they say nothing.
#pragma once

#include <cstddef>
#include <span>

#include "platform/base/status.h"
#include "schema/tflite_generated.h"

namespace graft::convert {

/// unsupported where the operator's options are another operator's, or have a field that neither the operator's
/// translation reads nor is without effect here. What the translation reads it refuses itself. `file`: all bytes.
Status check_options(const tfl::Operator& op, tfl::BuiltinOperator code, std::span<const std::byte> file);

}  // namespace graft::convert
