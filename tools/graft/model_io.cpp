#include "tools/graft/model_io.h"

#include <algorithm>
#include <cstring>

namespace graft::cli {

Result<Model> open_model(const std::string& path) {
  for (const char* extension : {".onnx", ".gguf", ".safetensors", ".pt", ".tflite"}) {
    if (path.ends_with(extension)) {
      return invalid("\"", path, "\" is not a .graft file; convert it first: graft convert ", path, " -o MODEL.graft.");
    }
  }
  return load_model(os::system_files(), path);
}

Result<Bindings> complete_bindings(const Model& model, const Bindings& given, bool fill) {
  const std::vector<std::string> symbols = model.graph.symbols();
  for (const auto& [name, size] : given) {
    if (std::find(symbols.begin(), symbols.end(), name) != symbols.end()) continue;
    std::string known;
    for (const std::string& symbol : symbols) known += (known.empty() ? "" : ", ") + symbol;
    return invalid("The model has no dimension named \"", name, "\"; it has ", known.empty() ? "none" : known, ".");
  }
  Bindings bindings = given;
  std::string unbound;
  for (const std::string& symbol : symbols) {
    if (bindings.contains(symbol)) continue;
    if (const auto found = model.symbol_defaults.find(symbol); found != model.symbol_defaults.end()) {
      bindings[symbol] = found->second;
    } else if (fill) {
      bindings[symbol] = 1;
    } else {
      unbound += (unbound.empty() ? "" : ",") + symbol + "=N";
    }
  }
  if (!unbound.empty()) return invalid("The model has dimensions without a size; give --bind ", unbound, ".");
  return bindings;
}

std::vector<std::byte> permute_words(std::span<const std::byte> words, const std::vector<std::int64_t>& dims,
                                     const SourcePerm& perm, bool to_source) {
  std::vector<std::byte> out(words.begin(), words.end());
  if (perm.empty()) return out;
  const std::size_t rank = dims.size();
  // Strides of the source's tensor, looked up per graft axis.
  std::vector<std::int64_t> source_dims(rank);
  for (std::size_t i = 0; i < rank; ++i) source_dims[perm[i]] = dims[i];
  std::vector<std::int64_t> source_strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;) source_strides[i - 1] = source_strides[i] * source_dims[i];
  std::vector<std::int64_t> index(rank, 0);
  const std::size_t count = words.size() / 4;
  for (std::size_t at = 0; at < count; ++at) {
    std::int64_t source = 0;
    for (std::size_t i = 0; i < rank; ++i) source += index[i] * source_strides[perm[i]];
    const std::size_t other = static_cast<std::size_t>(source);
    std::memcpy(out.data() + 4 * (to_source ? other : at), words.data() + 4 * (to_source ? at : other), 4);
    for (std::size_t i = rank; i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return out;
}

}  // namespace graft::cli
