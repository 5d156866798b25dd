// Loading models and .npy files the way every command does, and turning device layout into the source's.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "tools/graft/command.h"

namespace graft::cli {

/// A .graft file; another format is an error that names the command to convert it with.
Result<Model> open_model(const std::string& path);

/// `given`, then the model's own defaults, then 1 where `fill` is set; without it an error names what is unbound.
Result<Bindings> complete_bindings(const Model& model, const Bindings& given, bool fill);

/// Reorders a packed tensor of 32-bit words between graft's order of axes and the source's. Empty perm: a copy.
/// `dims` are graft's; `to_source` chooses the direction.
std::vector<std::byte> permute_words(std::span<const std::byte> words, const std::vector<std::int64_t>& dims,
                                     const SourcePerm& perm, bool to_source);

}  // namespace graft::cli
