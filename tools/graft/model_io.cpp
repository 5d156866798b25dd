#include "tools/graft/model_io.h"

#include <algorithm>

namespace graft::cli {

Result<Model> open_model(const std::string& path, WeightCheck check) {
  for (const char* extension : {".onnx", ".gguf", ".safetensors", ".pt", ".tflite"}) {
    if (path.ends_with(extension)) {
      return invalid("\"", path, "\" is not a .graft file; convert it first: graft convert ", path, " -o MODEL.graft.");
    }
  }
  return load_model(os::system_files(), path, {.check = check});
}

void add_check_flag(CLI::App& app, bool& check) {
  app.add_flag("--check", check, "Compare all weights with their checksums before anything else");
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

}  // namespace graft::cli
