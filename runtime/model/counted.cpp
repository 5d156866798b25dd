#include "runtime/model/counted.h"

#include <algorithm>
#include <charconv>

#include "platform/base/text.h"

namespace graft {
namespace {

const Output* find_output(const Graph& graph, std::string_view name) {
  const auto found = std::ranges::find(graph.outputs(), name, &Output::name);
  return found == graph.outputs().end() ? nullptr : &*found;
}

Result<CountedOutput> read_line(const Graph& graph, std::string_view line) {
  const std::size_t first = line.find('\t'), second = line.find('\t', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) {
    return corrupt("A line of \"", kMetaCounted, "\" is not of three parts.");
  }
  CountedOutput out{std::string(line.substr(0, first)), 0, std::string(line.substr(second + 1))};
  const std::string_view axis = line.substr(first + 1, second - first - 1);
  const auto [end, failure] = std::from_chars(axis.data(), axis.data() + axis.size(), out.axis);
  const Output *output = find_output(graph, out.name), *count = find_output(graph, out.count);
  if (failure != std::errc() || end != axis.data() + axis.size() || output == nullptr || count == nullptr ||
      out.axis >= graph.value(output->value).shape.rank()) {
    return corrupt("\"", kMetaCounted, "\" says that axis ", axis, " of \"", out.name, "\" is counted by \"", out.count,
                   "\", and there is none such.");
  }
  const Value& number = graph.value(count->value);
  if (number.dtype != DType::i32 || number.shape.rank() != 0) {
    return corrupt("\"", out.count, "\" is to count rows, and is ", dtype_name(number.dtype), number.shape.text(), ".");
  }
  return out;
}

}  // namespace

Result<std::vector<CountedOutput>> counted_outputs(const Model& model) {
  std::vector<CountedOutput> all;
  const auto found = model.metadata.find(kMetaCounted);
  if (found == model.metadata.end()) return all;
  std::string_view rest = found->second;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    GRAFT_TRY_ASSIGN(CountedOutput one, read_line(model.graph, rest.substr(0, end)));
    all.push_back(std::move(one));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return all;
}

std::string counted_text(std::span<const CountedOutput> outputs) {
  std::string text;
  for (const CountedOutput& one : outputs) text += cat(one.name, '\t', one.axis, '\t', one.count, '\n');
  return text;
}

}  // namespace graft
