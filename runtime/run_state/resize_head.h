// Another number of classes for a trained classifier: its last layer gets rows for new classes, or begins anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/model.h"

namespace graft {

struct HeadOptions {
  std::string output;              ///< of the classes; empty: the model's only output
  std::int64_t classes = 0;        ///< that the head has then
  bool replace = false;            ///< all rows begin anew, and there may be fewer
  std::uint32_t seed = 0;          ///< of new rows: initial_linear() by the tensors' names
  std::vector<std::string> names;  ///< of the new classes (replace: of all), where classes have names (kMetaClasses)
};

/// The model with a last layer (a linear layer or a convolution, and its bias) of so many classes. Other weights are
/// borrowed: `base` must outlive the result. Rows of old classes keep their bits. The head is trained, also where it
/// was frozen. Errors name the node that stands in the way.
Result<Model> resize_head(const Model& base, const HeadOptions& options);

/// Metadata of such a model: what was done, so that a run of the model before can be continued.
inline constexpr std::string_view kMetaHead = "head.resized";

struct ResizedHead {
  std::string text;  ///< tells one resizing from another
  bool replaced = false;
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::string model;                    ///< structure_hash() of the model before
  std::vector<std::string> parameters;  ///< the head's

  /// Whether a tensor of a run, as "fc.weight" or "fc.weight/exp_avg", is one of them or belongs to one.
  bool holds(std::string_view tensor) const;
};
/// nullopt: the head is the source model's.
std::optional<ResizedHead> resized_head_of(const Metadata& metadata);

/// Puts the part of `old`, a tensor of `old_dims`, that `now` has room for there; elements are of `element` bytes.
/// False where the tensors differ otherwise than by `from` and `to` along an axis; nothing changed then.
bool overlay(std::span<const std::byte> old, std::span<const std::int64_t> old_dims, std::int64_t from,
             std::span<std::byte> now, std::span<const std::int64_t> dims, std::int64_t to, std::size_t element);

}  // namespace graft
