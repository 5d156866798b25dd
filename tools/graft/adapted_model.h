// A model as commands open it: with an adapter file's adapters, or with fresh ones to be trained.
#pragma once

#include <optional>
#include <string>

#include "runtime/session/adapter.h"

namespace graft::cli {

/// The parts behind an adapted model, whose weights it borrows. Movable.
struct AdaptedModel {
  Model base;
  Model adapter;                 ///< of a file; empty otherwise
  std::optional<Model> adapted;  ///< empty where nothing was put on

  Model& get() { return adapted ? *adapted : base; }
};

/// `adapter` is a path; empty: none. `lora` is what --lora says; empty: no fresh adapters. Not both.
Result<AdaptedModel> open_adapted(const std::string& path, const std::string& adapter, const std::string& lora = {},
                                  std::uint32_t seed = 0);
/// The same with a model that is already there.
Result<AdaptedModel> put_adapters_on(Model base, const std::string& adapter, const std::string& lora,
                                     std::uint32_t seed = 0);

}  // namespace graft::cli
