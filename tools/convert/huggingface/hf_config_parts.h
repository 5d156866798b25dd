// What readers of config.json share.
#pragma once

#include "tools/convert/common/json_access.h"
#include "tools/convert/huggingface/hf_config.h"

namespace graft::convert {

constexpr std::int64_t kMost = INT32_MAX;

inline Result<std::int64_t> size_of(const Json& config, const char* name) {
  return integer_member(config, name, 1, kMost);
}

inline Result<std::int64_t> size_or(const Json& config, const char* name, std::int64_t otherwise) {
  if (member(config, name) == nullptr) return otherwise;
  return size_of(config, name);
}

Result<Activation> activation_of(const Json& config, const char* key);
/// The class whose weights the folder holds: "BertForSequenceClassification"; empty where it does not say.
std::string_view class_of(const Json& config);
Status refuse_quantized(const Json& config);

std::string left_out_note(std::string_view class_name);
/// The head that "architectures" names; an encoder's.
Status read_encoder_head(const Json& config, DecoderSpec& spec);
/// BERT and its kin.
Result<HfModel> read_hf_encoder(const Json& config, std::string_view type);

}  // namespace graft::convert
