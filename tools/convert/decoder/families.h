// The families of language models and encoders that are read and written: what each is called, and where its files
// differ.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/convert/decoder/decoder_spec.h"

namespace graft::convert {

struct Family {
  std::string_view name;          ///< DecoderSpec::family; "model_type" of Hugging Face but for gemma3
  std::string_view class_name;    ///< in "architectures" of config.json
  std::string_view architecture;  ///< in GGUF files
  const TensorNames* names;       ///< in Hugging Face's folders
  bool neighbours = false;        ///< GGUF's writers order rows of queries and keys so that neighbours turn together
  bool unit_norms = false;        ///< norms multiply by 1 + weight in folders, and by that sum in GGUF files
  std::string_view model_type = name;  ///< in config.json
  const TensorNames* alone = nullptr;  ///< of an encoder: names in folders without a head

  const TensorNames* gguf = &kGgufNames;

  void (*choices)(DecoderSpec&) = nullptr;  ///< what all models of the family have; sizes and numbers come first
  bool interleaved = false;                 ///< neighbours turn together in folders too, and no rows move
  bool grouped = false;                     ///< DecoderSpec::grouped_qkv in folders, and not in GGUF files

  bool encodes() const { return alone != nullptr; }
  const TensorNames& gguf_names() const { return *gguf; }
};

std::span<const Family> families();
/// Null where there is none of that name.
const Family* find_family(std::string_view name);
/// The first whose GGUF files are of that architecture; null: none.
const Family* family_of_architecture(std::string_view architecture);
/// "llama, mistral, ... and gpt2", for messages.
std::string family_names();

}  // namespace graft::convert
