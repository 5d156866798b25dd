#include "tools/convert/pytorch/state_dict.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>

#include "platform/base/half.h"
#include "platform/base/text.h"
#include "tools/convert/pytorch/pickle.h"
#include "tools/convert/pytorch/zip_entries.h"

namespace graft::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr int kMaxDepth = 64;
// A memo may put one dict into many others: this many entries are looked at, and four for each value of the pickle.
constexpr std::size_t kMaxVisits = 1 << 16, kVisitsPerValue = 4;
constexpr std::size_t kMaxNameBytes = 32 * 1024 * 1024;  // of all names together
constexpr std::size_t kMaxTensors = 1 << 18;
constexpr std::size_t kMaxKey = 1024;  // of a storage, which every tensor looks for
/// Views may share a storage, and a stride of 0 repeats it. All tensors together take at most this many times the file's
/// size in memory, and this much more.
constexpr std::uint64_t kMaxGrowth = 24, kMaxMore = 1 << 20;

struct StorageType {
  const char* name;
  ElemType type;
};
constexpr StorageType kStorages[] = {
    {"torch FloatStorage", ElemType::f32},     {"torch HalfStorage", ElemType::f16},
    {"torch BFloat16Storage", ElemType::bf16}, {"torch DoubleStorage", ElemType::f64},
    {"torch LongStorage", ElemType::i64},      {"torch IntStorage", ElemType::i32},
    {"torch ShortStorage", ElemType::i16},     {"torch CharStorage", ElemType::i8},
    {"torch ByteStorage", ElemType::u8},       {"torch BoolStorage", ElemType::boolean}};

struct Storage {
  ElemType type = ElemType::undefined;
  std::span<const std::byte> bytes;
};
using Storages = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// Finds tensors in what a pickle holds.
class Collector {
 public:
  Collector(const Pickle& pickle, const Storages& storages, std::uint64_t file_bytes)
      : pickle_(pickle), storages_(storages), most_bytes_(kMaxGrowth * file_bytes + kMaxMore) {}

  Result<StateDict> run() {
    const PickleValue* dict = &pickle_.root();
    // A checkpoint of a training holds the weights beside other things.
    for (int depth = 0; depth < 4 && !has_tensors(*dict); ++depth) {
      const PickleValue* next = nullptr;
      for (const char* key : {"state_dict", "model_state_dict", "model_state", "model", "module", "net", "network",
                              "weights", "params", "generator", "ema"}) {
        next = find(*dict, key);
        if (next != nullptr && is_container(*next)) {
          out_.notes.push_back(cat("Its weights are what it calls \"", key, "\"."));
          break;
        }
        next = nullptr;
      }
      if (next == nullptr) break;
      dict = next;
    }
    GRAFT_TRY(collect(*dict, "", 0));
    if (out_.tensors.empty()) {
      return unsupported("It holds no tensors by name", keys_of(pickle_.root()), ".");
    }
    strip("module.");
    return std::move(out_);
  }

 private:
  const PickleValue& value(PickleId id) const { return pickle_.value(id); }

  static bool is_container(const PickleValue& v) { return v.kind == Kind::dict || v.kind == Kind::call; }
  bool is_call_of(const PickleValue& v, std::string_view name) const {
    return v.kind == Kind::call && v.items.size() >= 2 && value(v.items[0]).kind == Kind::global &&
           value(v.items[0]).text == name;
  }
  bool is_tensor(const PickleValue& v) const {
    return is_call_of(v, "torch._utils _rebuild_tensor_v2") || is_call_of(v, "torch._utils _rebuild_tensor") ||
           is_call_of(v, "torch._utils _rebuild_parameter");
  }
  bool has_tensors(const PickleValue& v) const {
    return std::any_of(v.pairs.begin(), v.pairs.end(), [&](const auto& pair) { return is_tensor(value(pair.second)); });
  }
  /// An entry of a dict, of an ordered dict, or of an object's state.
  const PickleValue* find(const PickleValue& v, std::string_view key) const {
    if (const PickleValue* found = pickle_.find(v, key)) return found;
    return v.kind == Kind::call && v.items.size() == 3 ? pickle_.find(value(v.items[2]), key) : nullptr;
  }

  std::string keys_of(const PickleValue& v) const {
    std::string keys;
    for (const auto& [key, unused] : v.pairs) {
      if (value(key).kind != Kind::text) continue;
      keys += cat(keys.empty() ? "; its keys are \"" : ", \"", shown(value(key).text), "\"");
      if (keys.size() > 200) return keys + ", ...";
    }
    return keys;
  }

  Status collect(const PickleValue& v, const std::string& prefix, int depth) {
    const PickleValue* state = v.kind == Kind::call && v.items.size() == 3 ? &value(v.items[2]) : nullptr;
    visits_ += 1 + v.pairs.size() + (state != nullptr ? state->pairs.size() : 0);
    if (depth > kMaxDepth || visits_ > kMaxVisits + kVisitsPerValue * pickle_.count()) {
      return unsupported("It is nested too deeply, or holds too much.");
    }
    for (const auto& [key, item] : v.pairs) {
      if (value(key).kind != Kind::text) continue;
      const std::string name = cat(prefix, value(key).text);
      if (name.size() > 1024) return corrupt("A name in it has ", name.size(), " bytes.");
      if (is_tensor(value(item))) {
        GRAFT_TRY(add(name, value(item)).with_context(cat("The tensor \"", shown(name), "\"")));
      } else if (is_container(value(item))) {
        GRAFT_TRY(collect(value(item), name + ".", depth + 1));
      }
    }
    if (state == nullptr) return {};
    // A module as an object: its tensors and its modules stand in three dicts of its state.
    for (const char* part : {"_parameters", "_buffers", "_modules"}) {
      const PickleValue* dict = pickle_.find(*state, part);
      if (dict != nullptr) GRAFT_TRY(collect(*dict, prefix, depth + 1));
    }
    return {};
  }

  Result<Storage> storage(const PickleValue& v) const {
    if (v.kind != Kind::persistent) return corrupt("It has no storage.");
    const PickleValue& id = value(v.items[0]);
    if (id.kind != Kind::tuple || id.items.size() < 5 || value(id.items[0]).text != "storage") {
      return corrupt("Its storage is not said as PyTorch does.");
    }
    Storage out;
    const PickleValue& type = value(id.items[1]);
    for (const StorageType& known : kStorages) {
      if (type.kind == Kind::global && type.text == known.name) out.type = known.type;
    }
    if (out.type == ElemType::undefined) return unsupported("Its storage is a \"", shown(type.text), "\".");
    const auto found = storages_.find(value(id.items[2]).text);
    if (found == storages_.end()) return corrupt("Its storage \"", shown(value(id.items[2]).text), "\" is missing.");
    out.bytes = found->second;
    return out;
  }

  Result<std::vector<std::int64_t>> sizes(const PickleValue& v, const char* what) const {
    const PickleValue& given = v.kind == Kind::call && v.items.size() >= 2 ? value(v.items[1]) : v;
    return sizes_of(&given != &v && given.items.size() == 1 ? value(given.items[0]) : v, what);  // torch.Size(...)
  }
  Result<std::vector<std::int64_t>> sizes_of(const PickleValue& v, const char* what) const {
    if (v.kind != Kind::tuple && v.kind != Kind::list) return corrupt("Its ", what, " is missing.");
    if (v.items.size() > Shape::kMaxRank) return unsupported("It has ", v.items.size(), " axes.");
    std::vector<std::int64_t> out;
    for (const PickleId id : v.items) {
      const std::int64_t number = value(id).integer;
      if (value(id).kind != Kind::integer || !value(id).text.empty() || number < 0 ||
          number > (std::int64_t{1} << 48)) {
        return corrupt("Its ", what, " holds what is no size.");
      }
      out.push_back(number);
    }
    return out;
  }

  Status add(const std::string& name, const PickleValue& call) {
    if (out_.tensors.size() >= kMaxTensors) return unsupported("It is one of more than ", kMaxTensors, ".");
    name_bytes_ += name.size();
    if (name_bytes_ > kMaxNameBytes) return unsupported("All names together have more than ", kMaxNameBytes, " bytes.");
    const PickleValue& given = value(call.items[1]);
    if (is_call_of(call, "torch._utils _rebuild_parameter")) {
      if (given.items.empty() || !is_tensor(value(given.items[0])) || value(given.items[0]).items == call.items) {
        return corrupt("Its parameter holds no tensor.");
      }
      if (is_call_of(value(given.items[0]), "torch._utils _rebuild_parameter")) return corrupt("It holds itself.");
      return add(name, value(given.items[0]));
    }
    if (given.items.size() < 4) return corrupt("It is not said as PyTorch does.");
    GRAFT_TRY_ASSIGN(const Storage from, storage(value(given.items[0])));
    StateTensor tensor;
    tensor.name = name;
    tensor.type = from.type;
    GRAFT_TRY_ASSIGN(tensor.dims, sizes(value(given.items[2]), "shape"));
    GRAFT_TRY_ASSIGN(tensor.strides, sizes(value(given.items[3]), "stride"));
    if (tensor.strides.size() != tensor.dims.size()) return corrupt("Its shape and its strides differ in length.");
    const std::uint64_t width = elem_bits(from.type) / 8, elements = from.bytes.size() / width;
    const std::int64_t offset = value(given.items[1]).integer;
    const auto count = element_count(tensor.dims);
    if (!count || offset < 0) return corrupt("Its shape or offset is out of range.");
    std::uint64_t last = static_cast<std::uint64_t>(offset);
    for (std::size_t axis = 0; *count > 0 && axis < tensor.dims.size(); ++axis) {
      const auto steps = static_cast<std::uint64_t>(tensor.dims[axis] - 1);
      const auto stride = static_cast<std::uint64_t>(tensor.strides[axis]);
      if (steps != 0 && stride > elements / steps) return corrupt("It reaches beyond its storage.");
      last += steps * stride;
    }
    if (*count > 0 && last >= elements) {
      return corrupt("It reaches beyond its storage, which holds ", elements, " numbers.");
    }
    if (*count == 0) return {};  // nothing to take
    const std::uint64_t width_here = is_float(from.type) ? sizeof(float) : sizeof(std::int64_t);
    if (*count > (most_bytes_ - bytes_) / width_here) return corrupt("It repeats its numbers too often.");
    bytes_ += *count * width_here;
    tensor.bytes = from.bytes.subspan(static_cast<std::uint64_t>(offset) * width);
    out_.tensors.push_back(std::move(tensor));
    return {};
  }

  void strip(std::string_view prefix) {
    const auto has = [&](const StateTensor& t) { return t.name.starts_with(prefix); };
    if (!std::all_of(out_.tensors.begin(), out_.tensors.end(), has)) return;
    for (StateTensor& t : out_.tensors) t.name.erase(0, prefix.size());
    out_.notes.push_back(cat("\"", prefix, "\" was taken off all names."));
  }

  const Pickle& pickle_;
  const Storages& storages_;
  StateDict out_;
  std::size_t visits_ = 0, name_bytes_ = 0;
  const std::uint64_t most_bytes_;
  std::uint64_t bytes_ = 0;  // of all tensors, as contents() has them
};

Result<StateDict> read_archive(std::span<const std::byte> bytes) {
  GRAFT_TRY_ASSIGN(const ZipEntries entries, read_zip_entries(bytes));
  std::string root;
  std::span<const std::byte> program;
  for (const auto& [name, contents] : entries) {
    if (name != "data.pkl" && !name.ends_with("/data.pkl")) continue;
    root = name.substr(0, name.size() - std::strlen("data.pkl"));
    program = contents;
  }
  if (program.empty()) return unsupported("The archive has no data.pkl: it is no checkpoint of PyTorch.");
  const auto order = entries.find(root + "byteorder");
  if (order != entries.end() && order->second.size() == 3) return unsupported("Its numbers are big-endian.");
  Storages storages;
  const std::string data = root + "data/";
  for (auto entry = entries.lower_bound(data); entry != entries.end() && entry->first.starts_with(data); ++entry) {
    storages.emplace(entry->first.substr(data.size()), entry->second);
  }
  ByteReader in(program);
  GRAFT_TRY_ASSIGN(const Pickle pickle, Pickle::read(in));
  return Collector(pickle, storages, bytes.size()).run();
}

/// What older PyTorch writes: a magic number, a version, facts of the machine, the pickle, keys, storages.
Result<StateDict> read_plain(std::span<const std::byte> bytes) {
  constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
  ByteReader in(bytes);
  const auto magic = Pickle::read(in);
  if (!magic.ok() || magic->root().text != kMagic) {
    return corrupt("It is no checkpoint of PyTorch: neither a zip archive, nor a file with its magic number.");
  }
  GRAFT_TRY_ASSIGN(const Pickle version, Pickle::read(in));
  if (version.root().integer != 1001) return unsupported("It has the version ", version.root().integer, ".");
  GRAFT_TRY_ASSIGN(const Pickle machine, Pickle::read(in));
  const PickleValue* little = machine.find(machine.root(), "little_endian");
  if (little != nullptr && little->integer == 0) return unsupported("Its numbers are big-endian.");
  GRAFT_TRY_ASSIGN(const Pickle pickle, Pickle::read(in));
  GRAFT_TRY_ASSIGN(const Pickle keys, Pickle::read(in));
  // How wide a storage's numbers are stands where it is first named.
  std::map<std::string, std::uint64_t, std::less<>> widths;
  for (PickleId id = 0; id < pickle.count(); ++id) {
    const PickleValue& v = pickle.value(id);
    if (v.kind != Kind::persistent) continue;
    const PickleValue& tuple = pickle.value(v.items[0]);
    if (tuple.items.size() < 3) continue;
    for (const StorageType& known : kStorages) {
      if (pickle.value(tuple.items[1]).text == known.name) {
        widths[pickle.value(tuple.items[2]).text] = elem_bits(known.type) / 8;
      }
    }
  }
  Storages storages;
  for (const PickleId id : keys.root().items) {
    const std::string& key = keys.value(id).text;
    if (key.size() > kMaxKey) return corrupt("The key of a storage has ", key.size(), " bytes.");
    const auto width = widths.find(key);
    if (width == widths.end()) return unsupported("The storage \"", shown(key), "\" is of a type that is not read.");
    GRAFT_TRY_ASSIGN(const auto count, in.number<std::uint64_t>());
    if (count > in.left() / width->second) return corrupt("The storage \"", shown(key), "\" ends outside of the file.");
    GRAFT_TRY_ASSIGN(const auto contents, in.take(count * width->second));
    if (!storages.emplace(key, contents).second) return corrupt("The storage \"", shown(key), "\" is in it twice.");
  }
  return Collector(pickle, storages, bytes.size()).run();
}

template <class T>
T element(std::span<const std::byte> bytes, std::uint64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

std::optional<float> float_at(ElemType type, std::span<const std::byte> bytes, std::uint64_t i) {
  switch (type) {
    case ElemType::f16: return half_to_float(element<std::uint16_t>(bytes, i));
    case ElemType::bf16: return std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(bytes, i)} << 16);
    case ElemType::f64: return narrowed(element<double>(bytes, i));
    default: return element<float>(bytes, i);
  }
}

std::int64_t integer_at(ElemType type, std::span<const std::byte> bytes, std::uint64_t i) {
  switch (type) {
    case ElemType::i64: return element<std::int64_t>(bytes, i);
    case ElemType::i32: return element<std::int32_t>(bytes, i);
    case ElemType::i16: return element<std::int16_t>(bytes, i);
    case ElemType::i8: return element<std::int8_t>(bytes, i);
    default: return element<std::uint8_t>(bytes, i);
  }
}

}  // namespace

Result<StateDict> read_state_dict(std::span<const std::byte> bytes) {
  const bool zip = bytes.size() >= 4 && std::memcmp(bytes.data(), "PK\x03\x04", 4) == 0;
  return zip ? read_archive(bytes) : read_plain(bytes);
}

Result<HostTensor> contents(const StateTensor& tensor) {
  HostTensor out;
  out.type = tensor.type;
  out.dims = tensor.dims;
  const std::size_t count = out.count();
  const bool floats = is_float(tensor.type);
  (floats ? out.floats.reserve(count) : out.ints.reserve(count));
  std::vector<std::int64_t> at(tensor.dims.size(), 0);
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (floats) {
      const auto number = float_at(tensor.type, tensor.bytes, offset);
      if (!number) {
        return unsupported("The tensor \"", shown(tensor.name), "\" holds ", element<double>(tensor.bytes, offset),
                           ", which is beyond the range of float32.");
      }
      out.floats.push_back(*number);
    } else {
      out.ints.push_back(integer_at(tensor.type, tensor.bytes, offset));
    }
    for (std::size_t axis = at.size(); axis-- > 0;) {
      offset += static_cast<std::uint64_t>(tensor.strides[axis]);
      if (++at[axis] < tensor.dims[axis]) break;
      offset -= static_cast<std::uint64_t>(tensor.strides[axis]) * static_cast<std::uint64_t>(tensor.dims[axis]);
      at[axis] = 0;
    }
  }
  return out;
}

bool lies_row_by_row(const StateTensor& tensor) {
  std::int64_t next = 1;
  for (std::size_t axis = tensor.dims.size(); axis-- > 0;) {
    if (tensor.dims[axis] != 1 && tensor.strides[axis] != next) return false;
    next *= tensor.dims[axis];
  }
  return true;
}

}  // namespace graft::convert
