// Reading the structs of the C ABI, and writing them: for every library with such an interface.
#pragma once

#include <algorithm>
#include <cstring>

#include "graft/graft.h"
#include "interface/defaults.h"
#include "interface/ranges.h"
#include "platform/base/status.h"
#include "runtime/core/shape.h"

namespace graft::c_api {

/// A copy of the caller's options, whose numbers are in their ranges. Fields that the struct of an older program lacks,
/// or all fields if `given` is NULL, are those of `options`.
template <typename Options>
Result<Options> read_options(const Options* given, const char* name, Options options = defaults<Options>()) {
  if (given == nullptr) return options;
  if (given->struct_size < sizeof(std::size_t) || given->struct_size > sizeof(Options)) {
    return invalid("The ", name, "'s struct_size is ", given->struct_size, "; this library knows up to ",
                   sizeof(Options), " bytes.");
  }
  std::memcpy(&options, given, given->struct_size);
  GRAFT_TRY(check_ranges(options));
  return options;
}

/// What write_info() asks of the struct, before anything is done that it would tell of.
template <typename Info>
Status check_info(const Info* to, const char* name) {
  if (to == nullptr) return invalid("The ", name, " to fill is NULL.");
  if (to->struct_size >= sizeof(std::size_t)) return ok_status();
  return invalid("The ", name, "'s struct_size is not set; nothing changed.");
}

/// Writes as much of `from` as the caller's struct has room for.
template <typename Info>
Status write_info(Info from, Info* to, const char* name) {
  GRAFT_TRY(check_info(to, name));
  from.struct_size = to->struct_size;
  std::memcpy(to, &from, std::min(to->struct_size, sizeof(Info)));
  return ok_status();
}

/// Sizes of named dimensions.
inline Result<Bindings> read_bindings(const graft_binding* bindings, std::size_t count) {
  Bindings out;
  if (count > 0 && bindings == nullptr) return invalid("binding_count is ", count, ", but bindings is NULL.");
  for (std::size_t i = 0; i < count; ++i) {
    if (bindings[i].name == nullptr) return invalid("Binding ", i, " has no name.");
    if (!out.emplace(bindings[i].name, bindings[i].size).second) {
      return invalid("The dimension \"", bindings[i].name, "\" is bound twice.");
    }
  }
  return out;
}

}  // namespace graft::c_api
