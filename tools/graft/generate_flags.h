// What `graft generate` and `graft chat` share: the model, the conversation around it, how text is chosen.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/session/batch_generator.h"
#include "runtime/session/text_model.h"
#include "tools/bench/device.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "tools/graft/adapted_model.h"

namespace graft::cli {

struct GenerateFlags {
  DeviceFlags flags;
  std::string path;
  AdapterFlags adapter;
  bool check = false;
  std::string chat;  ///< a format by name
  std::string system, tools, variables;
  std::string budget;
  std::string precision = "f32";
  std::string cache = "f32";
  bool json = false;
  std::string grammar, json_schema;
  std::vector<std::string> logit_bias;
  std::optional<std::uint32_t> logprobs;
  GeneratorOptions generator;
  GenerateOptions generate;  ///< but for what generate_options() reads
};

/// The model's path and adapters.
void add_model_flags(CLI::App& app, GenerateFlags& options);
/// --system, --tools and --variables; gives back the first.
CLI::Option* add_conversation_flags(CLI::App& app, GenerateFlags& options);
/// How text is chosen, lengths, budget, device.
void add_generator_flags(CLI::App& app, GenerateFlags& options);
/// Once the arguments are read: a usage error for what has no effect.
void refuse_idle_sampling(const CLI::App& app, const GenerateFlags& options);

Result<std::unique_ptr<Generator>> open_generator(const GenerateFlags& options, const Model& model, OpenDevice& device);
/// The same for several texts at once.
Result<std::unique_ptr<BatchGenerator>> open_batch_generator(const GenerateFlags& options, const Model& model,
                                                             OpenDevice& device);

/// How a text is made. A failure names the flag.
Result<GenerateOptions> generate_options(const GenerateFlags& options);

/// Says on stderr why nothing comes yet, where a first text takes its time: drivers compile kernels at their first use.
class FirstUse {
 public:
  explicit FirstUse(RunControl& control);
  ~FirstUse() { control_.set_progress({}); }

 private:
  RunControl& control_;
  WaitNotice notice_;
};

/// What stands around the messages.
Result<text::ChatRequest> request_of(const GenerateFlags& options, std::string messages);

}  // namespace graft::cli
