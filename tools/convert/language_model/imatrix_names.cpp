#include "tools/convert/language_model/imatrix_names.h"

#include <algorithm>

#include "platform/base/text.h"
#include "tools/convert/language_model/decoder_source.h"

namespace graft::convert {

Result<std::vector<ImatrixEntry>> named_for_gguf(const Model& model, std::vector<ImatrixEntry> entries) {
  const auto layout = layout_of(model.metadata);
  if (!layout) {
    return error(
        Code::not_found,
        "The model was not converted from a language model's files, so that its matrices have no names in GGUF "
        "files.");
  }
  if (layout->encodes()) return unsupported("Importance matrices are of decoders; the model is an encoder.");
  for (ImatrixEntry& entry : entries) {
    const ValueId id = model.graph.find_value(entry.name);
    const bool known = id.valid() && is_source_weight(model.graph.value(id), *layout);
    std::string name = known ? layout->gguf_name(entry.name) : std::string();
    if (name.empty()) return invalid("The model has no matrix \"", shown(entry.name), "\" that GGUF files have.");
    const Shape& shape = model.graph.value(id).shape;
    const Dim columns(static_cast<std::int64_t>(entry.sums.size()));
    if (shape.rank() != 2 || (shape[0] != columns && shape[1] != columns)) {
      return invalid("There are ", entry.sums.size(), " sums for \"", shown(entry.name), "\", which is ", shape.text(),
                     ".");
    }
    entry.name = std::move(name);
  }
  return entries;
}

}  // namespace graft::convert
