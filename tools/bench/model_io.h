// Loading models the way every command does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/report/layers.h"
#include "tools/common/command.h"

namespace graft::cli {

/// A .graft file; another format is an error that names the command to convert it with.
Result<Model> open_model(const std::string& path, WeightCheck check = WeightCheck::on_use);

/// save_model() of it, for save_output(). The model must outlive what is given back.
std::function<Status(const std::string& path)> saver_of(const Model& model);

inline WeightCheck when(bool check) { return check ? WeightCheck::at_once : WeightCheck::on_use; }

}  // namespace graft::cli
