// TensorBoard's event files: scalars of steps and evaluations, histograms of parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/common/status.h"

namespace graft::cli {

/// A file of records, each whole on storage before the next begins. A run that goes on writes another file into the
/// folder, which tells readers that later steps of the one before come again. Failures of writes do not end training:
/// they are told once.
class TensorBoard {
 public:
  static Result<std::unique_ptr<TensorBoard>> open(const std::string& folder, std::uint64_t resumed_step);
  ~TensorBoard();

  using Scalars = std::vector<std::pair<std::string, double>>;
  /// Of a step that was taken, the `step`-th: "loss" and others.
  void step(std::uint64_t step, const Scalars& scalars);
  /// Numbers of a held-out evaluation, by name.
  void held_out(std::uint64_t step, const nlohmann::ordered_json& row);
  /// Takes a parameter's numbers.
  using Add = std::function<void(std::string_view name, std::span<const float> values)>;
  /// Histograms of all parameters, which `each` gives one after another.
  Status epoch(std::uint64_t step, const std::function<Status(const Add& add)>& each);

 private:
  void write(const std::string& event);

  std::FILE* file_ = nullptr;
  std::string path_;
};

/// CRC-32C (Castagnoli), as records of TensorFlow have it after masked_crc().
std::uint32_t crc32c(std::span<const std::byte> bytes);
std::uint32_t masked_crc(std::span<const std::byte> bytes);

}  // namespace graft::cli
