// What a training run is, as the streams of a snapshot, and the way back.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "runtime/data/loader.h"
#include "runtime/model/model.h"
#include "runtime/run_state/resize_head.h"
#include "runtime/run_state/step_record.h"
#include "runtime/train/run/trainer.h"

namespace graft {

/// What must be the same for a resume to be exact, by name: {"model": ..., "optimizer": ..., "data": ...}.
using Configuration = std::map<std::string, std::string, std::less<>>;

/// Of a model's graph: graphs whose training differs have others.
std::string structure_hash(const Graph& model);

/// The model's structure and the options that decide what a step does. The caller adds what it knows of the data.
Configuration configuration_of(const train::Trainer& trainer);

/// Tells data sets apart: a hash of the fields, the number of samples, and up to 64 samples from all over it.
Result<std::string> fingerprint_of(data::Source& source);

/// The order of samples, as the configuration "order" has it.
std::string order_text(bool shuffled, bool keyed, bool drop_last);

/// Under which prefixes the metadata of a snapshot holds the configuration, and what the application said.
inline constexpr std::string_view kConfigPrefix = "config.";
inline constexpr std::string_view kUserPrefix = "user.";
/// Metadata: the model file that was trained.
inline constexpr std::string_view kModelFile = "model_file";

/// Bytes of the application's own, by worker: 0 for what all share.
using UserData = std::map<std::uint32_t, std::vector<std::byte>>;

/// What one snapshot will hold. Tensors lie in the trainer's memory: until its next capture().
class RunStreams {
 public:
  /// The state as the trainer captured it last.
  RunStreams(const train::Trainer& trainer, const Model& model, const UserData& user_data,
             const std::map<std::string, checkpoint::FrozenBytes>& frozen);
  RunStreams(const RunStreams&) = delete;
  RunStreams& operator=(const RunStreams&) = delete;
  const std::vector<checkpoint::StreamInput>& inputs() const { return inputs_; }
  /// invalid_argument where a parameter is NaN or infinite somewhere.
  Status check_finite() const;

 private:
  void add(std::string_view name, checkpoint::StreamKind kind, std::vector<std::byte> bytes, std::uint32_t worker = 0);

  std::vector<checkpoint::StreamInput> inputs_;
  std::vector<std::vector<std::byte>> owned_;
};

/// The weights that training leaves alone, by name: snapshots name them by hash.
std::map<std::string, checkpoint::FrozenBytes> frozen_of(const train::Trainer& trainer, const Model& model);
/// Whether the snapshot is of the model whose head was resized to give the one with `head`.
bool is_before(const checkpoint::Manifest& snapshot, const ResizedHead& head);

/// An error where the snapshot was made over other frozen weights. `head`: of a model whose head was resized since,
/// which may be another; else null.
Status check_frozen(const checkpoint::Manifest& snapshot, const std::map<std::string, checkpoint::FrozenBytes>& frozen,
                    const ResizedHead* head = nullptr);

/// The first parameter of the snapshot that is NaN or infinite somewhere; "" where all are finite. Reads all of them.
Result<std::string> find_non_finite(const checkpoint::Store& store, std::uint64_t number);
/// The snapshot, or the newest before it whose parameters are finite. corrupt where there is none.
Result<std::uint64_t> newest_finite(const checkpoint::Store& store, std::uint64_t number);

/// The snapshot that a person names: by number, or the newest with a tag; "" is the head. not_found where there is
/// none.
Result<std::uint64_t> find_snapshot(const checkpoint::Store& store, std::string_view name);

/// Brings the trainer to a snapshot's state. On error it may be half way: make a new one. `head`: the snapshot is of
/// the model before its head was resized; new rows and their optimizer state stay as the trainer began with them.
Status restore_run(const checkpoint::Store& store, std::uint64_t number, train::Trainer& trainer, UserData& user_data,
                   const ResizedHead* head = nullptr);

/// Parameters and running statistics alone: a new run that starts from the weights of an old one. invalid_argument
/// names a tensor that the snapshot lacks, or has in another size. `head`: as of restore_run().
Status warm_start(const checkpoint::Store& store, std::uint64_t number, train::Trainer& trainer,
                  const ResizedHead* head = nullptr);

/// How a tensor's bytes are to be read: graft's axes, and where each came from in the source model (empty: as it is).
struct TensorLayout {
  std::vector<std::int64_t> dims;
  SourcePerm perm;
};
/// The layouts of the snapshot's tensors, by name.
Result<std::map<std::string, TensorLayout>> layouts_of(const checkpoint::Store& store, std::uint64_t number);

}  // namespace graft
