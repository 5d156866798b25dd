#include "runtime/train/run/feeder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "runtime/data/ranges.h"

namespace graft::train {
namespace {

/// The sizes of an input in the source's order, without the batch: of a first axis that holds several times the batch,
/// the rest.
std::vector<std::int64_t> sample_dims(const std::vector<std::int64_t>& shape, const SourcePerm& perm,
                                      std::optional<std::size_t> batch_axis, std::uint64_t samples) {
  std::vector<std::int64_t> dims = shape;
  for (std::size_t i = 0; i < perm.size(); ++i) dims[perm[i]] = shape[i];
  if (!batch_axis) return dims;
  const auto batch = static_cast<std::int64_t>(samples);
  if (dims[*batch_axis] == batch) {
    dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(*batch_axis));
  } else {
    dims[*batch_axis] /= batch;
  }
  return dims;
}

/// Whether elements of one shape are those of the other in order: axes of one element aside, the same sizes, or one of
/// them is flat.
bool same_order(std::vector<std::int64_t> a, std::vector<std::int64_t> b) {
  std::erase(a, 1);
  std::erase(b, 1);
  return a == b || a.size() <= 1 || b.size() <= 1;
}

/// For each element of a sample held as `perm` says, its place in the source's order; the batch axis is left out.
std::vector<std::uint32_t> element_order(const std::vector<std::int64_t>& shape, const SourcePerm& perm,
                                         std::size_t batch_axis) {
  // shape is graft's, with the batch axis; source_dims[a] is the extent of source axis a.
  const std::size_t rank = shape.size();
  std::vector<std::uint64_t> source_dims(rank), source_strides(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) source_dims[perm[i]] = static_cast<std::uint64_t>(shape[i]);
  if (batch_axis < rank) source_dims[batch_axis] = 1;
  for (std::size_t a = rank - 1; a > 0; --a) source_strides[a - 1] = source_strides[a] * source_dims[a];
  std::vector<std::uint32_t> order = {0};
  for (std::size_t i = 0; i < rank; ++i) {
    if (perm[i] == batch_axis) continue;
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

/// 0 or 1, of four bytes of a float or an integer; nullopt of anything else.
std::optional<std::int32_t> truth_at(const std::byte* at, DType dtype) {
  std::int32_t number = 0;
  std::memcpy(&number, at, 4);
  const auto whole = dtype == DType::f32 ? whole_at(at) : number;
  return whole == 0 || whole == 1 ? whole : std::nullopt;
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

constexpr double kMostWeight = 1 << 20;

double number_at(const data::Field& field, std::span<const std::byte> bytes, std::uint64_t index) {
  if (field.dtype == DType::i32) {
    std::int32_t number = 0;
    std::memcpy(&number, bytes.data() + 4 * index, 4);
    return number;
  }
  float number = 0;
  std::memcpy(&number, bytes.data() + 4 * index, 4);
  return double{number};
}

/// The first element that the rule does not take.
std::optional<std::uint64_t> first_offence(const passes::InputRule& rule, std::span<const std::byte> bytes) {
  std::array<std::optional<std::uint64_t>, data::kMostRanges> found;
  data::in_ranges(bytes.size() / 4, 4, [&](std::size_t i, data::ElementRange elements) {
    const auto part = bytes.subspan(4 * elements.first, 4 * (elements.end - elements.first));
    if (const auto at = passes::find_offence(rule, part)) found[i] = elements.first + *at;
  });
  for (const auto& at : found) {
    if (at) return at;
  }
  return std::nullopt;
}

struct Rows {
  double number = 0;
  double weight = 0;
};

/// Labels of a sample that count.
Rows count_rows(const LossCount& count, const data::Field& field, std::span<const std::byte> bytes,
                std::uint64_t sample) {
  Rows rows;
  const std::uint64_t each = field.shape.elements();
  for (std::uint64_t i = sample * each; i < (sample + 1) * each; ++i) {
    std::int32_t label = 0;
    std::memcpy(&label, bytes.data() + 4 * i, 4);
    if (label == count.ignore_index) continue;
    rows.number += 1;
    const auto at = static_cast<std::size_t>(label);
    const bool known = label >= 0 && at < count.class_weights.size();
    rows.weight += count.class_weights.empty() ? 1 : known ? count.class_weights[at] : 0;
  }
  return rows;
}

}  // namespace

Status nothing_counts(std::uint64_t step, const LossWeights& weights, std::int64_t ignore_index) {
  if (weights.rows > 0) {
    return invalid("All samples of step ", step, "'s batch weigh 0, by their own weights or those of their classes: ",
                   "there is nothing to learn from.");
  }
  return invalid("All labels of step ", step, "'s batch are ", ignore_index,
                 ", which is ignored: there is nothing to learn from.");
}

Status Feeder::add(const data::Field& field, std::size_t index, const PlanPort& port, std::size_t input,
                   const Value* value, std::string_view symbol) {
  const SourcePerm perm = value != nullptr ? value->source_perm : SourcePerm();
  const std::size_t rank = port.shape.rank();
  std::optional<std::size_t> axis = value != nullptr ? batch_axis(*value, symbol) : std::optional<std::size_t>(0);
  if (rank == 0) axis = std::nullopt;
  if (field.packed) {
    return invalid("Field \"", field.name, "\" of the data is given as ", field.type_name(), ", and the input \"",
                   port.name, "\" of the trainer as ", dtype_name(port.dtype), ".");
  }
  Route route{.field = index, .input = input, .elements = field.shape.elements()};
  const std::vector<std::int64_t> wanted = sample_dims(port.shape.values(), perm, axis, samples_);
  const std::uint64_t parts = axis ? samples_ : 1;
  if (route.elements * parts != port.shape.elements() || !same_order(wanted, field.shape.values())) {
    return invalid("The input \"", port.name, "\" takes the shape ", Shape::of(wanted).text(),
                   axis ? " for each sample" : " for all samples", ", but field \"", field.name,
                   "\" of the data has the shape ", field.shape.text(), ".");
  }
  route.shared = !axis;
  route.to_float = port.dtype == DType::f32 && field.dtype == DType::i32;
  route.to_integer = port.dtype == DType::i32 && field.dtype == DType::f32 && field.role == data::Role::feature;
  route.to_truth = port.dtype == DType::boolean && (field.dtype == DType::f32 || field.dtype == DType::i32);
  if (port.dtype != field.dtype && !route.to_float && !route.to_integer && !route.to_truth) {
    return invalid("The input \"", port.name, "\" is of type ", dtype_name(port.dtype), ", but field \"", field.name,
                   "\" of the data is of type ", dtype_name(field.dtype), ".");
  }
  if (!perm.empty()) route.order = element_order(port.shape.values(), perm, axis.value_or(rank));
  std::size_t place = axis.value_or(0);
  for (std::size_t i = 0; axis && i < perm.size(); ++i) {
    if (perm[i] == *axis) place = i;
  }
  if (place > 0) route.inner = port.shape.elements(place + 1, rank);
  routes_.push_back(std::move(route));
  return {};
}

Status Feeder::add_packed(const data::Field& field, std::size_t index, const passes::PackedShape& given,
                          std::size_t input) {
  if (field.packed != given.element) {
    return invalid("The input \"", given.input, "\" of the trainer is given as ", packed_name(given.element),
                   ", but field \"", field.name, "\" of the data as ", field.type_name(), ".");
  }
  const Route route{.field = index,
                    .input = input,
                    .elements = field.shape.elements(),
                    .bytes = packed_size(given.element),
                    .packed = given.element};
  const std::vector<std::int64_t> wanted = sample_dims(given.shape.values(), {}, 0, samples_);
  if (route.elements * samples_ != given.shape.elements() || !same_order(wanted, field.shape.values())) {
    return invalid("The input \"", given.input, "\" takes the shape ", Shape::of(wanted).text(),
                   " for each sample, but field \"", field.name, "\" of the data has the shape ", field.shape.text(),
                   ".");
  }
  routes_.push_back(route);
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
  const LossNodes& loss = sized.loss;
  const auto take_label = [&](ValueId value, const std::string& name) -> Status {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!value.valid() || inputs[i].value != value.index || field_of[i] != fields.size()) continue;
      const auto named = [&](const data::Field& field) {
        return field.role != data::Role::feature && field.name == name;
      };
      if (name.empty()) {
        field_of[i] = take([](const data::Field& field) { return field.role == data::Role::label; });
      } else {  // several terms may take one field
        field_of[i] = static_cast<std::size_t>(std::ranges::find_if(fields, named) - fields.begin());
        if (field_of[i] != fields.size()) taken[field_of[i]] = true;
      }
      if (field_of[i] != fields.size()) continue;
      if (name.empty()) return invalid("The data set has no labels, but the loss needs them.");
      return invalid("The data set has no target \"", name, "\", but the loss needs it.");
    }
    return ok_status();
  };
  GRAFT_TRY(take_label(loss.sample_weights, loss.weights_field));
  GRAFT_TRY(take_label(loss.reference, std::string(kReferenceField)));
  for (std::size_t t = 0; t < loss.targets.size(); ++t) GRAFT_TRY(take_label(loss.targets[t], loss.fields[t]));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (field_of[i] != fields.size()) continue;
    field_of[i] = take(
        [&](const data::Field& field) { return field.role == data::Role::feature && field.name == inputs[i].name; });
  }
  feeder.terms_.resize(loss.counts.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t t = 0; t < loss.counts.size(); ++t) {
      feeder.terms_[t].count = loss.counts[t];
      const bool its = loss.targets[t].valid() && inputs[i].value == loss.targets[t].index;
      if (its) feeder.terms_[t].labels = field_of[i];
      if (its && loss.counts[t].by_label && fields[field_of[i]].dtype != DType::i32) {
        return invalid("The loss takes field \"", fields[field_of[i]].name,
                       "\" of the data for labels, which are whole ", "numbers of 32 bits, but it is of type ",
                       dtype_name(fields[field_of[i]].dtype), ".");
      }
    }
    if (loss.sample_weights.valid() && inputs[i].value == loss.sample_weights.index) feeder.weights_ = field_of[i];
  }
  GRAFT_TRY_ASSIGN(const std::string symbol, batch_symbol(model));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].used) continue;
    const ValueId of_model = model.find_value(inputs[i].name);
    const bool is_input = of_model.valid() && model.value(of_model).kind == ValueKind::input;
    const Value* const value = is_input ? &model.value(of_model) : nullptr;
    if (field_of[i] == fields.size() && value != nullptr && value->dtype == DType::f32 &&
        batch_axis(*value, symbol).value_or(0) > 0) {
      feeder.zeros_.push_back(i);
      continue;
    }
    if (field_of[i] == fields.size()) {
      field_of[i] = take([](const data::Field& field) { return field.role == data::Role::feature && !field.exact; });
    }
    if (field_of[i] == fields.size()) {
      return invalid("The data set has no field for the model's input \"", inputs[i].name, "\" of shape ",
                     inputs[i].shape.text(), ".");
    }
    const auto packed = std::ranges::find(sized.packed, inputs[i].name, &passes::PackedShape::input);
    if (packed != sized.packed.end()) {
      GRAFT_TRY(feeder.add_packed(fields[field_of[i]], field_of[i], *packed, i));
      continue;
    }
    GRAFT_TRY(feeder.add(fields[field_of[i]], field_of[i], inputs[i], i, value, symbol));
    const auto rule = std::ranges::find(sized.rules, inputs[i].name, &passes::InputRule::input);
    const bool checked =
        rule != sized.rules.end() && (rule->dtype == fields[field_of[i]].dtype || feeder.routes_.back().to_integer);
    if (checked) feeder.routes_.back().rule = *rule;
  }
  GRAFT_TRY(check_taken(fields, taken, model, inputs));
  return feeder;
}

Status Feeder::check_truths(const Route& route, const data::Batch& batch, std::uint64_t first,
                            std::uint64_t count) const {
  const std::span<const std::byte> bytes = batch.field(route.field);
  const data::Field& field = fields_[route.field];
  for (std::uint64_t i = first * route.elements; i < (first + count) * route.elements; ++i) {
    if (truth_at(bytes.data() + 4 * i, field.dtype)) continue;
    return invalid("Field \"", field.name, "\" of ", batch.name_of(i / route.elements),
                   " holds a number that is neither 0 nor 1, but the model's input takes truth values.");
  }
  return ok_status();
}

Status Feeder::check_shared(const Route& route, const data::Batch& batch, std::uint64_t first,
                            std::uint64_t count) const {
  const std::uint64_t each = route.elements * route.bytes;
  const std::span<const std::byte> bytes = batch.field(route.field);
  for (std::uint64_t sample = first + 1; sample < first + count; ++sample) {
    if (std::ranges::equal(bytes.subspan(first * each, each), bytes.subspan(sample * each, each))) continue;
    return invalid("Field \"", fields_[route.field].name, "\" of ", batch.name_of(sample), " differs from ",
                   batch.name_of(first), ", but the model's input has no batch axis: it is one for all samples.");
  }
  return ok_status();
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

Status Feeder::check_halves(const Route& route, const data::Batch& batch, std::uint64_t first,
                            std::uint64_t count) const {
  const std::uint64_t each = route.elements * route.bytes;
  const auto at = passes::find_non_finite(*route.packed, batch.field(route.field).subspan(first * each, count * each));
  if (!at) return ok_status();
  return invalid("Field \"", fields_[route.field].name, "\" of ", batch.name_of(first + *at / route.elements),
                 " is not finite at element ", *at % route.elements, ".");
}

Status Feeder::check(const data::Batch& batch, std::uint64_t first, std::uint64_t count) const {
  for (const Route& route : routes_) {
    if (route.shared) GRAFT_TRY(check_shared(route, batch, first, count));
    if (route.to_integer) GRAFT_TRY(check_integers(route, batch, first, count));
    if (route.to_truth) GRAFT_TRY(check_truths(route, batch, first, count));
    if (route.packed) GRAFT_TRY(check_halves(route, batch, first, count));
    if (!route.rule || route.to_integer) continue;
    const std::span<const std::byte> bytes =
        batch.field(route.field).subspan(first * route.elements * 4, count * route.elements * 4);
    const auto offence = first_offence(*route.rule, bytes);
    if (!offence) continue;
    const std::uint64_t sample = *offence / route.elements;
    const data::Field& field = fields_[route.field];
    return invalid("Field \"", field.name, "\" of ", batch.name_of(first + sample), " ",
                   passes::offence_text(*route.rule, bytes.subspan(sample * route.elements * 4, route.elements * 4),
                                        *offence % route.elements, field.shape.values()));
  }
  return ok_status();
}

void Feeder::copy_elements(const Route& route, const std::byte* from, std::byte* to,
                           data::ElementRange elements) const {
  for (std::uint64_t i = elements.first; i < elements.end; ++i) {
    std::uint64_t sample = i / route.elements, element = i % route.elements;
    if (route.inner != 0) {
      sample = i / route.inner % samples_;
      element = i / (route.inner * samples_) * route.inner + i % route.inner;
    }
    const std::byte* at = from + 4 * (sample * route.elements + (route.order.empty() ? element : route.order[element]));
    if (route.to_float) {
      std::int32_t whole = 0;
      std::memcpy(&whole, at, 4);
      const auto number = static_cast<float>(whole);
      std::memcpy(to + 4 * i, &number, 4);
    } else if (route.to_integer) {
      const std::int32_t whole = whole_at(at).value_or(0);
      std::memcpy(to + 4 * i, &whole, 4);
    } else if (route.to_truth) {
      const std::int32_t truth = truth_at(at, fields_[route.field].dtype).value_or(0);
      std::memcpy(to + 4 * i, &truth, 4);
    } else {
      std::memcpy(to + 4 * i, at, 4);
    }
  }
}

void Feeder::copy(const data::Batch& batch, std::uint64_t first, Program& program) const {
  for (const std::size_t input : zeros_) std::ranges::fill(program.input(input), std::byte{0});
  for (const Route& route : routes_) {
    const std::uint64_t count = (route.shared ? 1 : samples_) * route.elements;
    const std::byte* from = batch.field(route.field).data() + first * route.elements * route.bytes;
    const std::span<std::byte> staging = program.input(route.input);
    std::byte* to = staging.data();
    const bool as_it_is =
        route.order.empty() && route.inner == 0 && !route.to_float && !route.to_integer && !route.to_truth;
    data::in_ranges(count, route.bytes, [&](std::size_t, data::ElementRange elements) {
      if (!as_it_is) return copy_elements(route, from, to, elements);
      const std::uint64_t at = elements.first * route.bytes;
      std::memcpy(to + at, from + at, (elements.end - elements.first) * route.bytes);
    });
    if (as_it_is) std::ranges::fill(staging.subspan(count * route.bytes), std::byte{0});  // to the end of the last word
  }
}

Result<LossWeights> Feeder::weigh(const data::Batch& batch, std::uint64_t first, std::uint64_t count) const {
  LossWeights out;
  out.samples = count;
  for (std::uint64_t sample = first; sample < first + count; ++sample) {
    double weight = 1;
    if (weights_) {
      weight = number_at(fields_[*weights_], batch.field(*weights_), sample);
      if (!(weight >= 0 && weight <= kMostWeight)) {
        return invalid("The weight of ", batch.name_of(sample), ", field \"", fields_[*weights_].name, "\", is ",
                       weight, "; it must lie in [0, ", kMostWeight, "].");
      }
    }
    for (std::size_t t = 0; t < terms_.size(); ++t) {
      double rows = terms_[t].count.per_sample, weighted = rows;
      if (terms_[t].count.by_label && terms_[t].labels) {
        const Rows counted =
            count_rows(terms_[t].count, fields_[*terms_[t].labels], batch.field(*terms_[t].labels), sample);
        rows = counted.number;
        weighted = counted.weight;
      }
      // Integers: their sum does not depend on who adds them up.
      out.terms[t] += static_cast<std::uint64_t>(std::llround(weight * weighted / kLossWeightUnit));
      if (t == 0) out.rows += static_cast<std::uint64_t>(rows);
    }
  }
  return out;
}

}  // namespace graft::train
