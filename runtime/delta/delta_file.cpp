#include "runtime/delta/delta_file.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/checkpoint/codec.h"
#include "runtime/model/format.h"
#include "schema/delta_generated.h"

namespace graft::delta {
namespace {

constexpr std::string_view kMagic = "GRFW";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeader = 64;
constexpr std::uint64_t kMaxBytes = (std::uint64_t{1} << 31) - 1;
constexpr int kLevel = 3;
// What unpacks to more is stored as it is, so that a reader may refuse it: zstd packs equal bytes 32,000 times.
constexpr std::uint64_t kMostExpansion = 1000, kSmall = 64 << 10;
constexpr std::size_t kMaxRank = 16;

std::optional<fbdelta::Element> element_of(DType dtype) {
  if (dtype == DType::f32) return fbdelta::Element::f32;
  if (dtype == DType::f16) return fbdelta::Element::f16;
  if (dtype == DType::bf16) return fbdelta::Element::bf16;
  return std::nullopt;
}

DType dtype_of(fbdelta::Element element) {
  return element == fbdelta::Element::f16 ? DType::f16 : element == fbdelta::Element::bf16 ? DType::bf16 : DType::f32;
}

bool may_unpack(std::uint64_t stored, std::uint64_t bytes) { return bytes <= kSmall + stored * kMostExpansion; }

template <typename T>
void put(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
}

Result<flatbuffers::Offset<fbdelta::Tensor>> write_tensor(flatbuffers::FlatBufferBuilder& builder, const Delta& delta,
                                                          const Tensor& tensor, checkpoint::ChunkEncoder& encoder) {
  const auto element = element_of(tensor.dtype);
  if (!element) return unsupported("A delta of a weight of type ", dtype_name(tensor.dtype), " has no file.");
  GRAFT_TRY_ASSIGN(auto packed, encoder.encode(tensor.coded, {}, coded_width(delta.coding), false, kLevel));
  if (!may_unpack(packed.bytes.size(), tensor.coded.size())) packed = {.bytes = tensor.coded};
  if (builder.GetSize() + packed.bytes.size() > kMaxBytes - (1 << 20)) {
    return invalid("A delta file holds at most 2 GiB; take another coding, or adapters.");
  }
  std::vector<std::uint64_t> shape;
  for (const std::int64_t dim : tensor.shape.values()) shape.push_back(static_cast<std::uint64_t>(dim));
  const auto name = builder.CreateString(tensor.name);
  const auto dims = builder.CreateVector(shape);
  const auto data =
      builder.CreateVector(reinterpret_cast<const std::uint8_t*>(packed.bytes.data()), packed.bytes.size());
  const auto arrangement =
      packed.codec == checkpoint::Codec::planes ? fbdelta::Arrangement::planes : fbdelta::Arrangement::plain;
  return fbdelta::CreateTensor(builder, name, dims, *element, arrangement,
                               packed.compression == checkpoint::Compression::zstd, data);
}

Result<Tensor> read_tensor(const fbdelta::Tensor& from, const Delta& delta, checkpoint::ChunkDecoder& decoder) {
  Tensor tensor;
  GRAFT_TRY(model_format::check_name(from.name()->string_view(), "A tensor's name"));
  tensor.name = from.name()->str();
  const auto bad = [&](const auto&... parts) { return corrupt("The tensor \"", tensor.name, "\" ", parts...); };
  if (from.element() > fbdelta::Element::bf16 || from.arrangement() > fbdelta::Arrangement::planes) {
    return bad("is of an unknown kind.");
  }
  tensor.dtype = dtype_of(from.element());
  const std::size_t rank = from.shape() == nullptr ? 0 : from.shape()->size();
  if (rank > kMaxRank) return bad("has ", rank, " axes.");
  std::vector<Dim> dims;
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t dim = from.shape()->Get(static_cast<flatbuffers::uoffset_t>(i));
    const auto product = checked_mul<std::uint64_t>(elements, dim);
    if (dim == 0 || !product || *product > std::uint64_t{1} << 40) return bad("has an impossible shape.");
    elements = *product;
    dims.emplace_back(static_cast<std::int64_t>(dim));
  }
  tensor.shape = Shape(std::move(dims));
  const std::uint64_t bytes = coded_bytes(delta.coding, elements);
  const std::uint64_t stored = from.data()->size();
  if (from.compressed() ? !may_unpack(stored, bytes) : bytes != stored) return bad("has ", stored, " bytes.");
  tensor.coded.resize(bytes);
  const auto codec =
      from.arrangement() == fbdelta::Arrangement::planes ? checkpoint::Codec::planes : checkpoint::Codec::plain;
  const auto compression = from.compressed() ? checkpoint::Compression::zstd : checkpoint::Compression::none;
  const auto data = std::as_bytes(std::span(from.data()->data(), from.data()->size()));
  GRAFT_TRY(decoder.decode(codec, compression, coded_width(delta.coding), data, {}, tensor.coded)
                .with_context(cat("In the tensor \"", tensor.name, "\"")));
  if (delta.coding == Coding::fixed) return tensor;
  const std::vector<float> numbers = numbers_of(delta, tensor);
  if (!std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) return bad("is not finite.");
  return tensor;
}

Status read_metadata(const fbdelta::Delta& from, Delta& delta) {
  if (from.metadata() == nullptr) return ok_status();
  GRAFT_TRY(model_format::check_count(from.metadata()->size(), model_format::kMaxListed, "metadata entries"));
  std::uint64_t total = 0;
  for (const auto* pair : *from.metadata()) {
    total += pair->key()->size() + pair->value()->size();  // tables may share one large text
    if (total > kMaxBytes) return corrupt("Its metadata is too long.");
    GRAFT_TRY(model_format::check_name(pair->key()->string_view(), "A metadata key"));
    if (!model_format::is_text(pair->value()->string_view(), true)) return corrupt("Its metadata is no text.");
    delta.metadata.insert_or_assign(pair->key()->str(), pair->value()->str());
  }
  return ok_status();
}

Result<Delta> read_root(const fbdelta::Delta& from) {
  Delta delta;
  if (from.kind() > fbdelta::Kind::adapters) return unsupported("It is a delta of an unknown kind.");
  if (from.coding() > fbdelta::Coding::fixed) return unsupported("Its numbers are coded in an unknown way.");
  delta.kind = static_cast<Kind>(from.kind());
  delta.coding = static_cast<Coding>(from.coding());
  delta.fixed_bits = from.fixed_bits();
  if (delta.fixed_bits > kMaxFixedBits)
    return corrupt("Its integers have ", delta.fixed_bits, " bits behind the point.");
  if (from.base() == nullptr) return corrupt("It does not say what its base is.");
  delta.base = {from.base()->low(), from.base()->high()};
  if (from.base_file() != nullptr) {
    if (!model_format::is_text(from.base_file()->string_view(), false)) return corrupt("Its base's name is no text.");
    delta.base_file = from.base_file()->str();
  }
  delta.samples = from.samples();
  delta.clients = from.clients();
  if (delta.samples == 0 || delta.clients == 0)
    return corrupt("It is of ", delta.samples, " samples and ", delta.clients, " clients.");
  delta.local_steps = from.local_steps();
  delta.rank = from.rank();
  delta.clip_norm = from.clip_norm();
  delta.noise = from.noise();
  delta.norm = from.norm();
  for (const double x : {delta.clip_norm, delta.noise, delta.norm}) {
    if (!(x >= 0) || !std::isfinite(x)) return corrupt("It states a norm of ", x, ".");
  }
  GRAFT_TRY(read_metadata(from, delta));
  if (from.tensors() == nullptr) return delta;
  GRAFT_TRY(model_format::check_count(from.tensors()->size(), model_format::kMaxValues, "tensors"));
  checkpoint::ChunkDecoder decoder;
  for (const auto* tensor : *from.tensors()) {
    GRAFT_TRY_ASSIGN(Tensor read, read_tensor(*tensor, delta, decoder));
    if (!delta.tensors.empty() && delta.tensors.back().name >= read.name) {
      return corrupt("The tensor \"", read.name, "\" stands out of order.");
    }
    delta.tensors.push_back(std::move(read));
  }
  return delta;
}

Result<Delta> read(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeader) return corrupt("It has ", bytes.size(), " bytes, fewer than a header.");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return corrupt("Its first four bytes are not \"", kMagic, "\".");
  }
  std::uint32_t version = 0;
  std::uint64_t size = 0;
  Hash128 checksum;
  std::memcpy(&version, &bytes[4], 4);
  std::memcpy(&size, &bytes[8], 8);
  std::memcpy(&checksum, &bytes[16], 16);
  if (version != kVersion) return unsupported("It has version ", version, "; this graft reads version ", kVersion, ".");
  const auto root = bytes.subspan(kHeader);
  if (size != root.size()) return corrupt("It declares ", size, " bytes and has ", root.size(), ".");
  const bool zeros = std::ranges::all_of(bytes.subspan(32, 32), [](std::byte b) { return b == std::byte{0}; });
  if (!zeros || hash128(root) != checksum) return corrupt("Its checksum is wrong.");
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;
  options.max_tables = static_cast<std::uint32_t>(model_format::kMaxValues + model_format::kMaxListed + 1);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(root.data()), root.size(), options);
  if (!verifier.VerifyBuffer<fbdelta::Delta>(nullptr)) return corrupt("The FlatBuffers verifier refuses its tables.");
  return read_root(*flatbuffers::GetRoot<fbdelta::Delta>(root.data()));
}

}  // namespace

Result<std::vector<std::byte>> to_bytes(const Delta& delta) {
  flatbuffers::FlatBufferBuilder builder;
  checkpoint::ChunkEncoder encoder;
  std::vector<flatbuffers::Offset<fbdelta::Tensor>> tensors;
  for (const Tensor& tensor : delta.tensors) {
    GRAFT_TRY_ASSIGN(const auto written, write_tensor(builder, delta, tensor, encoder));
    tensors.push_back(written);
  }
  std::vector<flatbuffers::Offset<fbdelta::Pair>> pairs;
  for (const auto& [key, value] : delta.metadata) {
    pairs.push_back(fbdelta::CreatePair(builder, builder.CreateString(key), builder.CreateString(value)));
  }
  const auto tensors_at = builder.CreateVector(tensors);
  const auto pairs_at = builder.CreateVector(pairs);
  const auto base_file = builder.CreateString(delta.base_file);
  const fbdelta::Hash base(delta.base.low, delta.base.high);
  builder.Finish(fbdelta::CreateDelta(
      builder, static_cast<fbdelta::Kind>(delta.kind), static_cast<fbdelta::Coding>(delta.coding),
      static_cast<std::uint8_t>(delta.fixed_bits), &base, base_file, delta.samples, delta.clients, delta.local_steps,
      delta.rank, delta.clip_norm, delta.noise, delta.norm, pairs_at, tensors_at));
  const auto root = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  std::vector<std::byte> bytes(kHeader + root.size());
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put(bytes, 4, kVersion);
  put(bytes, 8, std::uint64_t{root.size()});
  put(bytes, 16, hash128(root));
  std::memcpy(&bytes[kHeader], root.data(), root.size());
  return bytes;
}

Status write_delta(os::FileSystem& files, const std::string& path, const Delta& delta) {
  GRAFT_TRY_ASSIGN(const auto bytes, to_bytes(delta));
  const std::array parts = {std::span<const std::byte>(bytes)};
  return os::atomic_write_file(files, path, parts);
}

Result<Delta> from_bytes(std::span<const std::byte> bytes, std::string_view name) {
  auto delta = read(bytes);
  if (!delta.ok()) return std::move(delta).status().with_context(cat("The delta file \"", name, "\" cannot be used"));
  return delta;
}

Result<Delta> read_delta(os::FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(const auto bytes, os::read_file(files, path, kMaxBytes + kHeader));
  return from_bytes(bytes.bytes(), path);
}

Result<Residual> read_residual(os::FileSystem& files, const std::string& path) {
  Residual residual;
  if (!os::exists(files, path)) return residual;
  GRAFT_TRY_ASSIGN(const Delta kept, read_delta(files, path));
  for (const Tensor& tensor : kept.tensors) residual[tensor.name] = numbers_of(kept, tensor);
  return residual;
}

Status write_residual(os::FileSystem& files, const std::string& path, const Delta& made, const Residual& residual) {
  Delta kept = made;
  kept.coding = Coding::f32;
  kept.fixed_bits = 0;
  kept.metadata = {};
  kept.tensors.clear();
  for (const auto& [name, numbers] : residual) {
    const Tensor* const tensor = made.find(name);
    const auto bytes = std::as_bytes(std::span(numbers));
    const Shape shape = tensor != nullptr ? tensor->shape : Shape::of({static_cast<std::int64_t>(numbers.size())});
    kept.tensors.push_back({name, shape, DType::f32, {bytes.begin(), bytes.end()}});
  }
  return write_delta(files, path, kept);
}

}  // namespace graft::delta
