#include "runtime/train/step/layer_rates.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace graft::train {

std::string_view layer_of(std::string_view parameter) {
  constexpr std::string_view kSeparators = "./";
  std::size_t last = parameter.size();
  for (std::size_t at = 0; at < parameter.size();) {
    const std::size_t end = std::min(parameter.find_first_of(kSeparators, at), parameter.size());
    const std::string_view part = parameter.substr(at, end - at);
    const bool number = !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    if (number && end < parameter.size()) return parameter.substr(0, end);
    if (end < parameter.size()) last = end;
    at = end + 1;
  }
  return parameter.substr(0, last);
}

std::map<std::string, double, std::less<>> layer_rates(const Graph& forward, double decay) {
  std::map<std::string_view, std::size_t> numbers;  // by layer, in the order of use
  std::vector<std::pair<std::string_view, std::size_t>> parameters;
  for (const Node& node : forward.nodes()) {
    for (const ValueId input : node.inputs) {
      if (!input.valid() || forward.value(input).kind != ValueKind::parameter) continue;
      const std::string_view name = forward.value(input).name;
      parameters.emplace_back(name, numbers.emplace(layer_of(name), numbers.size()).first->second);
    }
  }
  std::map<std::string, double, std::less<>> rates;
  for (const auto& [name, number] : parameters) {
    rates.emplace(name, std::pow(decay, static_cast<double>(numbers.size() - 1 - number)));
  }
  return rates;
}

}  // namespace graft::train
