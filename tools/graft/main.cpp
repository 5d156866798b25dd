// graft: converts, plans, runs, trains and inspects.
#include <memory>
#include <string>

#include "tools/common/manual.h"
#include "tools/common/program.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/config_file.h"

namespace {

graft::cli::Action add_completion(CLI::App& app);
graft::cli::Action add_manual(CLI::App& app);

const graft::cli::Command kCommands[] = {
    {"devices", "List Vulkan devices, their features and limits, and which kernels pass a self-test",
     graft::cli::add_devices},
    {"convert",
     "Convert an ONNX, TFLite or GGUF file or a Hugging Face folder into a .graft file",
     graft::cli::add_convert,
     {{"--output", "--example", "--bind", "--quantize", "--constant", "--open", "--json"},
      {"graft convert --example lenet -o lenet.onnx", "graft convert lenet.onnx -o lenet.graft"}}},
    {"info", "Summarize a model: layers, shapes, parameters, bytes, FLOPs", graft::cli::add_info},
    {"plan",
     "Show memory and cost before anything runs; needs no GPU",
     graft::cli::add_plan,
     {{"--mode", "--bind", "--batch", "--budget", "--optimizer", "--lora", "--caps", "--json", "--svg", "--html"},
      {"graft plan lenet.graft --mode train --bind batch=64 --budget 16MiB"}}},
    {"run", "Run a model on .npy inputs and write its outputs", graft::cli::add_run},
    {"grad", "Compute gradients of outputs with respect to inputs, parameters or values", graft::cli::add_grad},
    {"train",
     "Fine-tune a model",
     graft::cli::add_train,
     {{"--data", "--eval", "--epochs", "--batch", "--lr", "--optimizer", "--loss", "--lora", "--budget", "--checkpoint",
       "--resume", "--output"},
      {"graft train lenet.graft --data \"digits:?count=6000\" --lr 2e-3 --checkpoint run -o digits.graft"}}},
    {"eval",
     "Measure loss and accuracy on a data set",
     graft::cli::add_eval,
     {{"--data", "--batch", "--metric", "--confusion", "--loss", "--adapter", "--json"},
      {"graft eval digits.graft --data \"digits:?split=test\" --metric f1"}}},
    {"compare", "Say what changed from one model to another, sample by sample", graft::cli::add_compare},
    {"chat",
     "Talk with a language model",
     graft::cli::add_chat,
     {{"--system", "--max-tokens", "--temperature", "--top-p", "--seed", "--adapter", "--messages"},
      {"graft chat model.graft --temperature 0.7"}}},
    {"generate",
     "Generate text from a language model",
     graft::cli::add_generate,
     {{"--prompt", "--chat", "--max-tokens", "--temperature", "--top-p", "--seed", "--stop", "--adapter", "--json"},
      {"graft generate model.graft --prompt Hello --max-tokens 20"}}},
    {"embed", "Turn texts into vectors", graft::cli::add_embed},
    {"tokenize", "Show text as a language model's tokens, count them, or make text of them", graft::cli::add_tokenize},
    {"merge", "Add an adapter's product to the weights of its model", graft::cli::add_merge},
    {"resize", "Give a classifier another number of classes: rows for new ones, or a head that begins anew",
     graft::cli::add_resize},
    {"export", "Write a model or an adapter as a Hugging Face folder, a GGUF, safetensors, ONNX or TFLite file",
     graft::cli::add_export},
    {"imatrix", "Find out over a text what matters in a language model's matrices, to quantize it by",
     graft::cli::add_imatrix},
    {"checkpoint", "List, verify, prune and restore checkpoints of training", graft::cli::add_checkpoint},
    {"memory", "Keep examples that a model learns from for years: add, list, erase", graft::cli::add_memory},
    {"watch",
     "Show a run in a browser while it trains: curves, evaluations, samples, snapshots",
     graft::cli::add_watch,
     {{}, {"graft watch m.jsonl run"}}},
    {"report",
     "Write the page of graft watch to a file",
     graft::cli::add_report,
     {{}, {"graft report m.jsonl run -o run.html"}}},
    {"delta", "Make, average and apply what training changed, for devices that come and go", graft::cli::add_delta},
    {"simulate",
     "Federated training of many clients on this machine",
     graft::cli::add_simulate,
     {{"--data", "--eval", "--clients", "--rounds", "--per-round", "--local-epochs", "--split", "--lr", "--batch",
       "--output"},
      {"graft simulate lenet.graft --data \"digits:?count=6000\" --clients 10 --rounds 5"}}},
    {"recipes",
     "List tasks from end to end, and write one as a script with its configuration",
     graft::cli::add_recipes,
     {{}, {"graft recipes get federated-digits federated && sh federated/run.sh"}}},
    {"verify", "Check every op of a model on this GPU against a double-precision reference", graft::cli::add_verify},
    // A separate program, graft-bench: it looks inside the library, and this one does not.
    {"bench", "Measure the device, kernels or a model: GFLOP/s, GB/s, tokens/s", nullptr},
    {"completion",
     "Print a script that completes commands and flags in bash, zsh or fish",
     add_completion,
     {{}, {"source <(graft completion bash)"}}},
    {"manual", "Print a page for man, of graft or of one command", add_manual, {{}, {"graft manual train | man -l -"}}},
};

graft::cli::Status print(const graft::cli::Result<std::string>& text) {
  if (!text.ok()) return text.status();
  graft::cli::write_stdout(*text);
  return {};
}

graft::cli::Action add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash, zsh or fish")->required();
  return [shell] { return print(graft::cli::completion_script(*shell, kCommands)); };
}

graft::cli::Action add_manual(CLI::App& app) {
  auto command = std::make_shared<std::string>();
  app.add_option("COMMAND", *command, "A command of graft; without one, the page of graft itself");
  return [command] { return print(graft::cli::manual_page(*command, kCommands)); };
}

}  // namespace

int main(int argc, char** argv) { return graft::cli::run_program(argc, argv, kCommands, graft::cli::with_config); }
