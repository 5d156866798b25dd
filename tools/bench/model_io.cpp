#include "tools/bench/model_io.h"

namespace graft::cli {

Result<Model> open_model(const std::string& path, WeightCheck check) {
  for (const char* extension : {".onnx", ".gguf", ".safetensors", ".pt", ".tflite"}) {
    if (path.ends_with(extension)) {
      return invalid("\"", path, "\" is not a .graft file; convert it first: graft convert ", path, " -o MODEL.graft.");
    }
  }
  return load_model(os::system_files(), path, {.check = check});
}

std::function<Status(const std::string& path)> saver_of(const Model& model) {
  return [&model](const std::string& path) -> Status { return save_model(os::system_files(), path, model); };
}

}  // namespace graft::cli
