#include "tools/graft/commands/generated_json.h"

namespace graft::cli {
namespace {

nlohmann::ordered_json token_json(std::int32_t token, float log_probability, graft_tokenizer* tokenizer) {
  nlohmann::ordered_json out = {{"token", token}};
  if (tokenizer != nullptr && static_cast<std::size_t>(token) < graft_tokenizer_size(tokenizer)) {
    graft_decode_options decode = {};
    decode.struct_size = sizeof decode;
    decode.spell_special = 1;
    decode.continued = 1;
    const char* text = nullptr;
    std::size_t bytes = 0;
    if (graft_tokenizer_decode(tokenizer, &token, 1, &decode, &text, &bytes) == GRAFT_OK)
      out["text"] = std::string(text, bytes);
  }
  out["logprob"] = log_probability;
  return out;
}

/// Of every token, with the most probable ones in its place.
nlohmann::ordered_json log_probabilities_json(const Written& result, graft_tokenizer* tokenizer) {
  auto out = nlohmann::ordered_json::array();
  const std::size_t beside = result.tokens.empty() ? 0 : result.most_probable.size() / result.tokens.size();
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    auto token = token_json(result.tokens[i], result.log_probabilities[i], tokenizer);
    for (const graft_token_probability& other : std::span(result.most_probable).subspan(i * beside, beside)) {
      token["top"].push_back(token_json(other.token, other.log_probability, tokenizer));
    }
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

Written::Written(const graft_generated& from)
    : text(from.text, from.bytes), tokens(from.tokens, from.tokens + from.token_count), numbers(from) {
  if (from.log_probabilities != nullptr) {
    log_probabilities.assign(from.log_probabilities, from.log_probabilities + from.token_count);
    most_probable.assign(from.most_probable, from.most_probable + from.token_count * from.most_probable_count);
  }
  numbers.text = nullptr;
  numbers.tokens = nullptr;
  numbers.log_probabilities = nullptr;
  numbers.most_probable = nullptr;
}

nlohmann::ordered_json generated_json(const Written& result, std::span<const std::int32_t> prompt,
                                      graft_tokenizer* tokenizer, const GenerateFlags& options) {
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  nlohmann::ordered_json all = {
      {"text", result.text},
      {"prompt_tokens", std::vector<std::int32_t>(prompt.begin(), prompt.end())},
      {"tokens", result.tokens},
      {"stopped_by", stop_reason_name(result.numbers.reason)},
      {"first_token_seconds", result.numbers.first_token_ms / 1e3},
      {"prefill_seconds", result.numbers.prompt_ms / 1e3},
      {"decode_seconds", result.numbers.generated_ms / 1e3},
      {"decode_tokens_per_second", rate(static_cast<double>(result.tokens.size()), result.numbers.generated_ms / 1e3)}};
  if (options.logprobs) all["logprobs"] = log_probabilities_json(result, tokenizer);
  return all;
}

}  // namespace graft::cli
