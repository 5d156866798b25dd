#include "runtime/train/feeder.h"

#include <algorithm>
#include <cmath>
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

/// The whole number that four bytes of a float are; nullopt where they are none.
std::optional<std::int32_t> whole_at(const std::byte* at) {
  float number = 0;
  std::memcpy(&number, at, 4);
  if (!(number >= -0x1p31f && number < 0x1p31f) || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int32_t>(number);
}

/// Fields of names that are meant for something which is not there. An input that nothing reads may be given.
Status check_taken(const std::vector<data::Field>& fields, const std::vector<bool>& taken, const Graph& model,
                   const std::vector<PlanPort>& inputs) {
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (taken[f] || model.find_value(fields[f].name).valid()) continue;
    if (fields[f].role == data::Role::weight) {
      return invalid("The data set has sample weights, \"", fields[f].name, "\", which the loss does not take.");
    }
    if (!fields[f].exact || fields[f].role != data::Role::feature) continue;
    std::string names;
    for (const PlanPort& input : inputs) names += cat(names.empty() ? "" : ", ", '"', input.name, '"');
    return invalid("The data set has \"", fields[f].name,
                   "\", but the model has no input of that name; its inputs and ", "targets are ", names, ".");
  }
  return {};
}

}  // namespace

Status Feeder::add(const data::Field& field, std::size_t index, const PlanPort& port, std::size_t input,
                   const SourcePerm& perm) {
  Route route{index, input, field.shape.elements(), false, false, {}, {}};
  if (route.elements * samples_ != port.shape.elements()) {
    return invalid("The input \"", port.name, "\" has the shape ", port.shape.text(), " for ", samples_,
                   " samples, but field \"", field.name, "\" of the data has the shape ", field.shape.text(),
                   " for each.");
  }
  route.to_float = port.dtype == DType::f32 && field.dtype == DType::i32;
  route.to_integer = port.dtype == DType::i32 && field.dtype == DType::f32 && field.role == data::Role::feature;
  if (port.dtype != field.dtype && !route.to_float && !route.to_integer) {
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
      field_of[i] = take([](const data::Field& field) { return field.role == data::Role::feature && !field.exact; });
    }
    if (field_of[i] == fields.size()) {
      return invalid("The data set has no field for the model's input \"", inputs[i].name, "\" of shape ",
                     inputs[i].shape.text(), ".");
    }
    SourcePerm perm;
    if (const ValueId value = model.find_value(inputs[i].name); value.valid()) perm = model.value(value).source_perm;
    GRAFT_TRY(feeder.add(fields[field_of[i]], field_of[i], inputs[i], i, perm));
    const auto rule = std::ranges::find(sized.rules, inputs[i].name, &passes::InputRule::input);
    const bool checked =
        rule != sized.rules.end() && (rule->dtype == fields[field_of[i]].dtype || feeder.routes_.back().to_integer);
    if (checked) feeder.routes_.back().rule = *rule;
  }
  GRAFT_TRY(check_taken(fields, taken, model, inputs));
  return feeder;
}

Status Feeder::check_integers(const Route& route, const data::Batch& batch, std::uint64_t first,
                              std::uint64_t count) const {
  const std::span<const std::byte> bytes = batch.field(route.field);
  const data::Field& field = fields_[route.field];
  for (std::uint64_t i = first * route.elements; i < (first + count) * route.elements; ++i) {
    const auto whole = whole_at(bytes.data() + 4 * i);
    const auto name = [&] { return cat("Field \"", field.name, "\" of ", batch.name_of(i / route.elements), ' '); };
    if (!whole) {
      float number = 0;
      std::memcpy(&number, bytes.data() + 4 * i, 4);
      return invalid(name(), "holds ", number, ", but the model's input takes whole numbers of 32 bits.");
    }
    if (!route.rule) continue;
    const auto word = std::as_bytes(std::span(&*whole, 1));
    if (!passes::find_offence(*route.rule, word)) continue;
    return invalid(name(), passes::offence_text(*route.rule, word, 0, {}));
  }
  return ok_status();
}

Status Feeder::check(const data::Batch& batch, std::uint64_t first, std::uint64_t count) const {
  for (const Route& route : routes_) {
    if (route.to_integer) GRAFT_TRY(check_integers(route, batch, first, count));
    if (!route.rule || route.to_integer) continue;
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
    if (route.order.empty() && !route.to_float && !route.to_integer) {
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
      } else if (route.to_integer) {
        const std::int32_t whole = whole_at(at).value_or(0);
        std::memcpy(to + 4 * i, &whole, 4);
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
