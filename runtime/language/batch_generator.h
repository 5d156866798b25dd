// Texts of one language model, several at once: a run takes one token of each, so that weights are read once for all.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/language/cached_text.h"
#include "runtime/language/decode_machine.h"
#include "runtime/language/generator.h"
#include "runtime/language/text_writer.h"

namespace graft {

/// Each text has a slot of the caches while it is written, and begins as soon as one is free. Prompts go first, one
/// after the other; then each run takes one token of every text. What a text begins with that some slot holds already,
/// of a text that is done or under way, is not computed again: the slot is taken, or its rows are copied.
///
/// Threads: as its device, which must outlive it, as must the model. Callbacks must not call it.
class BatchGenerator {
 public:
  using Id = std::uint64_t;  ///< of a text, from 1 on

  /// As Generator::create, for GeneratorOptions::sequences texts at once. unsupported: prompt lookup;
  /// out_of_memory: the budget does not suffice, with the number of texts that it would for.
  static Result<std::unique_ptr<BatchGenerator>> create(gpu::Device& device, const Model& model,
                                                        const GeneratorOptions& options);
  ~BatchGenerator();

  /// Queues a text; what is wrong with it is as of Generator::generate.
  Result<Id> submit(std::span<const text::TokenId> prompt, const GenerateOptions& options = {},
                    const TextCallback& on_text = {});
  Result<Id> submit(std::string_view prompt, const GenerateOptions& options = {}, const TextCallback& on_text = {});
  /// One run on the device: some of a prompt, or a token of every text. Gives the number of texts that are not
  /// finished. After an error, which is of the device or of a cancelled call, all texts are where they were.
  Result<std::size_t> step();
  struct Finished {
    Id id = 0;
    Result<Generated> result;  ///< its own error where its scores, its grammar or its text failed
  };
  /// The next text that is finished, in the order in which they were; each once.
  std::optional<Finished> take();
  /// Ends a text that is queued or under way, without a result; false where there is none.
  bool drop(Id id);

  /// submit(), and step() until it is finished: others go on as well.
  Result<Generated> generate(std::span<const text::TokenId> prompt, const GenerateOptions& options = {},
                             const TextCallback& on_text = {});
  Result<Generated> generate(std::string_view prompt, const GenerateOptions& options = {},
                             const TextCallback& on_text = {});

  /// As of Generator; invalid_argument while texts are queued or under way.
  Status swap_adapters(const Model* adapter);
  const text::Tokenizer* tokenizer() const { return model_.tokenizer(); }
  std::uint32_t context() const { return context_; }
  std::uint32_t sequences() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::size_t unfinished() const;
  /// Whether this device's kernels give a token among several the bits that it has alone: then a text does not depend
  /// on its neighbours, to the bit. Compared on the device at the first call, which is not for while texts are under
  /// way; slots forget what they hold.
  Result<bool> rows_agree();
  MemoryByClass memory() const { return machine_->planned(); }
  std::string streaming() const { return machine_->streaming(); }
  Status pause();
  Status resume();
  bool is_paused() const { return machine_->is_paused(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Text;
  /// A place for one text in every cache.
  struct Slot {
    std::unique_ptr<Text> text;         ///< that is written there; null: free
    std::vector<text::TokenId> cached;  ///< whose keys and values it holds
    std::vector<CachedRun> runs;        ///< how they were computed
    std::uint32_t furthest = 0;         ///< position that a run began at since it was empty
    bool must_replay = false;           ///< it does not hold them: they were lost
  };
  /// One of the residents that slots are places of.
  struct Cache {
    std::string name;
    std::uint64_t slot_bytes = 0;
    std::uint64_t row_bytes = 0;  ///< of a token; 0: places move, and only all of them are something
  };
  static constexpr std::size_t kOne = 0, kPrefill = 1;  ///< programs

  BatchGenerator() = default;
  template <typename Try>
  Status on_device(Try attempt) {
    return machine_->on_device(
        [&]() -> Status {
          GRAFT_TRY(replay_lost());
          return attempt();
        },
        [&] { note_loss(); }, [](bool) { return ok_status(); });
  }
  void note_loss();
  static std::vector<DecodeForm> forms_for(std::uint32_t sequences, std::uint32_t chunk);
  static Status too_much(gpu::Device& device, const Model& model, const GeneratorOptions& options,
                         std::uint32_t context, const Status& why);
  Status replay_lost();
  void admit();
  void settle();
  void finish(Slot& slot, const Status& done);
  Slot* reading();
  Status begin_reading(Slot& slot);
  Status share(Slot& slot, const Slot& from, std::size_t tokens);
  void find_caches(const Graph& graph);
  std::size_t common(const Slot& slot, std::span<const text::TokenId> prompt) const;
  void forget_from(Slot& slot, std::size_t tokens) const;
  Status read(Slot& slot);
  Status decode();
  void take_scores(Slot& slot, std::span<const float> logits);
  Status run_prompt(Slot& slot, std::span<const text::TokenId> tokens);
  Status run_rows(std::span<Slot* const> rows, std::span<const text::TokenId> tokens, std::size_t program);
  Status replay(Slot& slot);
  Status start(std::size_t program, std::span<Slot* const> rows, std::span<const text::TokenId> tokens);
  std::size_t program_for(std::size_t rows) const;
  std::span<const float> logits_of(std::size_t program, std::size_t row) const;
  Status compare(std::size_t program, bool& same);
  void report() const;

  std::unique_ptr<DecodeMachine> machine_;
  TextModel model_;
  TextConstraints constraints_;
  std::vector<std::uint32_t> rows_;     ///< of each program
  std::vector<std::uint32_t> windows_;  ///< of caches that forget
  std::vector<Cache> caches_;
  bool can_share_ = true;  ///< what a slot holds can be copied to another
  std::vector<Slot> slots_;
  std::deque<std::unique_ptr<Text>> waiting_;
  std::deque<Finished> finished_;
  std::vector<Slot*> live_;                 ///< of this run
  std::vector<text::TokenId> next_tokens_;  ///< one of each
  std::optional<bool> rows_agree_;
  std::uint32_t context_ = 0;
  std::uint32_t chunk_ = 0;
  Id last_id_ = 0;
};

}  // namespace graft
