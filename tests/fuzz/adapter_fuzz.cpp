// Adapters of other programs: a GGUF file, or the two files of a PEFT folder with a zero byte between them.
#include <algorithm>
#include <cstdint>
#include <string_view>

#include "runtime/lora/adapter.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/support/letter_model.h"
#include "tools/convert/adapter/adapter_files.h"

namespace {

const graft::Model& base() {
  static const graft::Model model = [] {
    graft::Model made = graft::test::letter_model();
    made.metadata[std::string(graft::kMetaFamily)] = "llama";
    made.metadata[std::string(graft::kMetaHeads)] = "4,2";
    made.metadata[std::string(graft::kMetaPairs)] = "halves";
    return made;
  }();
  return model;
}

graft::Result<graft::Model> read(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("GGUF")) return graft::convert::read_gguf_adapter(bytes, base());
  const std::size_t end = std::min(text.find('\0'), text.size());
  return graft::convert::read_peft(text.substr(0, end), bytes.subspan(std::min(end + 1, bytes.size())), base());
}

std::string mutate_adapter(std::string_view input, graft::fuzz::Random& random) {
  if (input.starts_with("GGUF")) return graft::fuzz::mutate_gguf(input, random);
  const std::size_t end = std::min(input.find('\0'), input.size());
  std::string config(input.substr(0, end)), tensors(input.substr(std::min(end + 1, input.size())));
  std::string& part = random.one_in(2) ? config : tensors;
  part = &part == &config ? graft::fuzz::mutate_json(part, random) : graft::fuzz::mutate_safetensors(part, random);
  return part.empty() ? std::string() : config + '\0' + tensors;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto adapter = read(std::as_bytes(std::span(data, size)));
  if (!adapter.ok()) return 0;
  // What is read must be an adapter that can be saved; whether it fits the model is asked when it is put on.
  if (!graft::validate(*adapter).ok()) __builtin_trap();
  (void)graft::with_adapter(base(), *adapter);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return graft::fuzz::mutate_with(mutate_adapter, data, size, max_size, seed);
}
