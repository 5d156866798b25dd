// What graft.hpp says of another number of classes. Included by graft.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/base.hpp"
#include "graft/head.h"

namespace graft {
inline namespace v0 {

/// As graft_head_options.
struct HeadOptions {
  std::string output = {};                    ///< of the classes; empty: the model's only output
  bool replace = false;                       ///< all rows begin anew; else old rows keep their bits
  std::uint32_t seed = 0;                     ///< of new rows
  std::vector<std::string> class_names = {};  ///< of the new classes (replace: of all)
};

namespace detail {

inline graft_status resize_head(graft_model* model, std::int64_t classes, const HeadOptions& options) {
  const auto names = raw_names(options.class_names);
  auto raw = sized<graft_head_options>();
  raw.output = or_null(options.output);
  raw.classes = classes;
  raw.replace = options.replace ? 1 : 0;
  raw.seed = options.seed;
  raw.class_names = names.data();
  raw.class_name_count = names.size();
  return graft_model_resize_head(model, &raw);
}

}  // namespace detail
}  // namespace v0
}  // namespace graft
