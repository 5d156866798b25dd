// Values of the forward pass, read after each step.
#include <algorithm>
#include <cstring>

#include "runtime/core/source_order.h"
#include "runtime/train/trainer.h"

namespace graft::train {

/// Memory for what will be fetched, so that a step allocates none.
Status Trainer::prepare_fetches() {
  if (options_.fetch.empty() || plan_.training.empty()) return {};
  GRAFT_TRY_ASSIGN(const std::string batch, batch_symbol(model_));
  const SizedPlan& sized = plan_.training.front();
  for (const std::string& name : options_.fetch) {
    const auto& outputs = sized.plan.outputs;
    const auto port = std::find_if(outputs.begin(), outputs.end(),
                                   [&](const PlanPort& p) { return p.name == cat(kFetchPrefix, name); });
    if (port == outputs.end()) return internal_error("The plan does not fetch \"", name, "\".");
    GRAFT_TRY_ASSIGN(const ValueId id, model_.resolve(name));
    const Shape shape = source_shape(model_.value(id));
    Fetched fetched{name, port->dtype, port->shape, shape.rank() > 0 && shape[0] == Dim::symbol(batch), {}};
    std::uint64_t bytes = port->bytes;
    if (fetched.by_sample) {
      bytes = bytes / static_cast<std::uint64_t>(sized.samples) * static_cast<std::uint64_t>(options_.batch);
    }
    GRAFT_TRY_ASSIGN(fetched.contents, HostBuffer::create(bytes, "a fetched value", trainer_options_.allocator));
    fetched_.push_back(std::move(fetched));
  }
  return {};
}

void Trainer::keep_fetched(const Program& program, std::uint64_t first, std::uint64_t samples) {
  fetched_samples_ = first + samples;
  if (fetched_.empty()) return;
  const auto& outputs = program.plan().outputs;
  for (std::size_t i = 0, f = 0; i < outputs.size() && f < fetched_.size(); ++i) {
    if (!outputs[i].name.starts_with(kFetchPrefix)) continue;  // they stand in the order of the options
    Fetched& fetched = fetched_[f++];
    const std::span<const std::byte> bytes = program.output(i);
    const std::uint64_t at = fetched.by_sample ? bytes.size() / samples * first : 0;
    if (!bytes.empty()) std::memcpy(fetched.contents.data() + at, bytes.data(), bytes.size());
  }
}

Result<FetchedValue> Trainer::fetch(std::string_view name) const {
  for (const Fetched& fetched : fetched_) {
    if (fetched.name != name) continue;
    if (fetched_samples_ == 0) return invalid("\"", name, "\" is fetched by a step, and none has been taken.");
    std::vector<Dim> dims = fetched.shape.dims();
    if (fetched.by_sample) dims[0] = Dim(static_cast<std::int64_t>(fetched_samples_));
    Shape shape(std::move(dims));
    const std::uint64_t bytes = shape.elements() * dtype_size(fetched.dtype);
    return FetchedValue{fetched.dtype, std::move(shape), fetched.contents.bytes().first(bytes)};
  }
  return error(Code::not_found, "\"", name, "\" is not among the values that training fetches.");
}

}  // namespace graft::train
