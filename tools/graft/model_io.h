// Loading models the way every command does.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "tools/graft/command.h"

namespace graft::cli {

/// A .graft file; another format is an error that names the command to convert it with.
Result<Model> open_model(const std::string& path);

/// Before hours of work: refuses an output that could not be written afterwards (it is a folder, or its folder does not
/// exist). Empty: no output.
Status check_output(const std::string& path);

/// `given`, then the model's own defaults, then 1 where `fill` is set; without it an error names what is unbound.
Result<Bindings> complete_bindings(const Model& model, const Bindings& given, bool fill);

}  // namespace graft::cli
