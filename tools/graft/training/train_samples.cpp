#include "tools/graft/training/train_samples.h"

#include "graft/steps.h"
#include "tools/common/help.h"
#include "tools/common/numbers.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {

void add_sample_flags(CLI::App& app, SampleFlags& flags) {
  const HelpGroup group(app, "Evaluation");
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

Result<std::vector<std::string>> generate_samples(graft_context* context, graft_trainer* trainer,
                                                  const SampleFlags& flags) {
  graft_model* copy = nullptr;
  const graft_status copied = graft_trainer_copy(trainer, 0, &copy);
  const Owned<graft_model> now(copy);
  TRY(checked(copied, context));
  graft_generator* made = nullptr;
  const graft_status created = graft_generator_create(copy, nullptr, &made);
  const Owned<graft_generator> generator(made);
  TRY(checked(created, context));
  std::vector<std::string> texts;
  for (const std::string& prompt : flags.prompts) {
    auto options = sized<graft_generate_options>();
    options.max_tokens = flags.tokens;
    const char* text = "";
    std::size_t bytes = 0;
    TRY(checked(graft_generate(made, prompt.c_str(), &options, &text, &bytes), context));
    texts.emplace_back(text, bytes);
  }
  return texts;
}

}  // namespace graft::cli
