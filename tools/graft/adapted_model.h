// A model as commands open it: with an adapter file's adapters, or with fresh ones to be trained.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/lora/combine.h"
#include "tools/common/command.h"
#include "tools/graft/put_adapters.h"

namespace graft::cli {

/// The parts behind an adapted model, whose weights it borrows. Movable.
struct AdaptedModel {
  Model base;
  Model adapter;                 ///< of a file; empty otherwise
  std::optional<Model> adapted;  ///< empty where nothing was put on
  std::optional<Model> longer;   ///< the base with fresh tokens alone, where they were added and it is asked for

  Model& get() { return adapted ? *adapted : base; }
  /// What the adapted one is compared with.
  const Model& reference() const { return longer ? *longer : base; }
};

/// What fresh adapters begin as.
struct FreshAdapters {
  std::string lora = {};  ///< what --lora says; empty: none
  std::uint32_t seed = 0;
  std::string add_tokens = {};  ///< what --add-tokens says; empty: none
  bool compares = false;        ///< AdaptedModel::reference() will be asked
};

/// Adapters of files or fresh ones, not both of them.
Result<AdaptedModel> open_adapted(const std::string& path, const AdapterFlags& adapter, WeightCheck check,
                                  const FreshAdapters& fresh = {});
/// The same with a model that is already there.
Result<AdaptedModel> put_adapters_on(Model base, const AdapterFlags& adapter, const FreshAdapters& fresh);

}  // namespace graft::cli
