#include "runtime/lora/new_tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "platform/base/half.h"
#include "platform/base/json.h"
#include "platform/base/text.h"
#include "runtime/core/features.gen.h"
#include "runtime/core/narrow.h"
#include "runtime/core/quantized.h"
#include "runtime/lora/adapter.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"

namespace graft {
namespace {

constexpr std::size_t kMostNewTokens = 65536;
constexpr std::size_t kLongestNewToken = 1024;  // bytes

Result<std::vector<NewToken>> tokens_of_json(const json::Value& list) {
  if (!list.is_array()) return invalid("New tokens are an array of texts.");
  std::vector<NewToken> out;
  for (const json::Value& item : list.items()) {
    const json::Value* const content = item.is_object() ? item.find("content") : &item;
    const json::Value* const special = item.find("special");
    const bool flag = special == nullptr || special->kind() == json::Value::Kind::boolean;
    if (content == nullptr || !content->is_string() || !flag) {
      return invalid("New token ", out.size(),
                     " is neither a text nor {\"content\": TEXT, \"special\": true or false}.");
    }
    out.push_back({content->text(), special != nullptr && special->truth()});
  }
  return out;
}

Result<text::Vocabulary> vocabulary_of(const Model& model) {
  if (!model.tokenizer) {
    return error(Code::not_found, "The model carries no tokenizer that new tokens could be added to.");
  }
  const std::string& format = model.tokenizer->format;
  if (format != text::kVocabularyFormat && format != text::kVocabularyStepsFormat) {
    return unsupported("The model's tokenizer is of the form \"", format, "\", which this build does not read.");
  }
  if constexpr (kHasText) {
    return text::vocabulary_from_bytes(std::as_bytes(std::span(model.tokenizer->bytes)));
  } else {
    return unsupported("This build of graft leaves out text (GRAFT_TEXT).");
  }
}

/// Tokens but for names of unused rows at the end.
std::size_t real_tokens(const text::Vocabulary& vocabulary) {
  std::size_t count = vocabulary.tokens.size();
  const auto is_pad = [](const text::Token& token) {
    return token.kind == text::TokenKind::unused && token.text.starts_with("[PAD") && token.text.ends_with("]");
  };
  while (count > 0 && is_pad(vocabulary.tokens[count - 1])) --count;
  return count;
}

/// The means of the columns of the first rows.
Result<std::vector<float>> mean_row(const Model& base, const TokenTable& table, std::int64_t rows) {
  constexpr std::int64_t kAtOnce = 1024;
  std::vector<double> sums(static_cast<std::size_t>(table.width));
  for (std::int64_t first = 0; first < rows; first += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, rows - first);
    GRAFT_TRY_ASSIGN(const std::vector<float> part,
                     weight_part_as_floats(base, table.weight, static_cast<std::uint64_t>(first * table.width),
                                           static_cast<std::uint64_t>(count * table.width)));
    for (std::size_t i = 0; i < part.size(); ++i) sums[i % sums.size()] += part[i];
  }
  std::vector<float> out;
  for (const double sum : sums) out.push_back(rows == 0 ? 0 : static_cast<float>(sum / static_cast<double>(rows)));
  return out;
}

}  // namespace

Result<std::vector<NewToken>> parse_new_tokens(std::string_view json) {
  GRAFT_TRY_ASSIGN(const json::Value list, json::parse(json));
  return tokens_of_json(list);
}

Result<std::optional<NewTokens>> new_tokens_of(const Metadata& metadata) {
  const auto found = metadata.find(kMetaAdapterTokens);
  if (found == metadata.end()) return std::optional<NewTokens>();
  const auto bad = [] { return corrupt("The adapter's \"", kMetaAdapterTokens, "\" is no list of tokens."); };
  const auto parsed = json::parse(found->second);
  if (!parsed.ok()) return bad();
  const json::Value* const first = parsed->find("first");
  const json::Value* const tokens = parsed->find("tokens");
  if (first == nullptr || first->kind() != json::Value::Kind::number || tokens == nullptr) return bad();
  NewTokens out;
  const double id = first->number();
  if (!(id >= 0 && id < INT32_MAX) || std::floor(id) != id) return bad();
  out.first = static_cast<std::int64_t>(id);
  auto list = tokens_of_json(*tokens);
  if (!list.ok() || list->empty() || list->size() > kMostNewTokens) return bad();
  out.tokens = std::move(*list);
  return std::optional(std::move(out));
}

void remember_new_tokens(const NewTokens& tokens, Metadata& metadata) {
  std::string text = cat("{\"first\": ", tokens.first, ", \"tokens\": [");
  for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
    const NewToken& token = tokens.tokens[i];
    text += i == 0 ? "" : ", ";
    text += token.special ? cat("{\"content\": ", json::quoted(token.text), ", \"special\": true}")
                          : json::quoted(token.text);
  }
  metadata.insert_or_assign(std::string(kMetaAdapterTokens), text + "]}");
}

Result<NewTokens> place_new_tokens(const Model& model, std::span<const NewToken> tokens) {
  GRAFT_TRY_ASSIGN(const text::Vocabulary vocabulary, vocabulary_of(model));
  if (tokens.empty() || tokens.size() > kMostNewTokens) {
    return invalid("There are ", tokens.size(), " new tokens; 1 to ", kMostNewTokens, " can be added.");
  }
  NewTokens out;
  const std::size_t first = real_tokens(vocabulary);
  out.first = static_cast<std::int64_t>(first);
  std::map<std::string_view, std::size_t> known;
  for (std::size_t id = 0; id < first; ++id) known.emplace(vocabulary.tokens[id].text, id);
  std::set<std::string_view> given;
  for (const NewToken& token : tokens) {
    const std::string_view text = token.text;
    if (text.empty() || text.size() > kLongestNewToken || !json::parse(json::quoted(text)).ok() ||
        json::parse(json::quoted(text))->text() != text) {
      return invalid("The new token \"", shown(text), "\" is ", text.size(), " bytes; 1 to ", kLongestNewToken,
                     " bytes of UTF-8 can be one.");
    }
    if (const auto there = known.find(text); there != known.end()) {
      return invalid("The token \"", shown(text), "\" is in the vocabulary already, with the id ", there->second,
                     "; leave it out of the new ones.");
    }
    if (!given.insert(text).second) return invalid("The new token \"", shown(text), "\" is given twice.");
    out.tokens.push_back(token);
  }
  return out;
}

Result<TokenizerData> tokenizer_with(const Model& model, const NewTokens& tokens) {
  if constexpr (!kHasText) {  // nobody asks for one
    if (model.tokenizer) return *model.tokenizer;
  }
  GRAFT_TRY_ASSIGN(text::Vocabulary vocabulary, vocabulary_of(model));
  GRAFT_TRY_ASSIGN(const NewTokens placed, place_new_tokens(model, tokens.tokens));
  if (placed.first != tokens.first) {
    return invalid("The adapter's new tokens begin with the id ", tokens.first, ", and the model's vocabulary ends at ",
                   placed.first, ": it was made for another one.");
  }
  for (std::size_t i = 0; i < tokens.tokens.size(); ++i) {
    text::Token token;
    token.text = tokens.tokens[i].text;
    token.kind = tokens.tokens[i].special ? text::TokenKind::control : text::TokenKind::user_defined;
    token.apart = true;
    const std::size_t id = static_cast<std::size_t>(tokens.first) + i;
    if (id < vocabulary.tokens.size()) {
      vocabulary.tokens[id] = std::move(token);
    } else {
      vocabulary.tokens.push_back(std::move(token));
    }
  }
  TokenizerData out{model.tokenizer->format, {}};
  if constexpr (kHasText) out.bytes = text::vocabulary_to_bytes(vocabulary);
  return out;
}

Status fill_token_rows(const Model& base, const std::vector<TokenTable>& tables, const NewTokens& tokens, bool with_new,
                       Model& model) {
  const bool shapes_only = base.weight_bytes() == 0;
  for (const TokenTable& table : tables) {
    const auto width = static_cast<std::size_t>(table.width);
    const auto copy = [&](const std::string& name, const std::vector<float>& numbers) {
      return model.copy_weight(model.graph.find_value(name), std::as_bytes(std::span(numbers)));
    };
    if (with_new) {
      std::vector<float> mean(width);
      if (!shapes_only) {
        GRAFT_TRY_ASSIGN(mean, mean_row(base, table, tokens.first));
      }
      std::vector<float> rows;
      for (std::size_t i = 0; i < tokens.tokens.size(); ++i) rows.insert(rows.end(), mean.begin(), mean.end());
      GRAFT_TRY(copy(table.rows, rows));
    }
    if (table.behind.empty()) continue;
    const std::int64_t from = tokens.first + tokens.count();
    std::vector<float> behind(static_cast<std::size_t>(table.table_rows - from) * width);
    if (!shapes_only) {
      GRAFT_TRY_ASSIGN(
          behind, weight_part_as_floats(base, table.weight, static_cast<std::uint64_t>(from) * width, behind.size()));
    }
    GRAFT_TRY(copy(table.behind, behind));
  }
  return {};
}

Result<HostBuffer> table_with_rows(const Model& base, const TokenTable& table, std::int64_t first,
                                   std::span<const float> rows) {
  const ValueId id = base.graph.find_value(table.weight);
  const DType dtype = base.graph.value(id).dtype;
  const auto bytes = base.weight(id);
  const auto width = static_cast<std::size_t>(table.width);
  const std::size_t row_bytes = storage_bytes(dtype, width);
  const std::size_t all =
      std::max(static_cast<std::size_t>(table.table_rows), static_cast<std::size_t>(first) + rows.size() / width);
  if (!bytes) return invalid("The weight \"", table.weight, "\" has no contents.");
  GRAFT_TRY_ASSIGN(HostBuffer out, HostBuffer::create(all * row_bytes, "a table with new rows"));
  std::ranges::copy(*bytes, out.bytes().begin());
  const std::span<std::byte> to =
      out.bytes().subspan(static_cast<std::size_t>(first) * row_bytes, rows.size() / width * row_bytes);
  if (is_quantized(dtype)) {
    if (!std::ranges::all_of(rows, [](float x) { return std::isfinite(x); })) {
      return invalid("A new row of \"", table.weight, "\" holds a number that is not finite, which no block can.");
    }
    quantize(dtype, rows, to);
    GRAFT_TRY(check_blocks(table.weight, rows, dtype, to));
  } else if (dtype == DType::f32) {
    std::memcpy(to.data(), rows.data(), to.size());
  } else if (dtype == DType::f16 || dtype == DType::bf16) {
    GRAFT_TRY(check_narrowing(table.weight, rows, dtype));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint16_t word = dtype == DType::f16 ? float_to_half(rows[i]) : float_to_bfloat(rows[i]);
      std::memcpy(to.data() + 2 * i, &word, 2);
    }
  } else {
    return unsupported("The weight \"", table.weight, "\" is of type ", dtype_name(dtype), ", which gets no new rows.");
  }
  return out;
}

}  // namespace graft
