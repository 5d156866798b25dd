// Values: weights become graph values when first used, transposes are made once.
#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

Perm identity_perm(std::size_t rank) {
  Perm perm(rank);
  for (std::size_t i = 0; i < rank; ++i) perm[i] = static_cast<std::uint8_t>(i);
  return perm;
}

Perm simplified(Perm perm) { return perm == identity_perm(perm.size()) ? Perm() : perm; }

Perm channels_last(std::size_t rank) {
  if (rank < 3) return {};
  Perm perm = {0};
  for (std::size_t i = 2; i < rank; ++i) perm.push_back(static_cast<std::uint8_t>(i));
  perm.push_back(1);
  return perm;
}

Shape permuted(const Shape& shape, const Perm& perm) {
  if (perm.empty()) return shape;
  std::vector<Dim> dims;
  for (const std::uint8_t axis : perm) dims.push_back(shape[axis]);
  return Shape(std::move(dims));
}

namespace {

Result<std::vector<std::uint32_t>> device_words(const HostTensor& tensor) {
  std::vector<std::uint32_t> words;
  if (is_float(tensor.type)) {
    words.resize(tensor.floats.size());
    if (!words.empty()) std::memcpy(words.data(), tensor.floats.data(), words.size() * sizeof(std::uint32_t));
    return words;
  }
  words.reserve(tensor.ints.size());
  for (const std::int64_t v : tensor.ints) {
    if (v < std::numeric_limits<std::int32_t>::min() || v > std::numeric_limits<std::int32_t>::max()) {
      return unsupported("it holds ", v, ", which is beyond the range of int32");
    }
    words.push_back(static_cast<std::uint32_t>(static_cast<std::int32_t>(v)));
  }
  return words;
}

Result<Dim> dim_of(const DimFactor& factor) {
  if (!factor.symbol.empty()) return Dim::symbol(factor.symbol);
  std::optional<Dim> sum = Dim(0);
  for (const Dim& term : factor.terms) sum = sum ? add(*sum, term) : sum;
  const auto count = sum ? divide_floor(*sum, factor.divisor) : std::nullopt;
  if (!count) return internal_error("a size cannot be put together again");
  return *count;
}

}  // namespace

// What is a symbol is counted by summing up as many ones, once it is bound: an op that gives a size there is none.
Result<ValueId> Importer::size_value(const Dim& size, const std::string& name) {
  const auto node = [&](Op op, std::vector<ValueId> inputs, Attrs attrs = {}) -> Result<ValueId> {
    GRAFT_TRY_ASSIGN(const NodeId id, model_.graph.add_node(op, std::move(inputs), std::move(attrs), name));
    return model_.graph.node(id).outputs[0];
  };
  const auto full = [&](const Dim& count, std::int64_t value) {
    return node(Op::full, {},
                {{"shape", Shape{count}},
                 {"value", static_cast<double>(value)},
                 {"dtype", static_cast<std::int64_t>(DType::i32)}});
  };
  const std::int64_t times = size.coefficient();
  if (times != static_cast<std::int32_t>(times)) return unsupported("it holds ", times, ", beyond the range of int32");
  ValueId product;
  if (times != 1 || size.is_constant()) {
    GRAFT_TRY_ASSIGN(product, full(1, times));
  }
  for (const DimFactor& factor : factors_of(size)) {
    ValueId value;
    if (const auto counted = counted_sizes_.find(factor.symbol); counted != counted_sizes_.end()) {
      GRAFT_TRY_ASSIGN(value, node(Op::reshape, {counted->second.count}, {{"shape", Shape{1}}}));
    } else if (factor.symbol.empty() && factor.divisor == 1) {
      for (const Dim& term : factor.terms) {
        GRAFT_TRY_ASSIGN(const ValueId part, size_value(term, name));
        if (!value.valid()) {
          value = part;
          continue;
        }
        GRAFT_TRY_ASSIGN(value, node(Op::add, {value, part}));
      }
    } else {
      GRAFT_TRY_ASSIGN(const Dim count, dim_of(factor));
      GRAFT_TRY_ASSIGN(const ValueId ones, full(count, 1));
      GRAFT_TRY_ASSIGN(value, node(Op::reduce_sum, {ones}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}}));
    }
    if (product.valid()) {
      GRAFT_TRY_ASSIGN(value, node(Op::mul, {product, value}));
    }
    product = value;
  }
  return product;
}

Status Importer::materialise_sizes(Record& record) {
  const HostTensor& tensor = *record.host;
  constexpr std::size_t kMostSizes = 64;
  if (tensor.count() > kMostSizes) {
    return unsupported("the value \"", record.name, "\" holds ", tensor.count(),
                       " sizes that depend on symbolic dimensions; bind them (--bind NAME=SIZE)");
  }
  const std::string name = record.name.empty() ? "size" : record.name;
  std::vector<ValueId> sizes;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    GRAFT_TRY_ASSIGN(const ValueId size, size_value(tensor.dim(i), name));
    sizes.push_back(size);
  }
  ValueId all = sizes[0];
  if (sizes.size() > 1) {
    GRAFT_TRY_ASSIGN(const NodeId id, model_.graph.add_node(Op::concat, sizes, {{"axis", std::int64_t{0}}}, name));
    all = model_.graph.node(id).outputs[0];
  }
  GRAFT_TRY_ASSIGN(const NodeId id, model_.graph.add_node(Op::reshape, {all}, {{"shape", record.shape}}, name));
  record.value = model_.graph.node(id).outputs[0];
  record.perm = {};
  return {};
}

Status Importer::materialise(Record& record, const Perm& perm) {
  const HostTensor& tensor = *record.host;
  if (tensor.symbolic()) return materialise_sizes(record);
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(tensor.type));
  if (tensor.count() == 0) {  // no weight can be empty
    GRAFT_TRY_ASSIGN(const NodeId node, model_.graph.add_node(Op::full, {},
                                                              {{"shape", permuted(record.shape, perm)},
                                                               {"value", 0.0},
                                                               {"dtype", static_cast<std::int64_t>(dtype)}},
                                                              record.name.empty() ? "constant" : record.name));
    record.value = model_.graph.node(node).outputs[0];
    record.perm = perm;
    return {};
  }
  HostTensor turned;
  if (!perm.empty()) turned = transposed(tensor, perm);
  const HostTensor& ordered = perm.empty() ? tensor : turned;
  std::vector<std::uint32_t> words;
  if (!is_float(tensor.type)) {
    GRAFT_TRY_ASSIGN(words, device_words(ordered));
  }
  const auto bytes = is_float(tensor.type) ? std::as_bytes(std::span(ordered.floats)) : std::as_bytes(std::span(words));
  const ValueKind kind = record.running_stat ? ValueKind::state
                         : record.trainable  ? ValueKind::parameter
                                             : ValueKind::constant;
  GRAFT_TRY_ASSIGN(record.value, add_weight(record.name, dtype, permuted(record.shape, perm), kind, perm, bytes));
  record.perm = perm;
  return {};
}

void Importer::count_reads() {
  const auto count = [&](const Names& names) {
    for (const std::string& name : names) ++reads_[name];
  };
  for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
    count(source_.nodes[i].inputs);
    count(captures(i));
  }
  for (const OnnxValue& output : source_.outputs) ++reads_[output.name];
}

void Importer::release_weights(std::size_t index) {
  constexpr std::size_t kLarge = 1u << 14;
  for (const std::string& name : node_at(index).inputs) {
    Record* const record = name.empty() ? nullptr : find(name);
    const bool done = record != nullptr && record->trainable && record->host != nullptr && record->value.valid() &&
                      record->deferred < 0 && record->host->count() >= kLarge;
    if (done && reads_[name] == 1 && record->name == name) record->host.reset();
  }
}

Result<ValueId> Importer::add_weight(const std::string& wanted, DType dtype, Shape shape, ValueKind kind,
                                     const Perm& perm, std::span<const std::byte> bytes) {
  std::string name = wanted.empty() ? "constant" : wanted;
  while (model_.graph.find_value(name).valid()) name = cat(wanted, "_", ++last_suffix_);
  GRAFT_TRY_ASSIGN(const ValueId value, model_.graph.add_value(name, dtype, std::move(shape), kind));
  model_.graph.mutable_value(value).source_perm = perm;
  GRAFT_TRY(model_.copy_weight(value, bytes));
  return value;
}

Status Importer::ensure_value(Record& record, const Perm& wanted) {
  if (record.value.valid()) return {};
  if (record.deferred >= 0) {
    const auto index = static_cast<std::size_t>(record.deferred);
    record.deferred = -1;
    Report::Entry entry;
    GRAFT_TRY(apply_rule(index, entry).with_context(node_at(index).label()));
    if (record.value.valid()) return {};
  }
  if (record.quantized) return materialise_quantized(record, wanted);
  if (record.host == nullptr) return internal_error("the value \"", record.name, "\" was never computed");
  return materialise(record, wanted);
}

Result<ValueId> Importer::value_in(Record& record, const Perm& perm) {
  GRAFT_TRY(ensure_value(record, perm));
  if (record.perm == perm) return record.value;
  if (const auto found = record.others.find(perm); found != record.others.end()) return found->second;
  const Perm to = perm.empty() ? identity_perm(record.shape.rank()) : perm;
  const Perm from = record.perm.empty() ? identity_perm(record.shape.rank()) : record.perm;
  Ints moves;
  for (const std::uint8_t axis : to) moves.push_back(std::find(from.begin(), from.end(), axis) - from.begin());
  GRAFT_TRY_ASSIGN(const NodeId node, model_.graph.add_node(Op::transpose, {record.value}, {{"perm", std::move(moves)}},
                                                            cat(record.name, kLayoutSuffix)));
  const ValueId value = model_.graph.node(node).outputs[0];
  record.others[perm] = value;
  return value;
}

}  // namespace graft::convert
