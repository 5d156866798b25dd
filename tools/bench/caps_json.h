// A device's capabilities as JSON: what graft devices --json prints, --caps FILE.json reads again, here or elsewhere.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "platform/gpu/gpu.h"
#include "tools/common/status.h"

namespace graft::cli {

const char* type_name(gpu::DeviceType type);  ///< "discrete"
/// "matrices of f16 16x16x16".
std::string matrix_text(const gpu::MatrixShape& shape);

/// Name, type, heaps, limits and features.
nlohmann::ordered_json caps_json(const gpu::Caps& caps);

/// Puts what the file says over `caps`; what it leaves out stays. The file holds such an object, or a list of one.
/// Without "features" that name them there are no matrix units.
/// invalid_argument: no such object, a limit or feature that graft does not know, a number that cannot be.
Status read_caps_file(const std::string& path, gpu::Caps& caps);

}  // namespace graft::cli
