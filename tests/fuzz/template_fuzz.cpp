// Chat templates, which come with models. The input is the template; what follows a zero byte is the JSON of
// "messages".
#include <algorithm>
#include <cstdint>

#include "runtime/text/template/template.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"

using namespace graft::fuzz;
using graft::text::jinja::Origin;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = std::min(input.find('\0'), size);
  const auto program = graft::text::jinja::Template::parse(input.substr(0, end));
  if (!program.ok()) {
    check_refusal(program.status());
    return 0;
  }
  const std::string_view given = end < size ? input.substr(end + 1) : R"([{"role": "user", "content": "hi"},
    {"role": "assistant", "content": "<think>x</think> y", "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]},
    {"role": "tool", "content": "z"}])";
  const graft::text::jinja::TemplateInput inputs[] = {
      {"messages", std::string(given), Origin::conversation},
      {"tools", R"([{"function": {"name": "f", "parameters": {}}}])", Origin::data},
      {"bos_token", "\"<s>\"", Origin::model},
      {"add_generation_prompt", "true", Origin::data}};
  const auto text = program->render(inputs, {.steps = 20000, .memory = 4 << 20, .output = 1 << 18});
  if (!text.ok()) {
    check_refusal(text.status());
    return 0;
  }
  check(text->text.bytes.size() == text->text.marks.size());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_lines, data, size, max_size, seed);
}
