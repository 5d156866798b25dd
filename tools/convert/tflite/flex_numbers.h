// Numbers of a FlexBuffers map, as custom operators of TensorFlow Lite files have for options.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "platform/base/status.h"

namespace graft::convert {

using FlexNumbers = std::map<std::string, double, std::less<>>;
/// Numbers and truth values by their keys; texts, lists and other maps are left out. corrupt: the bytes are no map, or
/// reach beyond their end.
Result<FlexNumbers> read_flex_numbers(std::span<const std::byte> bytes);

}  // namespace graft::convert
