#include "runtime/train/run/fetched_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/core/source_order.h"

namespace graft::train {

Result<FetchedValues> FetchedValues::create(const TrainingSetup& setup, const TrainingPlan& plan) {
  FetchedValues out;
  if (setup.options.fetch.empty() || plan.training.empty()) return out;
  GRAFT_TRY_ASSIGN(const std::string batch, batch_symbol(setup.model));
  const SizedPlan& sized = plan.training.front();
  for (const std::string& name : setup.options.fetch) {
    const auto& outputs = sized.plan.outputs;
    const auto port = std::find_if(outputs.begin(), outputs.end(),
                                   [&](const PlanPort& p) { return p.name == cat(kFetchPrefix, name); });
    if (port == outputs.end()) return internal_error("The plan does not fetch \"", name, "\".");
    GRAFT_TRY_ASSIGN(const ValueId id, setup.model.resolve(name));
    const Shape shape = source_shape(setup.model.value(id));
    Value value{name, port->dtype, port->shape, shape.rank() > 0 && shape[0] == Dim::symbol(batch), {}};
    std::uint64_t bytes = port->bytes;
    if (value.by_sample) {
      bytes = bytes / static_cast<std::uint64_t>(sized.samples) * static_cast<std::uint64_t>(setup.options.batch);
    }
    GRAFT_TRY_ASSIGN(value.contents, HostBuffer::create(bytes, "a fetched value", setup.trainer.allocator));
    out.values_.push_back(std::move(value));
  }
  return out;
}

void FetchedValues::keep(const Program& program, std::uint64_t first, std::uint64_t samples) {
  samples_ = first + samples;
  if (values_.empty()) return;
  const auto& outputs = program.plan().outputs;
  for (std::size_t i = 0, f = 0; i < outputs.size() && f < values_.size(); ++i) {
    if (!outputs[i].name.starts_with(kFetchPrefix)) continue;  // they stand in the order of the options
    Value& value = values_[f++];
    const std::span<const std::byte> bytes = program.output(i);
    const std::uint64_t at = value.by_sample ? bytes.size() / samples * first : 0;
    if (!bytes.empty()) std::memcpy(value.contents.data() + at, bytes.data(), bytes.size());
  }
}

Result<FetchedValue> FetchedValues::find(std::string_view name) const {
  for (const Value& value : values_) {
    if (value.name != name) continue;
    if (samples_ == 0) return invalid("\"", name, "\" is fetched by a step, and none has been taken.");
    std::vector<Dim> dims = value.shape.dims();
    if (value.by_sample) dims[0] = Dim(static_cast<std::int64_t>(samples_));
    Shape shape(std::move(dims));
    const std::uint64_t bytes = shape.elements() * dtype_size(value.dtype);
    return FetchedValue{value.dtype, std::move(shape), value.contents.bytes().first(bytes)};
  }
  return error(Code::not_found, "\"", name, "\" is not among the values that training fetches.");
}

}  // namespace graft::train
