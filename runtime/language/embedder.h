// Embeddings of texts: the last hidden state of a language model or an encoder, pooled to one vector a text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/language/text_inputs.h"
#include "runtime/session/session.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft {

struct EmbedderOptions {
  std::optional<Pooling> pooling = {};  ///< nullopt: as the model's file says, which decides on lengths too; else mean
  bool normalize = false;               ///< to length 1
  bool cut = false;                     ///< texts beyond `length` at their end; without, they are refused
  std::uint32_t length = 0;             ///< most tokens of a text; 0: the model's own context, at most 512
  std::uint32_t batch = 8;              ///< texts on the device at once
  std::uint32_t dimensions = 0;         ///< first numbers of each vector that remain; 0: all
  /// The value that is pooled, f32 [batch, seq, width]. Empty: as hidden_state_of() has it.
  std::string of;
  DType precision = DType::f32;
  PlanOptions plan;
  ProgramOptions program;
  Reopen reopen = {};
};

/// Threads: as its device, which must outlive it, as must the model.
class Embedder {
 public:
  /// Plans for a whole batch of the longest texts; all device memory is allocated here.
  /// The model takes what text_inputs_of() knows. unsupported: anything else.
  static Result<std::unique_ptr<Embedder>> create(gpu::Device& device, const Model& model,
                                                  const EmbedderOptions& options = {});

  /// A vector for each text, in their order, one after the other. A text's vector depends on no other text: they are
  /// padded behind their ends only where the model cannot see it (causal attention, a mask), and else run in groups of
  /// one length. invalid_argument names the text: without tokens, longer than fits, a token that there is not, a vector
  /// that is not finite.
  Result<std::vector<float>> embed(std::span<const std::vector<text::TokenId>> texts);
  /// not_found where the model has no tokenizer.
  Result<std::vector<float>> embed(std::span<const std::string_view> texts);

  std::uint32_t width() const { return width_; }
  std::uint32_t length() const { return length_; }
  /// Of each text of the last call, as it was given and with what the model puts around it; where that is more than
  /// length(), it was cut.
  const std::vector<std::uint32_t>& token_counts() const { return counts_; }
  const MemoryByClass& memory() const { return memory_; }  ///< planned and allocated

 private:
  Embedder() = default;
  Status add_pooling(const Model& model);
  Status check(std::span<const std::vector<text::TokenId>> texts) const;
  std::uint32_t padded(std::size_t tokens) const;
  Status run(std::span<const std::vector<text::TokenId>> texts, std::span<const std::size_t> which,
             std::uint32_t length, std::vector<float>& out);

  EmbedderOptions options_;
  Model pooled_;  ///< borrows the model's weights
  TextInputs inputs_;
  std::unique_ptr<Session> session_;
  std::optional<text::Tokenizer> tokenizer_;
  Pooling pooling_ = Pooling::mean;
  bool normalize_ = false;
  std::uint32_t width_ = 0;
  std::uint32_t whole_ = 0;  ///< numbers of a vector on the device
  std::uint32_t length_ = 0;
  std::int64_t vocabulary_ = 0;
  std::vector<std::uint32_t> counts_;
  MemoryByClass memory_;
};

}  // namespace graft
