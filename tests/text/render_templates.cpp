// What template_parity.py drives: reads an object a line, {"template": ..., "inputs": {name: value, ...}}, and answers
// each with {"text": ...} or {"error": ...}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/text/template/template.h"

namespace {

using graft::text::jinja::Origin;
using Json = nlohmann::ordered_json;

Json rendered(const Json& asked) {
  const auto program = graft::text::jinja::Template::parse(asked["template"].get<std::string>());
  if (!program.ok()) return {{"error", program.status().message()}};
  std::vector<graft::text::jinja::TemplateInput> inputs;
  for (const auto& [name, value] : asked["inputs"].items()) {
    inputs.push_back({name, value.dump(), name == "messages" ? Origin::conversation : Origin::data});
  }
  const auto text = program->render(inputs);
  if (!text.ok()) return {{"error", text.status().message()}};
  return {{"text", text->text.bytes}, {"generation", text->generation}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << rendered(Json::parse(line)).dump() << '\n' << std::flush;
  return 0;
}
