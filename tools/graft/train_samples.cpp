#include "tools/graft/train_samples.h"
#include "tools/common/numbers.h"

#include <algorithm>

#include "runtime/lora/adapter.h"
#include "runtime/session/generator.h"
#include "runtime/session/training.h"

namespace graft::cli {

void add_sample_flags(CLI::App& app, SampleFlags& flags) {
  auto* prompt =
      app.add_option("--sample", flags.prompts,
                     "A prompt that a language model continues before training and after each epoch; repeatable. "
                     "Needs device memory for a second copy of the model");
  app.add_option("--sample-every", flags.every, "Steps between samples, instead of epochs")
      ->check(whole(1))
      ->needs(prompt);
  app.add_option("--sample-tokens", flags.tokens, "Tokens of a sample at most (64)")
      ->check(whole(1, 1 << 20))
      ->needs(prompt);
}

Result<std::vector<std::string>> generate_samples(gpu::Device& device, const Model& model, train::Trainer& trainer,
                                                  const SampleFlags& flags) {
  TRY_ASSIGN(Model now, borrow_model(model));
  TRY(copy_to_model(trainer, now));
  TRY_ASSIGN(const auto generator, Generator::create(device, now));
  std::vector<std::string> texts;
  for (const std::string& prompt : flags.prompts) {
    TRY_ASSIGN(Generated made, generator->generate(prompt, {.max_tokens = flags.tokens}));
    texts.push_back(std::move(made.text));
  }
  return texts;
}

}  // namespace graft::cli
