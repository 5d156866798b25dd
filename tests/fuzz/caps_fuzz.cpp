// What --caps reads: capabilities of a device as JSON. What is read is written again, and a small language model is
// planned for such a device.
#include <cstdint>

#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/support/letter_model.h"
#include "tests/support/files/temporary_folder.h"
#include "tools/bench/caps_json.h"

using namespace graft::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const graft::test::TemporaryFolder folder;
  const std::string path = folder.write("caps.json", {reinterpret_cast<const char*>(data), size});
  graft::gpu::Target target;
  if (const graft::Status read = graft::cli::read_caps_file(path, target.caps); !read.ok()) {
    check_refusal(read);
    return 0;
  }
  const std::string text =
      graft::cli::caps_json(target.caps).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  graft::gpu::Caps again;
  check(target.caps.heaps.empty() || graft::cli::read_caps_file(folder.write("again.json", text), again).ok());
  static const graft::Model model = graft::test::letter_model({.layers = 1, .tokenizer = false});
  follow_model(model, target);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_json, data, size, max_size, seed);
}
