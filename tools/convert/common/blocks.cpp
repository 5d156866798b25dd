#include "tools/convert/common/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "runtime/core/narrow.h"
#include "runtime/core/quantized.h"

namespace graft::convert {
namespace {

double root_share(double errors, double squares) { return squares > 0 ? std::sqrt(errors / squares) : 0; }

/// Fills error and weighted.
void compare_blocks(std::span<const float> plain, std::span<const float> weights, std::span<const std::byte> blocks,
                    BlockError& out) {
  const DTypeBlock block = dtype_block(out.dtype);
  std::vector<float> back(block.elements);
  double errors = 0, squares = 0, weighted_errors = 0, weighted_squares = 0;
  for (std::size_t i = 0; i < plain.size(); i += block.elements) {
    dequantize(out.dtype, blocks.subspan(i / block.elements * block.bytes, block.bytes), back);
    for (std::size_t k = 0; k < block.elements; ++k) {
      const double weight = weights.empty() ? 0 : weights[(i + k) % weights.size()];
      const double number = plain[i + k], error = number - back[k];
      errors += error * error;
      squares += number * number;
      weighted_errors += weight * error * error;
      weighted_squares += weight * number * number;
    }
  }
  out.error = root_share(errors, squares);
  if (!weights.empty()) out.weighted = root_share(weighted_errors, weighted_squares);
}

std::string percent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f%%", 100 * share);
  return text.data();
}

}  // namespace

Result<std::span<const float>> importance_of(const Importance& importance, const std::string& name,
                                             std::size_t columns) {
  const auto found = importance.find(name);
  if (found == importance.end()) return std::span<const float>();
  if (found->second.size() == columns) return std::span<const float>(found->second);
  return invalid("The importance matrix has ", found->second.size(), " numbers for \"", name, "\", whose rows have ",
                 columns, ": it is another model's.");
}

Result<HostBuffer> to_blocks(DType dtype, std::span<const float> numbers, const std::string& name,
                             const BlockScales& scales, BlockError& error) {
  const auto strange = std::find_if(numbers.begin(), numbers.end(), [](float x) { return !std::isfinite(x); });
  if (strange != numbers.end()) return invalid("The tensor \"", name, "\" holds ", *strange, ", which no block can.");
  GRAFT_TRY_ASSIGN(HostBuffer blocks, HostBuffer::create(storage_bytes(dtype, numbers.size()), name));
  if (!scales.searched) {
    quantize(dtype, numbers, blocks.bytes());
  } else if (!scales.importance.empty()) {
    quantize(dtype, numbers, scales.importance, blocks.bytes());
  } else {
    quantize(dtype, numbers, std::vector<float>(dtype_block(dtype).elements, 1.0f), blocks.bytes());
  }
  GRAFT_TRY(check_blocks(name, numbers, dtype, blocks.bytes()));
  error = {name, dtype};
  compare_blocks(numbers, scales.importance, blocks.bytes(), error);
  return blocks;
}

std::string errors_note(std::span<const BlockError> blocks) {
  if (blocks.empty()) return {};
  double sum = 0, weighted = 0;
  std::size_t weighed = 0;
  for (const BlockError& block : blocks) {
    sum += block.error;
    weighted += block.weighted.value_or(0);
    weighed += block.weighted.has_value();
  }
  const auto worst = std::ranges::max_element(blocks, {}, &BlockError::error);
  std::string out = cat("Blocks differ from the numbers by ", percent(sum / static_cast<double>(blocks.size())),
                        " in the mean, ", percent(worst->error), " at most (", worst->name, ")");
  if (weighed != 0)
    out += cat("; as the importance matrix weighs it, by ", percent(weighted / static_cast<double>(weighed)),
               " in the mean");
  return out + ".";
}

std::string errors_table(std::span<const BlockError> blocks) {
  std::size_t width = 6;
  for (const BlockError& block : blocks) width = std::max(width, block.name.size());
  const auto line = [&](std::string name, std::string_view dtype, const std::string& error,
                        const std::string& weighted) {
    name.resize(width, ' ');
    std::array<char, 96> rest{};
    std::snprintf(rest.data(), rest.size(), "  %-6.*s %8s %9s", static_cast<int>(dtype.size()), dtype.data(),
                  error.c_str(), weighted.c_str());
    std::string out = name + rest.data();
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  };
  const bool weighed = std::ranges::any_of(blocks, [](const BlockError& block) { return block.weighted.has_value(); });
  std::string out = line("matrix", "type", "error", weighed ? "weighted" : "");
  for (const BlockError& block : blocks) {
    out +=
        line(block.name, dtype_name(block.dtype), percent(block.error), block.weighted ? percent(*block.weighted) : "");
  }
  return out;
}

OrderedJson errors_json(std::span<const BlockError> blocks) {
  OrderedJson out = OrderedJson::array();
  for (const BlockError& block : blocks) {
    OrderedJson& one = out.emplace_back();
    one = {{"name", block.name}, {"dtype", dtype_name(block.dtype)}, {"error", block.error}};
    if (block.weighted) one["weighted_error"] = *block.weighted;
  }
  return out;
}

std::string importance_note(std::size_t matrices) {
  if (matrices == 0)
    return "No matrix became blocks by the importance matrix: it has none of those that were quantized.";
  return cat("The importance matrix weighs the errors of ", matrices, matrices == 1 ? " matrix." : " matrices.");
}

}  // namespace graft::convert
