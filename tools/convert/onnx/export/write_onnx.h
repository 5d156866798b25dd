// graft's own graph as an ONNX file, for models whose source is not at hand.
#pragma once

#include <cstdint>
#include <string>

#include "tools/convert/language_model/export_model.h"

namespace graft::convert {

/// Writes the model's forward graph in the oldest opset from 17 on that has all nodes, with its weights in the source's
/// layout under their names, its inputs, outputs and symbols. Ops that ONNX lacks are composed of those that it has.
/// unsupported: one that cannot be, which is named, or weights kept in blocks.
/// Where all weights have more than `most_inside` bytes, each of at least 1 KiB goes to FILE.data beside the file.
inline constexpr std::uint64_t kMostInsideOnnx = 1800u << 20;  // protobuf ends at 2 GiB
Result<ExportReport> write_onnx(os::FileSystem& files, const std::string& path, const Model& model,
                                std::uint64_t most_inside = kMostInsideOnnx);

}  // namespace graft::convert
