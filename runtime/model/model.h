// A model: a graph, the contents of its weights, and what belongs to them; read from and written to .graft files.
// The bytes of a file and what makes it valid: schema/MODEL_FORMAT.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/base/hash.h"
#include "platform/os/file.h"
#include "runtime/core/graph.h"

namespace graft {

/// An entry point: the inputs that it needs and the outputs that it gives. The model's own inputs and outputs (all of
/// them) need no signature.
struct Signature {
  std::string name;
  std::vector<Output> inputs;  ///< values of kind input
  std::vector<Output> outputs;
};

/// Bytes of a weight that are not what its file says they are.
struct WeightDamage {
  ValueId value;
  std::uint64_t begin = 0;  ///< in the file
  std::uint64_t end = 0;
};

/// How the model's text becomes ids, as the bytes of a form that `format` names (text::kVocabularyFormat). Whoever
/// needs a tokenizer reads them; loading a model checks neither.
struct TokenizerData {
  std::string format;
  std::string bytes;
};

using Metadata = std::map<std::string, std::string, std::less<>>;

// Keys that graft itself writes; an importer may add others.
inline constexpr std::string_view kMetaSourceFormat = "source.format";  ///< "onnx opset 17"
inline constexpr std::string_view kMetaSourceFile = "source.file";      ///< the file's name, without its folder
inline constexpr std::string_view kMetaProducer = "source.producer";    ///< the program that wrote the source
inline constexpr std::string_view kMetaClasses =
    "data.classes";  ///< what labels 0, 1, .. stand for: a JSON array of texts
inline constexpr std::string_view kMetaTrainability = "trainability";  ///< the importer's report, lines of text
// Of language models:
inline constexpr std::string_view kMetaContext = "text.context";             ///< positions that it was made for
inline constexpr std::string_view kMetaStop = "text.stop_tokens";            ///< ids that end a text, as in "2,7"
inline constexpr std::string_view kMetaChatTemplate = "text.chat_template";  ///< the source's own, a Jinja program
inline constexpr std::string_view kMetaChatFormat = "text.chat_format";      ///< a name of text::chat_formats()

/// Owns its graph and, directly or through the mapped file, its weights. Movable.
/// Threads: reading from several threads is fine while nobody changes it.
class Model {
 public:
  Graph graph;
  Metadata metadata;
  Bindings symbol_defaults;  ///< sizes to take for symbols of the graph that nobody binds; may leave out any
  std::vector<Signature> signatures;
  std::optional<TokenizerData> tokenizer;

  /// The contents of a constant, a parameter or state, row-major in the value's dtype; nullopt where there is none
  /// (state without contents starts as zeros). Valid while the model lives and the weight is not set again.
  std::optional<std::span<const std::byte>> weight(ValueId value) const;

  /// Each of these replaces what was there. An error where the value cannot have contents, its shape holds symbols, or
  /// the size is not that of its shape.
  Status set_weight(ValueId value, HostBuffer contents);
  Status copy_weight(ValueId value, std::span<const std::byte> contents,
                     const HostAllocator& allocator = default_host_allocator());
  /// Borrows: `contents` must stay unchanged for as long as the model may be read.
  Status view_weight(ValueId value, std::span<const std::byte> contents);

  std::string_view source() const { return source_; }  ///< the name of the file that it is of; may be empty
  std::uint64_t weight_bytes() const;                  ///< of all weights together

  /// As view_weight(), of a weight that another model has: what its file says of the bytes goes along.
  Status borrow_weight(ValueId value, const Model& owner, ValueId theirs);

  /// Recomputes checksums of weights that came from a file; an error names the first damaged weight and where it is.
  /// Reads every byte once, in threads; weights that were found right are not read again. Loading does not do it unless
  /// asked.
  Status verify_weights() const;
  /// What a session, a generator and a trainer ask before they use weights: verify_weights(), unless the model was
  /// loaded with WeightCheck::never.
  Status check_before_use() const;
  /// invalid_argument where a parameter or state of the model holds NaN or infinity; names the first such number.
  /// Constants may: masks of scores do.
  Status check_finite() const;
  /// All that is damaged, in the order of values and bytes. Reads everything, and compares blocks and whole checksums.
  std::vector<WeightDamage> find_damage() const;

 private:
  friend class ModelReader;
  friend class WeightChecker;
  friend Hash128 weights_hash(const Model& model);
  /// What a file says of one weight.
  struct Stated {
    Hash128 checksum;
    std::span<const std::uint64_t> blocks;  // in the mapped file; may be empty
    std::uint64_t offset = 0;               // in the file
  };
  /// A flag that threads may set while others read it; copies take its state.
  struct Flag {
    Flag() = default;
    Flag(const Flag& other) : set(other.set.load()) {}
    Flag& operator=(const Flag& other) {
      set = other.set.load();
      return *this;
    }
    std::atomic<bool> set{false};
  };
  struct Weight {
    std::span<const std::byte> bytes;
    HostBuffer owned;  // empty for views
    std::optional<Stated> stated;
    mutable Flag right;  // the bytes were compared with what is stated
  };
  void tell_graph(ValueId value, std::span<const std::byte> contents);
  Status check_weight(ValueId value, std::uint64_t bytes) const;

  std::map<ValueId, Weight> weights_;
  std::unique_ptr<os::MappedFile> file_;
  std::string source_;      // the file's name, for messages
  bool unchecked_ = false;  // WeightCheck::never
};

/// A name for the contents of all weights together: equal for models whose weights have the same names, types, shapes
/// and bytes. Nothing is read of weights whose checksum a file states.
Hash128 weights_hash(const Model& model);

/// Everything that a file must satisfy, asked of a model in memory: the graph is valid, it holds forward ops only,
/// every constant and parameter has contents, names and limits are those of MODEL_FORMAT.md.
/// `shapes_only`: constants and parameters need no contents.
Status validate(const Model& model, bool shapes_only = false);

/// When the weights of a file are read and compared with its checksums.
enum class WeightCheck {
  on_use,   ///< once, when a session, generator or trainer is made; saving compares in any case
  at_once,  ///< before loading returns
  never,    ///< only when saved: for a file that something else vouches for
};

struct LoadOptions {
  WeightCheck check = WeightCheck::on_use;
  bool shapes_only = false;  ///< weights may lack contents: for plans alone
};

/// Maps `path` and checks all of it but the weights' bytes. Weights stay in the mapping: nothing is copied, and pages
/// are read when first touched. Errors: corrupt (with what is wrong), unsupported (a newer format, an op that this
/// build lacks), and the file system's.
Result<Model> load_model(os::FileSystem& files, const std::string& path, const LoadOptions& options = {});

/// The same from memory that outlives the model; `name` stands for the file in messages.
Result<Model> load_model(std::span<const std::byte> bytes, std::string_view name, const LoadOptions& options = {});

/// The same, and the model owns `bytes`, however they come to be in memory.
Result<Model> load_model(std::unique_ptr<os::MappedFile> bytes, std::string_view name, const LoadOptions& options = {});

/// Writes `path` atomically: it holds the whole new model, or on failure is left as it was. Each weight is read
/// twice (checksum, then write) and never copied; weights of a file are compared with its checksums, unless they were.
/// Saving over the file that the model was loaded from is fine. The same model gives the same bytes.
Status save_model(os::FileSystem& files, const std::string& path, const Model& model);
/// What save_model() would write. `shapes_only`: of weights without contents the shapes.
Result<HostBuffer> model_bytes(const Model& model, bool shapes_only = false);

}  // namespace graft
