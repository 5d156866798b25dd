// What `graft generate` and `graft chat` share: the model, the conversation around it, how text is chosen.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "tools/graft/shared/put_adapters.h"

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
  std::uint32_t context = 0;        ///< 0: the model's
  std::uint32_t prompt_lookup = 0;  ///< 0: none
  std::uint32_t sequences = 0;      ///< texts at once; 0: one after the other
  std::uint32_t max_tokens = 256;
  double temperature = 0;
  std::uint32_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
};

/// The model's path and adapters.
void add_model_flags(CLI::App& app, GenerateFlags& options);
/// --system, --tools and --variables; gives back the first.
CLI::Option* add_conversation_flags(CLI::App& app, GenerateFlags& options);
/// How text is chosen, lengths, budget, device.
void add_generator_flags(CLI::App& app, GenerateFlags& options);
/// Once the arguments are read: a usage error for what has no effect.
void refuse_idle_sampling(const CLI::App& app, const GenerateFlags& options);

/// A generator with what is asked of it time and again.
struct OpenGenerator {
  Owned<graft_generator> generator;
  Owned<graft_tokenizer> tokenizer;  ///< null where the model has none
  graft_generator_info info = {};
  std::uint64_t device_bytes = 0;
};
/// Says on stderr how many kernels are made ready, where that takes long, and what is streamed.
Result<OpenGenerator> open_generator(const GenerateFlags& options, graft_context* context, graft_model* model);

/// How a text is made: the flags as graft_generate_options refer to them. Outlives these.
class TextWishes {
 public:
  /// A failure names the flag.
  Status read(const GenerateFlags& options);
  /// `print`: pieces of text go to stdout as they come.
  graft_generate_options options(bool print) const;

 private:
  const GenerateFlags* flags_ = nullptr;
  std::vector<const char*> stop_;
  std::vector<graft_logit_bias> bias_;
  std::string grammar_, json_schema_;
};

/// "end_of_text"
const char* stop_reason_name(graft_stop_reason reason);

/// Says on stderr why nothing comes yet, where a first text takes its time: drivers compile kernels at their first use.
class FirstUse {
 public:
  explicit FirstUse(graft_context* context);
  ~FirstUse() { graft_set_progress(context_, nullptr, nullptr); }
  FirstUse(const FirstUse&) = delete;
  FirstUse& operator=(const FirstUse&) = delete;

 private:
  graft_context* context_;
  WaitNotice notice_;
};

/// What stands around the messages of a conversation, which are JSON.
class ChatWishes {
 public:
  Status read(const GenerateFlags& options);
  /// `messages` outlives what is given back, as this does.
  graft_chat_options options(const std::string& messages) const;

 private:
  std::string format_, tools_, variables_;
};

/// The prompt that a conversation becomes: `said`, or the messages of `options`, which ChatWishes gave.
Result<std::vector<std::int32_t>> chat_tokens(graft_context* context, graft_tokenizer* tokenizer,
                                              const graft_chat_options& options,
                                              std::span<const graft_chat_message> said = {});

}  // namespace graft::cli
