// load_model() on anything. The input is the file's root; room for weights is added behind it, and where the input is
// long enough its header and checksum are made right as well, or no change would ever get past them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/model/format.h"
#include "runtime/model/model.h"

namespace {

using graft::model_format::kHeaderBytes;
using graft::model_format::kSegmentAlignment;

void check(bool condition) {
  if (!condition) std::abort();
}

void load(const std::vector<std::byte>& file) {
  const auto model = graft::load_model(file, "m", {.check = graft::WeightCheck::at_once});
  if (model.ok()) {
    check(graft::validate(*model).ok());
  } else {
    const auto code = model.status().code();
    check(code == graft::Code::corrupt || code == graft::Code::unsupported);
    check(model.status().message().ends_with('.'));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  load(file);
  if (size <= kHeaderBytes || size > kSegmentAlignment) return 0;
  constexpr std::size_t kWeights = 1024;
  file.resize(kSegmentAlignment + kWeights);
  const std::uint32_t root_table = std::max(8u, static_cast<std::uint32_t>(data[0] | data[1] << 8));
  std::memcpy(file.data(), &root_table, 4);
  std::memcpy(file.data() + 4, "GRFT", 4);
  std::memset(file.data() + 8, 0, kHeaderBytes - 8);
  file[8] = std::byte{graft::model_format::kVersion};
  graft::model_format::seal(std::span(file).first(size), file.size());
  load(file);
  return 0;
}
