#include "runtime/train/feeder.h"

#include <algorithm>
#include <cstring>

namespace graft::train {
namespace {

/// For each element of a sample held as `perm` says, its place in the source's order; the batch axis is not moved.
std::vector<std::uint32_t> element_order(const std::vector<std::int64_t>& shape, const SourcePerm& perm) {
  // shape is graft's, with the batch axis; source_dims[a] is the extent of source axis a.
  const std::size_t rank = shape.size();
  std::vector<std::uint64_t> source_dims(rank), source_strides(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) source_dims[perm[i]] = static_cast<std::uint64_t>(shape[i]);
  for (std::size_t a = rank - 1; a > 1; --a) source_strides[a - 1] = source_strides[a] * source_dims[a];
  std::vector<std::uint32_t> order = {0};
  for (std::size_t i = 1; i < rank; ++i) {
    std::vector<std::uint32_t> next;
    next.reserve(order.size() * static_cast<std::size_t>(shape[i]));
    for (const std::uint32_t base : order) {
      for (std::int64_t k = 0; k < shape[i]; ++k) {
        next.push_back(base + static_cast<std::uint32_t>(static_cast<std::uint64_t>(k) * source_strides[perm[i]]));
      }
    }
    order = std::move(next);
  }
  return order;
}

}  // namespace

Status Feeder::add(const data::Field& field, std::size_t index, const PlanPort& port, std::size_t input,
                   const SourcePerm& perm) {
  Route route{index, input, field.shape.elements(), false, {}, {}};
  if (route.elements * samples_ != port.shape.elements()) {
    return invalid("The input \"", port.name, "\" has the shape ", port.shape.text(), " for ", samples_,
                   " samples, but field \"", field.name, "\" of the data has the shape ", field.shape.text(),
                   " for each.");
  }
  route.to_float = port.dtype == DType::f32 && field.dtype == DType::i32;
  if (port.dtype != field.dtype && !route.to_float) {
    return invalid("The input \"", port.name, "\" is of type ", dtype_name(port.dtype), ", but field \"", field.name,
                   "\" of the data is of type ", dtype_name(field.dtype), ".");
  }
  if (!perm.empty()) {
    if (perm[0] != 0) return unsupported("The input \"", port.name, "\" does not begin with its batch axis.");
    route.order = element_order(port.shape.values(), perm);
  }
  routes_.push_back(std::move(route));
  return {};
}

Result<Feeder> Feeder::create(const std::vector<data::Field>& fields, const Graph& model, const SizedPlan& sized) {
  Feeder feeder;
  feeder.samples_ = static_cast<std::uint64_t>(sized.samples);
  feeder.fields_ = fields;
  std::vector<bool> taken(fields.size());
  const auto& inputs = sized.plan.inputs;
  const auto take = [&](auto fits) -> std::size_t {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (!taken[f] && fits(fields[f])) {
        taken[f] = true;
        return f;
      }
    }
    return fields.size();
  };
  std::vector<std::size_t> field_of(inputs.size(), fields.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool target = inputs[i].value == sized.loss.target.index;
    field_of[i] = take([&](const data::Field& field) {
      return target ? field.role == data::Role::label
                    : field.role == data::Role::feature && field.name == inputs[i].name;
    });
    if (target && field_of[i] == fields.size()) return invalid("The data set has no labels, but the loss needs them.");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].used) continue;
    if (field_of[i] == fields.size()) {
      field_of[i] = take([](const data::Field& field) { return field.role == data::Role::feature; });
    }
    if (field_of[i] == fields.size()) {
      return invalid("The data set has no field for the model's input \"", inputs[i].name, "\" of shape ",
                     inputs[i].shape.text(), ".");
    }
    SourcePerm perm;
    if (const ValueId value = model.find_value(inputs[i].name); value.valid()) perm = model.value(value).source_perm;
    GRAFT_TRY(feeder.add(fields[field_of[i]], field_of[i], inputs[i], i, perm));
    const auto rule = std::ranges::find(sized.rules, inputs[i].name, &passes::InputRule::input);
    const bool checked = rule != sized.rules.end() && rule->dtype == fields[field_of[i]].dtype;
    if (checked) feeder.routes_.back().rule = *rule;
  }
  return feeder;
}

Status Feeder::check(const data::Batch& batch, std::uint64_t first, std::uint64_t count) const {
  for (const Route& route : routes_) {
    if (!route.rule) continue;
    const std::span<const std::byte> bytes =
        batch.field(route.field).subspan(first * route.elements * 4, count * route.elements * 4);
    const auto offence = passes::find_offence(*route.rule, bytes);
    if (!offence) continue;
    const std::uint64_t sample = *offence / route.elements;
    const data::Field& field = fields_[route.field];
    return invalid("Field \"", field.name, "\" of ", batch.name_of(first + sample), " ",
                   passes::offence_text(*route.rule, bytes.subspan(sample * route.elements * 4, route.elements * 4),
                                        *offence % route.elements, field.shape.values()));
  }
  return ok_status();
}

void Feeder::copy(const data::Batch& batch, std::uint64_t first, Program& program) const {
  for (const Route& route : routes_) {
    const std::uint64_t count = samples_ * route.elements;
    const std::byte* from = batch.field(route.field).data() + first * route.elements * 4;
    std::byte* to = program.input(route.input).data();
    if (route.order.empty() && !route.to_float) {
      std::memcpy(to, from, count * 4);
      continue;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t sample = i / route.elements * route.elements;
      const std::byte* at = from + 4 * (route.order.empty() ? i : sample + route.order[i - sample]);
      if (route.to_float) {
        std::int32_t whole = 0;
        std::memcpy(&whole, at, 4);
        const auto number = static_cast<float>(whole);
        std::memcpy(to + 4 * i, &number, 4);
      } else {
        std::memcpy(to + 4 * i, at, 4);
      }
    }
  }
}

std::uint64_t loss_count(const std::vector<data::Field>& fields, const LossOptions& loss, const data::Batch& batch) {
  return loss_count(fields, loss, batch, 0, batch.count());
}

std::uint64_t loss_count(const std::vector<data::Field>& fields, const LossOptions& loss, const data::Batch& batch,
                         std::uint64_t first, std::uint64_t count) {
  const auto label = std::find_if(fields.begin(), fields.end(),
                                  [](const data::Field& field) { return field.role == data::Role::label; });
  const auto field = static_cast<std::size_t>(label - fields.begin());
  const std::uint64_t rows = label->shape.elements();
  if (loss.kind != Loss::cross_entropy) return count * rows;
  const std::span<const std::byte> bytes = batch.field(field);
  std::uint64_t counted = 0;
  for (std::uint64_t i = first * rows; i < (first + count) * rows; ++i) {
    std::int32_t value = 0;
    std::memcpy(&value, bytes.data() + 4 * i, 4);
    counted += value == loss.ignore_index ? 0 : 1;
  }
  return counted;
}

}  // namespace graft::train
