// How fast a language model reads, writes and learns on a device, and what memory that takes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/plan/plan.h"
#include "tools/common/command.h"
#include "tools/common/stopwatch.h"

namespace graft::cli {

struct LanguageBenchFlags {
  std::int64_t seq = 128;
  std::int64_t batch = 1;
  std::uint32_t decode = 32;
  std::string lora = "r=8,alpha=16,targets=q_proj|k_proj|v_proj|o_proj";
  std::string budget;
  bool no_steps = false;
  std::string precision = "f32";  ///< of other models too
};
void add_language_bench_flags(CLI::App& app, LanguageBenchFlags& flags);

/// What a training step consists of on the device.
struct StepCounts {
  std::size_t dispatches = 0;
  std::size_t barriers = 0;
  std::size_t submissions = 0;  ///< of the last step
};

struct LanguageRow {
  std::string name;
  std::uint64_t tokens = 0;  ///< of one run
  double best = 0;           ///< seconds of one run
  double median = 0;
  std::uint64_t device_bytes = 0;  ///< planned and allocated, weights included
  StepCounts counts = {};          ///< of a training step
  double rate() const { return median > 0 ? static_cast<double>(tokens) / median : 0; }
};

/// "prefill", "decode" and, but with no_steps, "lora step" and, where no weight is quantized, "full step". The first
/// run of each compiles and does not count. Tokens are random: speed does not depend on them.
Result<std::vector<LanguageRow>> bench_language(gpu::Device& device, const Model& model,
                                                const LanguageBenchFlags& flags, int repeat, Clock clock);

void print_language_rows(const std::vector<LanguageRow>& rows);
nlohmann::ordered_json language_rows_json(const std::vector<LanguageRow>& rows);

}  // namespace graft::cli
