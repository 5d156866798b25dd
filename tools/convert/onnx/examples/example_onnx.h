// Example networks as ONNX files: for the demo, and for trying graft without a model at hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::convert {

/// The names that write_example_onnx() knows.
std::vector<std::string> example_names();

/// Writes an untrained network with He-initialised weights; the same seed gives the same file. "lenet" is the classic
/// 20-50-500-10 convolutional network: input `image` [batch, 1, 28, 28], output `logits` [batch, 10], 431080
/// parameters. "mlp" has the same input and output and one hidden layer of 128. "resnet18" (batch norm, skips) and
/// "vit-small" (12 layers of width 384, patches of 16) take [batch, 3, 224, 224] and give 1000 logits. "series"
/// (two convolutions) classifies six channels of a sensor: `series` [batch, 6, 100], `logits` [batch, 4]. "forecast"
/// (two hidden layers of 64) continues a series: `past` [batch, 48], `future` [batch, 12].
/// Errors: an unknown name; the file cannot be written (what was there before stays).
Status write_example_onnx(const std::string& name, const std::filesystem::path& path, std::uint64_t seed = 0);
/// The same as bytes.
Result<std::string> example_onnx(const std::string& name, std::uint64_t seed = 0);

}  // namespace graft::convert
