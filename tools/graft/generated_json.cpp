#include "tools/graft/generated_json.h"

namespace graft::cli {
namespace {

nlohmann::ordered_json token_json(text::TokenId token, float log_probability, const text::Tokenizer* tokenizer) {
  nlohmann::ordered_json out = {{"token", token}};
  if (tokenizer != nullptr && static_cast<std::size_t>(token) < tokenizer->size()) {
    const auto text = tokenizer->decode({&token, 1}, {.skip_control = false, .at_start = false});
    if (text.ok()) out["text"] = *text;
  }
  out["logprob"] = log_probability;
  return out;
}

/// Of every token, with the most probable ones in its place.
nlohmann::ordered_json log_probabilities_json(const Generated& result, const text::Tokenizer* tokenizer) {
  auto out = nlohmann::ordered_json::array();
  const std::size_t beside = result.tokens.empty() ? 0 : result.most_probable.size() / result.tokens.size();
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    auto token = token_json(result.tokens[i], result.log_probabilities[i], tokenizer);
    for (const text::TokenProbability& other : std::span(result.most_probable).subspan(i * beside, beside)) {
      token["top"].push_back(token_json(other.token, other.log_probability, tokenizer));
    }
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

nlohmann::ordered_json generated_json(const Generated& result, std::span<const text::TokenId> prompt,
                                      const text::Tokenizer* tokenizer, const GenerateFlags& options) {
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  nlohmann::ordered_json all = {
      {"text", result.text},
      {"prompt_tokens", std::vector<text::TokenId>(prompt.begin(), prompt.end())},
      {"tokens", result.tokens},
      {"stopped_by", stop_reason_name(result.reason)},
      {"first_token_seconds", result.first_token_seconds},
      {"prefill_seconds", result.prefill_seconds},
      {"decode_seconds", result.decode_seconds},
      {"decode_tokens_per_second", rate(static_cast<double>(result.tokens.size()), result.decode_seconds)}};
  if (options.logprobs) all["logprobs"] = log_probabilities_json(result, tokenizer);
  return all;
}

}  // namespace graft::cli
