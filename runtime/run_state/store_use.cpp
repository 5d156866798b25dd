#include "runtime/run_state/store_use.h"

#include <utility>

#include "platform/base/hash.h"

namespace graft {

Result<std::size_t> restore_to_model(const checkpoint::Store& store, std::uint64_t number, Model& model) {
  const auto snapshot = store.snapshots().find(number);
  if (snapshot == store.snapshots().end()) return error(Code::not_found, "There is no snapshot ", number, ".");
  std::vector<std::pair<ValueId, HostBuffer>> all;
  for (const checkpoint::Stream& stream : *snapshot->second.streams) {
    const ValueId value = model.graph.find_value(stream.name);
    if (!value.valid() || stream.frozen) continue;
    const Value& wanted = model.graph.value(value);
    if (wanted.shape.elements() * dtype_size(wanted.dtype) != stream.bytes) {
      return invalid("The snapshot's tensor \"", stream.name, "\" of ", stream.bytes,
                     " bytes is not the model's; is it the model that was trained?");
    }
    GRAFT_TRY_ASSIGN(HostBuffer contents, store.restore(number, stream.name, stream.bytes));
    all.emplace_back(value, std::move(contents));
  }
  if (all.empty()) {
    return invalid("The snapshot holds nothing of \"", model.source(), "\"; is it the model that was trained?");
  }
  // Only once everything was read: a model is never half restored.
  for (auto& [value, contents] : all) GRAFT_TRY(model.set_weight(value, std::move(contents)));
  return all.size();
}

std::string state_hash_of(const checkpoint::Manifest& snapshot) {
  std::string text;
  for (const checkpoint::Stream& stream : *snapshot.streams) {
    if (stream.kind != checkpoint::StreamKind::parameter && stream.kind != checkpoint::StreamKind::optimizer) continue;
    text += cat(stream.name, ' ', stream.worker, ' ', stream.bytes);
    if (stream.frozen) text += ' ' + hash_text(*stream.frozen);
    for (const std::uint32_t index : snapshot.chunks_of(stream)) {
      text += cat(' ', hash_text(snapshot.chunks[index].hash));
    }
    text += '\n';
  }
  return hash_text(hash128(std::as_bytes(std::span(text.data(), text.size()))));
}

Result<PrunedStore> prune_store(checkpoint::Store& store, std::size_t keep) {
  GRAFT_TRY_ASSIGN(auto pruned, store.prune({.keep_last = keep, .keep_tagged = true}));
  GRAFT_TRY_ASSIGN(const auto compacted, store.compact());
  return PrunedStore{std::move(pruned.removed), pruned.freed_bytes + compacted.freed_bytes};
}

}  // namespace graft
