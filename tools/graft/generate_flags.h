// What `graft generate` and `graft chat` share: the model, the conversation around it, how text is chosen.
#pragma once

#include <memory>
#include <string>

#include "runtime/session/generator.h"
#include "runtime/session/text_model.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/device.h"
#include "tools/graft/options.h"

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
  bool json = false;
  GeneratorOptions generator;
  GenerateOptions generate;
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

/// What stands around the messages.
Result<text::ChatRequest> request_of(const GenerateFlags& options, std::string messages);

}  // namespace graft::cli
