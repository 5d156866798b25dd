// The optimizer's state shared out among workers: PlanRequest::shard.
#include <algorithm>

#include "runtime/train/run/trainer.h"

namespace graft::train {

bool Trainer::is_elsewhere(std::string_view name) const {
  return std::ranges::any_of(plan().elsewhere, [&](const auto& one) { return one.resident.name == name; });
}

Status Trainer::read_elsewhere(std::string_view name, std::span<std::byte> bytes) const {
  if (!has_whole_state() || setup_.trainer.request.shard->rank != 0) {
    return invalid("\"", name, "\" is with another worker, and no copy of it is here.");
  }
  const auto found = whole_.find(name);
  if (found == whole_.end()) {
    std::ranges::fill(bytes, std::byte{});
  } else if (found->second.size() == bytes.size()) {
    std::ranges::copy(found->second, bytes.begin());
  } else {
    return invalid("\"", name, "\" has ", found->second.size(), " bytes, not ", bytes.size(), ".");
  }
  return ok_status();
}

/// A part for each worker that the tensors of it come after one another in; this worker's are there.
Result<std::vector<std::span<std::byte>>> Trainer::fill_parts(
    const std::vector<std::pair<std::uint32_t, const Resident*>>& of) {
  const OptimizerShard& shard = *setup_.trainer.request.shard;
  parts_.resize(shard.workers);
  for (std::uint32_t r = 0; r < shard.workers; ++r) {
    std::uint64_t bytes = 0;
    for (const auto& [owner, resident] : of) bytes += owner == r ? resident->bytes : 0;
    parts_[r].resize(bytes);
  }
  std::span<std::byte> to = parts_[shard.rank];
  for (const auto& [owner, resident] : of) {
    if (owner != shard.rank) continue;
    GRAFT_TRY(run_.memory().read(resident->name, to.first(resident->bytes)));
    to = to.subspan(resident->bytes);
  }
  return std::vector<std::span<std::byte>>(parts_.begin(), parts_.end());
}

/// After the update: everybody has moved its own.
Status Trainer::share_parameters() {
  has_whole_ = false;
  std::vector<std::pair<std::uint32_t, const Resident*>> all;
  for (const TrainedTensor& tensor : plan().tensors) {
    all.emplace_back(tensor.owner, plan().residents.find(tensor.name));
  }
  GRAFT_TRY_ASSIGN(const auto parts, fill_parts(all));
  GRAFT_TRY(setup_.trainer.exchange->gather(parts, false));
  std::vector<std::span<const std::byte>> from(parts.begin(), parts.end());
  for (const auto& [owner, resident] : all) {
    const std::span<const std::byte> bytes = from[owner].first(resident->bytes);
    from[owner] = from[owner].subspan(resident->bytes);
    if (owner != setup_.trainer.request.shard->rank) GRAFT_TRY(run_.memory().write(resident->name, bytes));
  }
  return ok_status();
}

Status Trainer::gather_state() {
  if (!is_sharded() || has_whole_) return ok_status();
  // By name, since each worker plans its own first.
  std::map<std::string_view, std::pair<std::uint32_t, const Resident*>> named;
  for (const auto& [owner, resident] : plan().elsewhere) named[resident.name] = {owner, &resident};
  for (const TrainedTensor& tensor : plan().tensors) {
    for (const std::string& name : tensor.optimizer_state) {
      if (const Resident* own = plan().residents.find(name)) named[name] = {tensor.owner, own};
    }
  }
  std::vector<std::pair<std::uint32_t, const Resident*>> all;
  for (const auto& [name, one] : named) all.push_back(one);
  GRAFT_TRY_ASSIGN(const auto parts, fill_parts(all));
  GRAFT_TRY(setup_.trainer.exchange->gather(parts, true));
  has_whole_ = true;
  if (setup_.trainer.request.shard->rank != 0) return ok_status();
  shortages_.tell_before_invalidation();
  std::vector<std::span<const std::byte>> from(parts.begin(), parts.end());
  for (const auto& [owner, resident] : all) {
    const std::span<const std::byte> bytes = from[owner].first(resident->bytes);
    from[owner] = from[owner].subspan(resident->bytes);
    if (owner != 0) whole_[resident->name].assign(bytes.begin(), bytes.end());
  }
  return ok_status();
}

/// To what capture() copied.
Status Trainer::add_elsewhere() {
  if (!has_whole_) return invalid("The optimizer's state is with all workers, and has not been asked for.");
  captured_ = run_.capture()->entries();
  for (const auto& [owner, resident] : plan().elsewhere) {
    std::vector<std::byte>& bytes = whole_[resident.name];
    bytes.resize(resident.bytes);
    captured_.push_back({&resident, bytes});
  }
  return ok_status();
}

}  // namespace graft::train
