// A model: a graph, the contents of its weights, and what belongs to them; read from and written to .graft files.
// The bytes of a file and what makes it valid: schema/MODEL_FORMAT.md.
#pragma once

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
inline constexpr std::string_view kMetaTrainability = "trainability";   ///< the importer's report, lines of text
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

  std::uint64_t weight_bytes() const;  ///< of all weights together

  /// Recomputes checksums of weights that came from a file, all of them or one; an error names the damaged weight.
  /// Reads every byte, so it costs what reading the file costs. Loading does not do it unless asked.
  Status verify_weights() const;
  Status verify_weight(ValueId value) const;

 private:
  friend class ModelReader;
  struct Weight {
    std::span<const std::byte> bytes;
    HostBuffer owned;                 // empty for views
    std::optional<Hash128> checksum;  // stated by the file
  };
  void tell_graph(ValueId value, std::span<const std::byte> contents);
  Status check_weight(ValueId value, std::uint64_t bytes) const;

  std::map<ValueId, Weight> weights_;
  std::unique_ptr<os::MappedFile> file_;
  std::string source_;  // the file's name, for messages
};

/// Everything that a file must satisfy, asked of a model in memory: the graph is valid, it holds forward ops only,
/// every constant and parameter has contents, names and limits are those of MODEL_FORMAT.md.
Status validate(const Model& model);

struct LoadOptions {
  bool verify_weights = false;  ///< read all weights once and compare checksums before returning
};

/// Maps `path` and checks all of it but the weights' bytes. Weights stay in the mapping: nothing is copied, and pages
/// are read when first touched. Errors: corrupt (with what is wrong), unsupported (a newer format, an op that this
/// build lacks), and the file system's.
Result<Model> load_model(os::FileSystem& files, const std::string& path, const LoadOptions& options = {});

/// The same from memory that outlives the model; `name` stands for the file in messages.
Result<Model> load_model(std::span<const std::byte> bytes, std::string_view name, const LoadOptions& options = {});

/// Writes `path` atomically: it holds the whole new model, or on failure is left as it was. Each weight is read
/// twice (checksum, then write) and never copied. Saving over the file that the model was loaded from is fine.
/// The same model gives the same bytes.
Status save_model(os::FileSystem& files, const std::string& path, const Model& model);

}  // namespace graft
