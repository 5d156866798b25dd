// What adapters borrow of the model that they are put on, and how they name it.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "platform/base/half.h"
#include "runtime/core/quantized.h"
#include "runtime/lora/adapter.h"

namespace graft {

Result<std::vector<float>> weight_as_floats(const Model& base, const std::string& name) {
  return weight_part_as_floats(base, name, 0, base.graph.value(base.graph.find_value(name)).shape.elements());
}

Result<std::vector<float>> weight_part_as_floats(const Model& base, const std::string& name, std::uint64_t first,
                                                 std::uint64_t count) {
  const ValueId id = base.graph.find_value(name);
  const Value& value = base.graph.value(id);
  const auto whole = base.weight(id);
  if (!whole) return invalid("The weight \"", name, "\" has no contents.");
  std::vector<float> out(count);
  const auto bytes = whole->subspan(storage_bytes(value.dtype, first), storage_bytes(value.dtype, count));
  if (is_quantized(value.dtype)) {
    dequantize(value.dtype, bytes, out);
  } else if (value.dtype == DType::f32) {
    if (count > 0) std::memcpy(out.data(), bytes.data(), bytes.size());
  } else if (value.dtype == DType::f16 || value.dtype == DType::bf16) {
    for (std::size_t n = 0; n < out.size(); ++n) {
      std::uint16_t word = 0;
      std::memcpy(&word, bytes.data() + 2 * n, 2);
      out[n] = value.dtype == DType::f16 ? half_to_float(word) : bfloat_to_float(word);
    }
  } else {
    return unsupported("The weight \"", name, "\" is of type ", dtype_name(value.dtype),
                       "; adapters are merged into floats and blocks.");
  }
  return out;
}

Status borrow_rest(const Model& base, Model& model) {
  model.metadata = base.metadata;
  model.symbol_defaults = base.symbol_defaults;
  model.tokenizer = base.tokenizer;
  for (std::uint32_t i = 0; i < base.graph.values().size(); ++i) {
    const auto weight = base.weight({i});
    if (weight) GRAFT_TRY(model.borrow_weight(model.graph.find_value(base.graph.values()[i].name), base, {i}));
  }
  return ok_status();
}

std::string base_text(const Model& model) {
  const auto found = model.metadata.find(kMetaAdapterBase);
  return found == model.metadata.end() ? std::string() : found->second;
}

std::string name_of_base(const Model& base) {
  if (base.weight_bytes() == 0) return {};  // shapes to plan with
  const std::string_view file = base.source().substr(base.source().rfind('/') + 1);
  return cat(hash_text(weights_hash(base)), file.empty() ? "" : " ", file);
}

Status check_base(std::string_view theirs, std::string_view ours) {
  constexpr std::size_t kDigits = 32;
  if (theirs.empty() || ours.empty() || theirs.substr(0, kDigits) == ours.substr(0, kDigits)) return ok_status();
  const auto named = [](std::string_view base) {
    const std::string_view file = base.substr(std::min(kDigits + 1, base.size()));
    return cat(file.empty() ? "a model" : cat("\"", file, "\""), " (weights ", base.substr(0, kDigits), ")");
  };
  return invalid("The adapter was made for ", named(theirs), " and does not belong on ", named(ours), ".");
}

std::string exact_text(double number) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

Result<Model> borrow_model(const Model& base) {
  Model model;
  model.graph = base.graph;
  GRAFT_TRY(borrow_rest(base, model));
  model.signatures = base.signatures;
  return model;
}

}  // namespace graft
