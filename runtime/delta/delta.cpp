#include "runtime/delta/delta.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "platform/base/half.h"
#include "runtime/core/finite.h"
#include "runtime/delta/privacy.h"
#include "runtime/lora/adapter.h"

namespace graft::delta {
namespace {

bool is_number(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

float number_of(std::span<const std::byte> bytes, DType dtype, std::size_t index) {
  if (dtype == DType::f16) return half_to_float(number_at<std::uint16_t>(bytes, index));
  if (dtype == DType::bf16) return bfloat_to_float(number_at<std::uint16_t>(bytes, index));
  return number_at<float>(bytes, index);
}

void set_number(std::span<std::byte> bytes, DType dtype, std::size_t index, float number) {
  if (dtype == DType::f32) {
    std::memcpy(&bytes[4 * index], &number, 4);
    return;
  }
  const std::uint16_t bits = dtype == DType::f16 ? float_to_half(number) : float_to_bfloat(number);
  std::memcpy(&bytes[2 * index], &bits, 2);
}

bool is_adapter(const Model& model) { return model.metadata.contains(kMetaAdapter); }

std::string file_of(const Model& model) {
  const std::string_view source = model.source();
  return std::string(source.substr(source.rfind('/') + 1));
}

std::string named(const Hash128& base, const std::string& file) {
  return cat(file.empty() ? "a model" : cat("\"", file, "\""), " (weights ", hash_text(base), ")");
}

Status check_options(const MakeOptions& options) {
  if (options.samples == 0) return invalid("A delta of 0 samples weighs nothing.");
  if (options.noise > 0 && options.clip_norm == 0) {
    return invalid("Noise hides a client only where the delta's norm has a bound: clip it, too.");
  }
  return ok_status();
}

/// `updated` minus `base`; an empty base counts as 0.
Result<std::vector<double>> difference(const Value& value, std::span<const std::byte> base,
                                       std::span<const std::byte> updated) {
  if (!is_number(value.dtype)) {
    return invalid("The weight \"", value.name, "\" of type ", dtype_name(value.dtype),
                   " differs; a delta holds changes of f32, f16 and bf16.");
  }
  for (const auto bytes : {base, updated}) {
    if (const auto bad = find_non_finite(bytes, value.dtype)) {
      return invalid("The weight \"", value.name, "\" is not finite at element ", *bad, ".");
    }
  }
  std::vector<double> out(value.shape.elements());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = number_of(updated, value.dtype, i);
    if (!base.empty()) out[i] -= static_cast<double>(number_of(base, value.dtype, i));
  }
  return out;
}

/// `all`: also those of the trainable tensors that did not change.
Result<Numbers> changes_between(const Model& base, const Model& updated, bool all, Delta& delta) {
  Numbers changes;
  const auto weights = [](const Model& model) {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) count += model.weight({i}) ? 1 : 0;
    return count;
  };
  const bool adapters = delta.kind == Kind::adapters;
  if (!adapters && weights(base) > weights(updated)) {
    return invalid("The updated model has ", weights(updated), " weights and its base ", weights(base),
                   ": they are not of one graph.");
  }
  for (std::uint32_t i = 0; i < updated.graph.values().size(); ++i) {
    const Value& value = updated.graph.values()[i];
    const auto now = updated.weight({i});
    if (!now) continue;
    std::span<const std::byte> then;
    if (!adapters) {
      const ValueId id = base.graph.find_value(value.name);
      const bool like = id.valid() && base.graph.value(id).dtype == value.dtype &&
                        base.graph.value(id).shape == value.shape &&
                        base.graph.value(id).source_perm == value.source_perm;
      if (!like) return invalid("The base has no weight \"", value.name, "\" of the same type and shape.");
      then = base.weight(id).value_or(std::span<const std::byte>());
    }
    const bool equal = then.size() == now->size() && std::memcmp(then.data(), now->data(), then.size()) == 0;
    if (equal && !(all && value.kind != ValueKind::constant && is_number(value.dtype))) continue;
    GRAFT_TRY_ASSIGN(auto numbers, difference(value, then, *now));
    if (value.kind == ValueKind::constant) {
      return invalid("The constant \"", value.name, "\" differs; a delta holds changes of parameters and running ",
                     "statistics.");
    }
    changes.emplace(value.name, std::move(numbers));
    delta.tensors.push_back({value.name, value.shape, value.dtype, {}});
  }
  std::ranges::sort(delta.tensors, {}, &Tensor::name);
  return changes;
}

Fixed fixed_of(const Delta& delta, std::uint32_t room) {
  return {std::ldexp(static_cast<double>(delta.samples), static_cast<int>(delta.fixed_bits)), room};
}

Status code(const Delta& delta, Tensor& tensor, std::span<const double> numbers, std::uint32_t room) {
  tensor.coded.resize(coded_bytes(delta.coding, numbers.size()));
  return encode(delta.coding, numbers, fixed_of(delta, room), tensor.coded)
      .with_context(cat("While coding \"", tensor.name, "\""));
}

/// The norm of the numbers as a reader decodes them.
double sent_norm(const Delta& delta) {
  double sum = 0;
  for (const Tensor& tensor : delta.tensors) {
    for (const float x : numbers_of(delta, tensor)) sum += static_cast<double>(x) * static_cast<double>(x);
  }
  return std::sqrt(sum);
}

/// Codes all numbers. Coding rounds, which may make the delta longer: without noise it is scaled down and coded again
/// until what a reader decodes keeps to clip_norm. With noise the clipped numbers are what the noise hides; coding them
/// afterwards takes nothing from that.
Status code_all(Delta& delta, Numbers& changes, const MakeOptions& options) {
  if (const double step = 1 / fixed_of(delta, 1).scale; options.coding == Coding::fixed && delta.noise > 0) {
    if (delta.noise < step) {
      return invalid("Integers with ", delta.fixed_bits, " bits behind the point and ", delta.samples,
                     " samples have steps of ", step, ", longer than the noise's deviation of ", delta.noise,
                     ": take more bits.");
    }
  }
  const bool limited = options.clip_norm > 0 && delta.noise == 0;
  double margin = 0x1p-24;
  for (double norm = norm_of(changes);;) {
    for (Tensor& tensor : delta.tensors) GRAFT_TRY(code(delta, tensor, changes.at(tensor.name), options.room));
    if (!limited && options.coding != Coding::fixed) return ok_status();
    const double sent = sent_norm(delta);
    if (sent == 0 && norm > 0 && options.residual == nullptr) {
      return invalid(
          "A delta of the norm ", norm, " would be sent as zeros: as ", coding_name(options.coding),
          " all its numbers round to 0. Take more bits, another coding, or keep what is lost as a residual.");
    }
    if (!limited || sent <= options.clip_norm) return ok_status();
    for (auto& [name, numbers] : changes) {
      for (double& x : numbers) x *= options.clip_norm / sent * (1 - margin);
    }
    margin = std::min(4 * margin, 0.5);
  }
}

}  // namespace

std::uint64_t Delta::elements() const {
  std::uint64_t total = 0;
  for (const Tensor& tensor : tensors) total += tensor.shape.elements();
  return total;
}

const Tensor* Delta::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(tensors, name, {}, &Tensor::name);
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

std::vector<float> numbers_of(const Delta& delta, const Tensor& tensor) {
  std::vector<float> numbers(tensor.shape.elements());
  decode(delta.coding, tensor.coded, fixed_of(delta, 1), numbers);
  return numbers;
}

Status set_numbers(Delta& delta, std::string_view name, const std::vector<double>& numbers) {
  const auto found = std::ranges::lower_bound(delta.tensors, name, {}, &Tensor::name);
  if (found == delta.tensors.end() || found->name != name) return invalid("The delta has no tensor \"", name, "\".");
  return code(delta, *found, numbers, 1);
}

Result<Delta> make(const Model& base, const Model& updated, const MakeOptions& options) {
  GRAFT_TRY(check_options(options));
  GRAFT_TRY(base.verify_weights());
  GRAFT_TRY(updated.verify_weights());
  Delta delta;
  delta.kind = is_adapter(updated) && !is_adapter(base) ? Kind::adapters : Kind::weights;
  if (is_adapter(base) && !is_adapter(updated)) return invalid("The base is an adapter, what is new a model.");
  if (delta.kind == Kind::adapters) GRAFT_TRY(graft::check_base(base_text(updated), name_of_base(base)));
  if (is_adapter(updated)) {
    GRAFT_TRY_ASSIGN(const auto layers, adapter_layers(updated));
    for (const AdapterLayer& layer : layers) delta.rank = std::max(delta.rank, static_cast<std::uint32_t>(layer.rank));
    delta.metadata = updated.metadata;
  }
  delta.base = weights_hash(base);
  delta.base_file = file_of(base);
  delta.coding = options.coding;
  delta.fixed_bits = options.coding == Coding::fixed ? options.fixed_bits : 0;
  delta.samples = options.samples;
  delta.local_steps = options.local_steps;
  GRAFT_TRY_ASSIGN(auto changes, changes_between(base, updated, options.clip_norm > 0, delta));
  if (options.residual != nullptr) {
    for (auto& [name, numbers] : changes) {
      const auto lost = options.residual->find(name);
      if (lost == options.residual->end()) continue;
      if (lost->second.size() != numbers.size()) {
        return invalid("What earlier rounds lost of \"", name, "\" has ", lost->second.size(), " numbers, not ",
                       numbers.size(), ".");
      }
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] += static_cast<double>(lost->second[i]);
    }
  }
  delta.norm = norm_of(changes);
  delta.clip_norm = options.clip_norm;
  if (options.clip_norm > 0) clip(changes, delta.norm, options.clip_norm);
  delta.noise = options.noise * options.clip_norm;
  if (delta.noise > 0) {
    GRAFT_TRY(add_noise(changes, delta.noise, options.seed));
    delta.norm = norm_of(changes);  // the one before tells of the client
  }
  GRAFT_TRY(code_all(delta, changes, options));
  if (options.residual == nullptr) return delta;
  for (const Tensor& tensor : delta.tensors) {
    const std::vector<double>& numbers = changes.at(tensor.name);
    std::vector<float>& lost = (*options.residual)[tensor.name];
    lost = numbers_of(delta, tensor);
    for (std::size_t i = 0; i < lost.size(); ++i)
      lost[i] = static_cast<float>(numbers[i] - static_cast<double>(lost[i]));
  }
  return delta;
}

Status check_base(const Delta& delta, const Model& base) {
  if (const Hash128 ours = weights_hash(base); !(delta.base == ours)) {
    return invalid("The delta was made for ", named(delta.base, delta.base_file), " and does not belong on ",
                   named(ours, file_of(base)), ".");
  }
  return ok_status();
}

Result<Model> apply(const Model& base, const Delta& delta, double rate) {
  if (!std::isfinite(rate)) return invalid("A rate of ", rate, " applies nothing.");
  GRAFT_TRY(check_base(delta, base));
  GRAFT_TRY(base.verify_weights());
  Model model;
  if (delta.kind == Kind::weights) {
    GRAFT_TRY_ASSIGN(model, borrow_model(base));
  } else {
    model.metadata = delta.metadata;
    model.metadata.insert_or_assign(std::string(kMetaAdapterBase), name_of_base(base));
  }
  for (const Tensor& tensor : delta.tensors) {
    ValueId id = model.graph.find_value(tensor.name);
    if (delta.kind == Kind::adapters) {
      GRAFT_TRY_ASSIGN(id, model.graph.add_value(tensor.name, tensor.dtype, tensor.shape, ValueKind::parameter));
    } else if (!id.valid() || model.graph.value(id).dtype != tensor.dtype ||
               model.graph.value(id).shape != tensor.shape || model.graph.value(id).kind == ValueKind::constant) {
      return invalid("The base has no parameter \"", tensor.name, "\" of the delta's type and shape.");
    }
    const std::vector<float> numbers = numbers_of(delta, tensor);
    const auto then = model.weight(id).value_or(std::span<const std::byte>());
    std::vector<std::byte> bytes(numbers.size() * dtype_size(tensor.dtype));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double before = then.empty() ? 0 : number_of(then, tensor.dtype, i);
      set_number(bytes, tensor.dtype, i, static_cast<float>(before + rate * static_cast<double>(numbers[i])));
    }
    if (const auto bad = find_non_finite(bytes, tensor.dtype)) {
      return invalid("With the delta the weight \"", tensor.name, "\" would not be finite at element ", *bad, ".");
    }
    GRAFT_TRY(model.copy_weight(id, bytes));
  }
  return model;
}

}  // namespace graft::delta
