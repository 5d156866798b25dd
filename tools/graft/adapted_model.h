// A model as commands open it: with an adapter file's adapters, or with fresh ones to be trained.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/lora/combine.h"
#include "tools/graft/command.h"

namespace graft::cli {

/// The parts behind an adapted model, whose weights it borrows. Movable.
struct AdaptedModel {
  Model base;
  Model adapter;                 ///< of a file; empty otherwise
  std::optional<Model> adapted;  ///< empty where nothing was put on

  Model& get() { return adapted ? *adapted : base; }
};

/// --adapter and --any-base.
struct AdapterFlags {
  std::vector<std::string> files;  ///< FILE, or FILE=WEIGHT where there is no such file; empty: none
  bool any_base = false;
};
void add_adapter_flags(CLI::App& app, AdapterFlags& flags, bool required = false);

/// "0.7" of "FILE=0.7"; 1 where the text is the name of a file or ends in no number. The name alone stays in `file`.
double take_adapter_weight(std::string& file);
/// The names alone.
std::vector<std::string> adapter_files(const AdapterFlags& flags);

/// The files' adapters together, in graft's form, for `base`; another base than theirs is refused unless --any-base is
/// given.
Result<Model> read_adapter(const AdapterFlags& flags, const Model& base);

/// `lora` is what --lora says; empty: no fresh adapters. Not both of them.
Result<AdaptedModel> open_adapted(const std::string& path, const AdapterFlags& adapter, WeightCheck check,
                                  const std::string& lora = {}, std::uint32_t seed = 0);
/// The same with a model that is already there.
Result<AdaptedModel> put_adapters_on(Model base, const AdapterFlags& adapter, const std::string& lora,
                                     std::uint32_t seed = 0);

}  // namespace graft::cli
