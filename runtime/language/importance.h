// How much the columns of a language model's matrices matter: over a text, the sum of squares of each number that they
// are multiplied with. What llama.cpp calls an importance matrix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/language/text_inputs.h"
#include "runtime/session/session.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft {

struct ImportanceOptions {
  std::uint32_t context = 0;   ///< tokens of a chunk, each of which begins anew; 0: the model's own, at most 512
  std::uint64_t chunks = 0;    ///< most of all texts together, what is beyond is left out; 0: no limit
  bool head = false;           ///< of the head's matrix too, which may be the embedding's
  bool parse_special = false;  ///< special tokens that are spelled out in texts become these
  PlanOptions plan;
  ProgramOptions program;
  Reopen reopen = {};
};

/// Of one matrix.
struct ImportanceSums {
  std::string name;          ///< the weight's
  std::vector<double> sums;  ///< for each column of its rows, what they are multiplied with, squared
  std::uint64_t tokens = 0;  ///< over which they were added up
};

/// Threads: as its device, which must outlive it, as must the model.
class Importance {
 public:
  /// Plans for one chunk; all device memory is allocated here. Every matrix counts that the model's tokens are
  /// multiplied with, but those of adapters. unsupported: no causal language model of tokens [batch, seq];
  /// invalid_argument: a context beyond the model's own.
  static Result<std::unique_ptr<Importance>> create(gpu::Device& device, const Model& model,
                                                    const ImportanceOptions& options = {});

  /// Cuts a text into chunks, which wait; what is left behind the last whole one is dropped. Each begins with the
  /// tokens that the model puts before a text, in place of its own first ones, as llama.cpp does it.
  /// invalid_argument: a text shorter than a chunk, a token that there is not; not_found where the model has no
  /// tokenizer.
  Status add(std::string_view text);
  Status add(std::span<const text::TokenId> tokens);

  /// Computes the chunk that has waited longest; nothing where none does. On failure it still waits and nothing was
  /// added. invalid_argument names the matrix whose numbers are not finite.
  Status step();
  std::uint64_t waiting() const;
  std::uint64_t chunks() const { return done_; }      ///< that were computed
  std::uint64_t dropped() const { return dropped_; }  ///< tokens behind the last whole chunks, or beyond the limit
  std::uint32_t context() const { return context_; }

  /// In the graph's order; sums are 0 before the first step.
  const std::vector<ImportanceSums>& matrices() const { return matrices_; }
  const MemoryByClass& memory() const { return memory_; }  ///< planned and allocated

 private:
  /// What goes into products: an output of the graph, whose squares are added to these matrices.
  struct Site {
    std::string output;
    ValueId value;
    std::vector<std::size_t> matrices;
  };

  Importance() = default;
  Status choose_context(const Model& model);
  Status add_squares(const Model& model);
  Status find_products(const Model& model);

  ImportanceOptions options_;
  Model measured_;  ///< borrows the model's weights
  TextInputs inputs_;
  std::vector<Site> sites_;
  std::unique_ptr<Session> session_;
  std::optional<text::Tokenizer> tokenizer_;
  std::uint32_t context_ = 0;
  std::int64_t vocabulary_ = 0;
  std::vector<text::TokenId> waiting_;  ///< whole chunks, from first_ on
  std::size_t first_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t dropped_ = 0;
  std::vector<ImportanceSums> matrices_;
  MemoryByClass memory_;
};

}  // namespace graft
