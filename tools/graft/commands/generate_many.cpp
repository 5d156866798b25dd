#include "tools/graft/commands/generate_many.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/common/terminal.h"
#include "tools/graft/commands/generated_json.h"

namespace graft::cli {
namespace {

Result<Prompt> prompt_of_line(const std::string& line, std::size_t number, const std::string& path) {
  const auto parsed = nlohmann::json::parse(line, nullptr, false);
  const auto* prompt = &parsed;
  if (parsed.is_object() && parsed.contains("prompt")) prompt = &parsed["prompt"];
  if (prompt->is_string()) return Prompt{prompt->get<std::string>(), {}};
  const auto is_id = [](const auto& one) {
    return one.is_number_integer() && one >= 0 && one <= std::numeric_limits<std::int32_t>::max();
  };
  if (prompt->is_array() && !prompt->empty() && std::all_of(prompt->begin(), prompt->end(), is_id)) {
    return Prompt{{}, prompt->get<std::vector<std::int32_t>>()};
  }
  return invalid(
      "Line ", number, " of \"", path,
      "\" is neither a JSON string, nor a list of token ids, nor an object with one of them as its \"prompt\".");
}

using Outcomes = std::map<std::size_t, Result<Written>>;  ///< by prompt

/// Prints those that are ready, in order, from number `next` on; the rest waits.
Status print_ready(const Outcomes& done, std::size_t& next, const std::vector<Prompt>& prompts, bool echo) {
  for (; done.contains(next); ++next) {
    const Result<Written>& one = done.at(next);
    if (!one.ok()) {
      to_stderr("Prompt %zu: %s\n", next + 1, one.status().message().c_str());
      continue;
    }
    const std::string text = (echo ? prompts[next].text : std::string()) + one->text + "\n";
    if (!write_stdout(text) || std::fflush(stdout) != 0) {
      return error(Code::io_error, "What was generated could not be written to stdout.");
    }
  }
  return ok_status();
}

Result<nlohmann::ordered_json> summary(const Outcomes& done, const std::vector<Prompt>& prompts,
                                       const GenerateFlags& options, graft_context* context,
                                       const OpenGenerator& generator, double seconds) {
  nlohmann::ordered_json all;
  std::size_t tokens = 0;
  for (const auto& [number, one] : done) {
    if (!one.ok()) {
      all["texts"].push_back({{"error", one.status().message()}});
      continue;
    }
    tokens += one->tokens.size();
    auto record = generated_json(*one, prompts[number].ids, generator.tokenizer.get(), options);
    record["cached_prompt_tokens"] = one->numbers.cached_tokens;
    all["texts"].push_back(std::move(record));
  }
  all["sequences"] = generator.info.sequences;
  all["seconds"] = seconds;
  all["tokens_per_second"] = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  all["context"] = generator.info.context;
  all["device_bytes"] = generator.device_bytes;
  int agree = 0;
  TRY(checked(graft_generator_rows_agree(generator.generator.get(), &agree), context));
  all["bits_of_one"] = agree != 0;
  return all;
}

}  // namespace

Result<std::vector<Prompt>> read_prompts(const std::string& path) {
  TRY_ASSIGN(const std::string all, text_of_file(path));
  const bool json = path.ends_with(".jsonl");
  std::vector<Prompt> out;
  std::size_t number = 0;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (!json) {
      out.push_back({std::move(line), {}});
      continue;
    }
    TRY_ASSIGN(Prompt prompt, prompt_of_line(line, number, path));
    out.push_back(std::move(prompt));
  }
  if (out.empty()) return invalid("The file of prompts \"", path, "\" holds none.");
  return out;
}

Status generate_many(const GenerateFlags& options, graft_context* context, const OpenGenerator& opened,
                     const std::vector<Prompt>& prompts, const TextWishes& wanted, bool echo) {
  graft_generator* const generator = opened.generator.get();
  const auto start = std::chrono::steady_clock::now();
  std::map<std::uint64_t, std::size_t> numbers;
  const graft_generate_options how = wanted.options(false);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<std::int32_t>& ids = prompts[i].ids;
    std::uint64_t id = 0;
    TRY(checked(graft_generator_submit_tokens(generator, ids.data(), ids.size(), &how, &id), context)
            .with_context(cat("In prompt ", i + 1)));
    numbers[id] = i;
  }
  Outcomes done;
  std::size_t next = 0;
  for (std::size_t left = prompts.size(); left != 0;) {
    TRY(checked(graft_generator_step(generator, &left), context));
    for (;;) {
      std::uint64_t id = 0;
      graft_generated text = {};
      text.struct_size = sizeof text;
      const graft_status status = graft_generator_finished(generator, &id, &text);
      if (id == 0) {
        TRY(checked(status, context));
        break;
      }
      done.emplace(numbers.at(id), status == GRAFT_OK ? Result<Written>(Written(text)) : checked(status, context));
    }
    if (!options.json) TRY(print_ready(done, next, prompts, echo));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::size_t tokens = 0;
  Status failed;
  for (const auto& [number, one] : done) {
    if (one.ok()) {
      tokens += one->tokens.size();
    } else if (failed.ok()) {
      failed = error(one.status().code(), "Prompt ", number + 1, " has no text: ", one.status().message());
    }
  }
  if (options.json) {
    TRY_ASSIGN(const auto all, summary(done, prompts, options, context, opened, seconds));
    to_stdout("%s\n", all.dump(2).c_str());
  } else {
    to_stderr("%zu texts, %zu tokens in %.2f s\n", done.size(), tokens, seconds);
  }
  return failed;
}

}  // namespace graft::cli
