// Models of the C ABI with adapters on them.
#pragma once

#include <memory>
#include <utility>

#include "runtime/c_api/c_handles.h"
#include "runtime/lora/combine.h"

namespace graft::c_api {

/// make(base) gives the model with adapters on; on failure all stays as it was. `adapters`: what the result borrows
/// from besides its base; may be null.
template <typename Make>
Status put_on(graft_model& model, std::unique_ptr<Model> adapters, Make make) {
  const Model& base = model.base ? *model.base : model.model;
  GRAFT_TRY_ASSIGN(Model adapted, make(base));
  // Weights stay where they are when the model that owns them moves.
  if (!model.base) model.base = std::make_unique<Model>(std::move(model.model));
  model.model = std::move(adapted);
  model.adapters = std::move(adapters);
  return ok_status();
}

/// Puts an adapter file's adapters on. `names`: of the files that they are of, for errors; empty: errors have none.
Status load_onto(graft_model& model, Result<Model> loaded, const std::string& names = {});

}  // namespace graft::c_api
