#include "tools/convert/tokenizer/gguf_pre_tokenizers.h"

#include <algorithm>

#include "runtime/text/tokenizer/pipeline.h"

namespace graft::convert {
namespace {

using text::Split;
using text::split_pattern;

// The patterns as the models themselves have them, written for classes of Unicode.
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepseekWords =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⲲⲳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepseekSigns = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kBloom = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr std::string_view kBailing =
    R"('(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Family {
  std::vector<std::string_view> names;
  PreTokenizer pre;
  std::vector<std::string_view> own = {};  ///< the patterns of the model's tokenizer.json, if llama.cpp has others
};

constexpr std::string_view kFalconSigns = R"([\p{P}\$\+<=>\^~\|`]+)";

const std::vector<Family>& families() {
  static const std::string_view gpt2 = split_pattern(Split::gpt2), llama3 = split_pattern(Split::llama3),
                                qwen2 = split_pattern(Split::qwen2), digit = split_pattern(Split::digit);
  static const std::vector<Family> all{
      {{"gpt-2", "gpt2", "mpt", "olmo", "phi-2", "jais", "roberta-bpe", "jina-v2-en", "jina-v2-es", "jina-v2-de",
        "jina-v1-en", "jina-v2-code", "trillion", "a.x-4.0", "mellum", "granite-docling"},
       {{gpt2}, false}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}, {{llama3}, true}},
      {{"smaug-bpe", "dbrx", "chatglm-bpe", "glm4"}, {{llama3}, false}},
      {{"qwen2", "stablelm2", "deepseek-r1-qwen", "megrez", "hunyuan", "kormo"}, {{qwen2}, false}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "minerva"},
       {{digit, gpt2}, false}},
      {{"deepseek-coder"},
       {{split_pattern(Split::line_break), split_pattern(Split::spaced_letters),
         split_pattern(Split::spaced_punctuation), split_pattern(Split::cjk), digit},
        false}},
      {{"deepseek-llm"},
       {{split_pattern(Split::line_break), kDeepseekWords, kDeepseekSigns, R"(\s+$)", split_pattern(Split::cjk),
         R"(\p{N}+)"},
        false}},
      {{"deepseek-v3"}, {{R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepseek3}, false}},
      {{"falcon"}, {{kFalconSigns, gpt2, "[0-9][0-9][0-9]"}, false}, {kPunctuation, gpt2, kNumbers, "[0-9][0-9][0-9]"}},
      {{"gpt-4o", "o200k", "llama4"}, {{kGpt4o}, false}},
      {{"tekken"}, {{kTekken}, true}},
      {{"bloom", "poro-chat", "poro", "gpt3-finnish"}, {{kBloom}, false}},
      {{"viking"}, {{kBloom, digit}, false}},
      {{"bailingmoe", "llada-moe"}, {{kBailing}, false}},
      {{"seed-coder"}, {{kSeedCoder}, false}},
      {{"default"},
       {{R"([\p{P}\$\+<=>\^~\|]+)", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))",
         R"(\p{N}+)", "[0-9][0-9][0-9]"},
        false}}};
  return all;
}

}  // namespace

const PreTokenizer* gguf_pre_tokenizer(std::string_view name) {
  for (const Family& family : families()) {
    if (std::ranges::find(family.names, name) != family.names.end()) return &family.pre;
  }
  return nullptr;
}

std::string_view gguf_pre_name_of(std::span<const std::string_view> patterns, bool whole_words, bool* exact) {
  // A tokenizer whose merges make every token is the same with and without whole words.
  for (const bool words : {whole_words, !whole_words}) {
    for (const Family& family : families()) {
      const bool same = std::ranges::equal(family.pre.patterns, patterns);
      if (family.pre.whole_words != words) continue;
      if (!same && (family.own.empty() || !std::ranges::equal(family.own, patterns))) continue;
      if (exact != nullptr) *exact = same && words == whole_words;
      return family.names.front();
    }
  }
  return {};
}

}  // namespace graft::convert
