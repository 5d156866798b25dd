// load_model() on anything. The input is the file's root; room for weights is added behind it, and where the input is
// long enough its header and checksum are made right as well, or no change would ever get past them.
#include <cstdint>
#include <vector>

#include "runtime/model/model.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"

namespace {

using namespace graft::fuzz;

void load(std::span<const std::byte> file) {
  const auto model = graft::load_model(file, "m", {.check = graft::WeightCheck::at_once});
  if (model.ok()) {
    check(graft::validate(*model).ok());
    follow_model_far(*model);
  } else {
    const auto code = model.status().code();
    check(code == graft::Code::corrupt || code == graft::Code::unsupported);
    check_refusal(model.status());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto bytes = std::as_bytes(std::span(data, size));
  load(std::vector<std::byte>(bytes.begin(), bytes.end()));
  if (is_model_root(input)) load(model_of_root(input));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_model, data, size, max_size, seed);
}
