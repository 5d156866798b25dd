// Data sets of text for a language model. The input is a line with the kind and options ("jsonl?chat=chatml"), then the
// file.
#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/data/loader.h"
#include "runtime/language/text_spec.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/support/letter_model.h"
#include "tests/support/files/temporary_folder.h"

using namespace graft::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const graft::test::TemporaryFolder folder;
  static const graft::Model model = graft::test::letter_model();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\n'), size);
  const std::string_view line = input.substr(0, end);
  // Options that name other files of this machine are left out.
  if (line.find('/') != std::string_view::npos) return 0;
  const std::size_t mark = std::min(line.find('?'), end);
  const std::string path = folder.write("text", input.substr(std::min(end + 1, size)));
  const std::string spec = std::string(line.substr(0, mark)) + ":" + path + std::string(line.substr(mark));
  if (!graft::is_text_spec(spec)) return 0;
  const auto source = graft::open_text_spec(spec, model, {.length = 16, .sequence_starts = input.size() % 2 == 0});
  if (!source.ok()) {
    check_refusal(source.status());
    return 0;
  }
  const auto loader = graft::data::Loader::create(**source, {.batch = 2, .epochs = 1, .prefetch = 0});
  if (!loader.ok()) {
    check_refusal(loader.status());
    return 0;
  }
  for (int i = 0; i < 20; ++i) {
    const auto batch = (*loader)->next();
    check(batch.ok());
    if (*batch == nullptr) break;
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_lines, data, size, max_size, seed);
}
