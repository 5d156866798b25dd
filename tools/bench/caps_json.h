// A device's capabilities as JSON: what graft devices --json prints, --caps FILE.json reads again, here or elsewhere.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "platform/gpu/caps_text.h"
#include "platform/gpu/gpu.h"
#include "tools/common/status.h"

namespace graft::cli {

/// Name, type, heaps, limits and features.
nlohmann::ordered_json caps_json(const gpu::Caps& caps);

/// gpu::read_caps() of a file.
Status read_caps_file(const std::string& path, gpu::Caps& caps);

}  // namespace graft::cli
