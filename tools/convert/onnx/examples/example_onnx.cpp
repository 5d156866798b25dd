#include "tools/convert/onnx/examples/example_onnx.h"
#include "platform/os/file.h"
#include "tools/convert/onnx/examples/network.h"

namespace graft::convert {
namespace {

std::string lenet(std::uint64_t seed) {
  Network net("lenet", seed, {1, 28, 28}, 10);
  net.conv("conv1", 1, 20, 5);
  net.relu("relu1");
  net.max_pool("pool1");
  net.conv("conv2", 20, 50, 5);
  net.relu("relu2");
  net.max_pool("pool2");
  net.flatten();
  net.linear("fc1", 800, 500);
  net.relu("relu3");
  net.linear("fc2", 500, 10);
  return net.finish();
}

std::string mlp(std::uint64_t seed) {
  Network net("mlp", seed, {1, 28, 28}, 10);
  net.flatten();
  net.linear("fc1", 784, 128);
  net.relu("relu1");
  net.linear("fc2", 128, 10);
  return net.finish();
}

std::string series(std::uint64_t seed) {
  Network net("series", seed, {6, 100}, 4, "series");
  net.conv("conv1", 6, 32, 5, 1, 2);
  net.relu("relu1");
  net.max_pool("pool1");
  net.conv("conv2", 32, 64, 5, 1, 2);
  net.relu("relu2");
  net.mean("mean", 2);
  net.linear("fc", 64, 4);
  return net.finish();
}

std::string forecast(std::uint64_t seed) {
  Network net("forecast", seed, {48}, 12, "past", "future");
  net.linear("fc1", 48, 64);
  net.relu("relu1");
  net.linear("fc2", 64, 64);
  net.relu("relu2");
  net.linear("fc3", 64, 12);
  return net.finish();
}

}  // namespace

std::vector<std::string> example_names() { return {"lenet", "mlp", "resnet18", "vit-small", "series", "forecast"}; }

Result<std::string> example_onnx(const std::string& name, std::uint64_t seed) {
  if (name == "lenet") return lenet(seed);
  if (name == "mlp") return mlp(seed);
  if (name == "resnet18") return resnet18_onnx(seed);
  if (name == "vit-small") return vit_small_onnx(seed);
  if (name == "series") return series(seed);
  if (name == "forecast") return forecast(seed);
  return invalid("There is no example \"", name, "\"; there are lenet, mlp, resnet18, vit-small, series and forecast.");
}

Status write_example_onnx(const std::string& name, const std::filesystem::path& path, std::uint64_t seed) {
  GRAFT_TRY_ASSIGN(const std::string bytes, example_onnx(name, seed));
  return os::atomic_write_file(os::system_files(), path.string(), bytes);
}

}  // namespace graft::convert
