// How many messages an ONNX file unfolds into, before protobuf makes objects of them.
#pragma once

#include <cstddef>
#include <span>

#include "platform/base/status.h"

namespace graft::convert {

/// An empty message takes two bytes of a file and some 400 of memory: a file may hold kFreeMessages and one for each
/// kBytesPerMessage of its bytes. Networks have one for each 30 bytes or more.
inline constexpr std::size_t kFreeMessages = std::size_t{1} << 18;
inline constexpr std::size_t kBytesPerMessage = 16;

/// corrupt where a file (a ModelProto) holds more nodes, attributes, tensors and values than that. Says nothing else of
/// it: what is no protobuf is left to the parser.
Status check_message_count(std::span<const std::byte> bytes);

}  // namespace graft::convert
