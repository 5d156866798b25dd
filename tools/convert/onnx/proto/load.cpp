// From protobuf to OnnxGraph. Everything here comes from a file and is hostile until checked.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx-data_pb.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>

#include "platform/base/checked.h"
#include "tools/convert/onnx/proto/external_data.h"
#include "tools/convert/onnx/proto/external_files.h"
#include "tools/convert/onnx/proto/onnx_graph.h"
#include "tools/convert/onnx/proto/onnx_messages.h"

namespace graft::convert {
namespace {

/// Protobuf would print to stderr; graft's libraries print nothing.
void silence_protobuf() {
  static const bool done = [] {
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  static_cast<void>(done);
}

template <typename T>
T read_as(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

class Loader {
 public:
  Loader(std::filesystem::path folder, bool has_folder, const LoadLimits& limits)
      : folder_(std::move(folder)), has_folder_(has_folder), limits_(limits) {}

  Result<OnnxGraph> model(onnx::ModelProto& model);
  Result<HostTensor> tensor(const onnx::TensorProto& proto);

 private:
  OnnxAttr attribute(const onnx::AttributeProto& proto);
  OnnxValue value(const onnx::ValueInfoProto& proto);
  Status graph(onnx::GraphProto& proto, OnnxGraph& out);
  static Status fill_typed(const onnx::TensorProto& proto, std::uint64_t count, HostTensor& out);
  static Status fill_raw(std::string_view raw, std::uint64_t count, HostTensor& out);
  Status fill_external(const onnx::TensorProto& proto, std::uint64_t bytes, HostTensor& out) const;
  bool is_left_out(const HostTensor& tensor, std::uint64_t bytes) const {
    constexpr std::uint64_t kLarge = 64u << 10;
    return !limits_.large_weights && is_float(tensor.type) && bytes >= kLarge;
  }
  OnnxNode node(const onnx::NodeProto& proto);

  std::filesystem::path folder_;
  bool has_folder_;
  LoadLimits limits_;
  std::uint64_t tensor_bytes_ = 0;
};

/// Element `i` of 8 bits or fewer, which lie packed from the lowest bits on.
std::uint8_t small_element(std::string_view raw, std::uint64_t i, std::uint64_t bits) {
  const std::uint64_t first = i * bits;
  const auto byte = static_cast<std::uint8_t>(raw[first / 8]);
  return static_cast<std::uint8_t>(byte >> first % 8 & ((1u << bits) - 1));
}

Status beyond_int64(std::uint64_t value) {
  return unsupported("it holds ", value, ", which is beyond the range of int64");
}

Status push_double(double value, HostTensor& out) {
  const auto number = narrowed(value);
  if (!number) return beyond_float32(value);
  out.floats.push_back(*number);
  return {};
}

Status Loader::fill_raw(std::string_view raw, std::uint64_t count, HostTensor& out) {
  const std::uint64_t bits = elem_bits(out.type);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (bits < 8 || (bits == 8 && is_float(out.type))) {
      const std::uint8_t element = small_element(raw, i, bits);
      if (is_float(out.type)) {
        out.floats.push_back(decode_float(out.type, element));
      } else {
        out.ints.push_back(wrapped(element, out.type));
      }
      continue;
    }
    const char* at = raw.data() + i * (bits / 8);
    switch (out.type) {
      case ElemType::f32: out.floats.push_back(read_as<float>(at)); break;
      case ElemType::f64: GRAFT_TRY(push_double(read_as<double>(at), out)); break;
      case ElemType::f16: out.floats.push_back(half_to_float(read_as<std::uint16_t>(at))); break;
      case ElemType::bf16: out.floats.push_back(bfloat_to_float(read_as<std::uint16_t>(at))); break;
      case ElemType::boolean: out.ints.push_back(*at != 0); break;
      case ElemType::u8: out.ints.push_back(read_as<std::uint8_t>(at)); break;
      case ElemType::i8: out.ints.push_back(read_as<std::int8_t>(at)); break;
      case ElemType::u16: out.ints.push_back(read_as<std::uint16_t>(at)); break;
      case ElemType::i16: out.ints.push_back(read_as<std::int16_t>(at)); break;
      case ElemType::u32: out.ints.push_back(read_as<std::uint32_t>(at)); break;
      case ElemType::i32: out.ints.push_back(read_as<std::int32_t>(at)); break;
      default: out.ints.push_back(read_as<std::int64_t>(at)); break;
    }
    if (out.type == ElemType::u64 && out.ints.back() < 0) return beyond_int64(read_as<std::uint64_t>(at));
  }
  return {};
}

Status Loader::fill_typed(const onnx::TensorProto& proto, std::uint64_t count, HostTensor& out) {
  const std::uint64_t bits = elem_bits(out.type);
  if (bits < 8 || (bits == 8 && is_float(out.type))) {  // a byte of packed elements in each word
    const std::uint64_t bytes = count * bits / 8 + (count * bits % 8 != 0 ? 1 : 0);
    if (static_cast<std::uint64_t>(proto.int32_data_size()) != bytes) {
      return corrupt("it holds ", proto.int32_data_size(), " bytes where its shape ", out.shape().text(), " needs ",
                     bytes);
    }
    std::string raw;
    for (const std::int32_t word : proto.int32_data()) raw += static_cast<char>(word);
    return fill_raw(raw, count, out);
  }
  const auto expect = [&](int held) -> Status {
    if (static_cast<std::uint64_t>(held) == count) return {};
    return corrupt("it holds ", held, " elements where its shape ", out.shape().text(), " needs ", count);
  };
  switch (out.type) {
    case ElemType::f32:
      GRAFT_TRY(expect(proto.float_data_size()));
      out.floats.assign(proto.float_data().begin(), proto.float_data().end());
      return {};
    case ElemType::f64:
      GRAFT_TRY(expect(proto.double_data_size()));
      for (const double v : proto.double_data()) GRAFT_TRY(push_double(v, out));
      return {};
    case ElemType::i64:
      GRAFT_TRY(expect(proto.int64_data_size()));
      out.ints.assign(proto.int64_data().begin(), proto.int64_data().end());
      return {};
    case ElemType::u32:
    case ElemType::u64:
      GRAFT_TRY(expect(proto.uint64_data_size()));
      for (const std::uint64_t v : proto.uint64_data()) {
        if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return beyond_int64(v);
        out.ints.push_back(static_cast<std::int64_t>(v));
      }
      return {};
    case ElemType::f16:
    case ElemType::bf16:
      GRAFT_TRY(expect(proto.int32_data_size()));
      for (const std::int32_t v : proto.int32_data()) {
        const auto half = static_cast<std::uint16_t>(v);
        out.floats.push_back(out.type == ElemType::f16 ? half_to_float(half) : bfloat_to_float(half));
      }
      return {};
    default:
      GRAFT_TRY(expect(proto.int32_data_size()));
      for (const std::int32_t v : proto.int32_data()) out.ints.push_back(out.type == ElemType::boolean ? v != 0 : v);
      return {};
  }
}

Status Loader::fill_external(const onnx::TensorProto& proto, std::uint64_t bytes, HostTensor& out) const {
  if (!has_folder_) return corrupt("it refers to external data, but the model has no folder");
  GRAFT_TRY_ASSIGN(const ExternalRegion region, find_external(folder_, external_data_of(proto), bytes));
  if (is_left_out(out, bytes)) return ok_status();
  if (is_float(out.type)) out.floats.reserve(out.count());
  std::uint64_t left = out.count();
  return region.read([&](std::span<const std::byte> piece) {  // pieces hold whole elements
    const std::uint64_t now = std::min<std::uint64_t>(left, piece.size() * 8 / elem_bits(out.type));
    left -= now;
    return fill_raw({reinterpret_cast<const char*>(piece.data()), piece.size()}, now, out);
  });
}

Result<HostTensor> Loader::tensor(const onnx::TensorProto& proto) {
  HostTensor out;
  out.type = static_cast<ElemType>(proto.data_type());
  out.dims.assign(proto.dims().begin(), proto.dims().end());
  if (out.dims.size() > Shape::kMaxRank) {
    return unsupported("it has ", out.dims.size(), " axes, and tensors of more than ", Shape::kMaxRank,
                       " axes are not supported");
  }
  const auto count = element_count(out.dims);
  if (!count) return corrupt("its shape ", out.shape().text(), " has a negative dimension or more than 2^62 elements");
  if (elem_bits(out.type) == 0) return unsupported("the element type ", elem_name(out.type), " is not read");
  if (proto.has_segment()) return unsupported("it is split into segments");
  // Every byte of elements costs the file one, except in external data, whose length is checked just as well.
  const auto bytes = elem_bytes(out.type, *count);
  if (!bytes || *bytes > limits_.max_tensor_bytes - tensor_bytes_) {
    return error(Code::out_of_memory, "its ", *count, " elements exceed the limit of ",
                 bytes_text(limits_.max_tensor_bytes), " for all tensors of a file");
  }
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    GRAFT_TRY(fill_external(proto, *bytes, out));
  } else if (proto.has_raw_data()) {
    if (proto.raw_data().size() != *bytes) {
      return corrupt("it holds ", proto.raw_data().size(), " bytes where its shape ", out.shape().text(), " needs ",
                     *bytes);
    }
    if (!is_left_out(out, *bytes)) GRAFT_TRY(fill_raw(proto.raw_data(), *count, out));
  } else {
    GRAFT_TRY(fill_typed(proto, *count, out));
  }
  tensor_bytes_ += *bytes;
  return out;
}

OnnxAttr Loader::attribute(const onnx::AttributeProto& proto) {
  using Proto = onnx::AttributeProto;
  OnnxAttr out;
  out.ref = proto.ref_attr_name();
  switch (proto.type()) {
    case Proto::FLOAT:
      out.kind = OnnxAttr::Kind::number;
      out.number = proto.f();
      break;
    case Proto::INT:
      out.kind = OnnxAttr::Kind::integer;
      out.integer = proto.i();
      break;
    case Proto::STRING:
      out.kind = OnnxAttr::Kind::text;
      out.text = proto.s();
      break;
    case Proto::FLOATS:
      out.kind = OnnxAttr::Kind::numbers;
      out.numbers.assign(proto.floats().begin(), proto.floats().end());
      break;
    case Proto::INTS:
      out.kind = OnnxAttr::Kind::integers;
      out.integers.assign(proto.ints().begin(), proto.ints().end());
      break;
    case Proto::STRINGS:
      out.kind = OnnxAttr::Kind::texts;
      out.texts.assign(proto.strings().begin(), proto.strings().end());
      break;
    case Proto::TENSOR: {
      out.kind = OnnxAttr::Kind::tensor;
      auto read = tensor(proto.t());
      if (read.ok()) {
        out.tensor = std::make_shared<HostTensor>(std::move(*read));
      } else {
        out.tensor_error = read.status().message();
      }
      break;
    }
    case Proto::GRAPH: {
      out.kind = OnnxAttr::Kind::graph;
      auto body = std::make_shared<OnnxGraph>();
      onnx::GraphProto copy = proto.g();
      if (Status status = graph(copy, *body); status.ok()) {
        out.graph = std::move(body);
      } else {
        out.tensor_error = status.message();
      }
      break;
    }
    case Proto::GRAPHS: out.kind = OnnxAttr::Kind::graph; break;
    default: break;
  }
  return out;
}

OnnxValue Loader::value(const onnx::ValueInfoProto& proto) {
  OnnxValue out;
  out.name = proto.name();
  const onnx::TypeProto* inner = &proto.type();
  out.tensor = inner->has_tensor_type();
  if (inner->has_optional_type()) {
    out.optional = true;
    inner = &inner->optional_type().elem_type();
  }
  if (inner->has_sequence_type()) {
    out.sequence = true;
    inner = &inner->sequence_type().elem_type();
  }
  if (!inner->has_tensor_type()) {  // a map, or sequences of sequences
    out.optional = out.sequence = false;
    return out;
  }
  const auto& type = inner->tensor_type();
  out.type = static_cast<ElemType>(type.elem_type());
  out.has_shape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    OnnxDim d;
    if (dim.has_dim_value()) d.value = dim.dim_value();
    if (dim.has_dim_param()) d.symbol = dim.dim_param();
    out.dims.push_back(std::move(d));
  }
  return out;
}

OnnxNode Loader::node(const onnx::NodeProto& proto) {
  OnnxNode out{proto.name(), proto.op_type(), proto.domain() == "ai.onnx" ? "" : proto.domain(), {}, {}, {}};
  out.inputs.assign(proto.input().begin(), proto.input().end());
  out.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto& attr : proto.attribute()) out.attrs[attr.name()] = attribute(attr);
  return out;
}

Status Loader::graph(onnx::GraphProto& proto, OnnxGraph& out) {
  out.name = proto.name();
  for (const auto& n : proto.node()) out.nodes.push_back(node(n));
  for (auto& initializer : *proto.mutable_initializer()) {
    OnnxInitializer entry{initializer.name(), nullptr, {}};
    auto read = tensor(initializer);
    if (read.ok()) {
      entry.tensor = std::make_shared<HostTensor>(std::move(*read));
    } else if (read.status().code() == Code::unsupported) {
      entry.error = read.status().message();
    } else {
      return Status(read.status().code(), printable(cat("The initializer \"", initializer.name(),
                                                        "\" is damaged: ", read.status().message(), ".")));
    }
    out.initializers.push_back(std::move(entry));
    std::string().swap(*initializer.mutable_raw_data());  // two copies of all weights would be one too many
  }
  for (const auto& sparse : proto.sparse_initializer()) {
    out.initializers.push_back({sparse.values().name(), nullptr, "it is a sparse tensor"});
  }
  for (const auto& v : proto.input()) out.inputs.push_back(value(v));
  for (const auto& v : proto.output()) out.outputs.push_back(value(v));
  for (const auto& v : proto.value_info()) out.intermediates.push_back(value(v));
  return {};
}

Result<OnnxGraph> Loader::model(onnx::ModelProto& model) {
  if (!model.has_graph()) return corrupt("The file is not an ONNX model: it holds no graph.");
  OnnxGraph out;
  out.producer = model.producer_name();
  out.ir_version = model.ir_version();
  for (const auto& opset : model.opset_import()) {
    out.opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  }
  for (const auto& entry : model.metadata_props()) out.metadata[entry.key()] = entry.value();
  for (const auto& function : model.functions()) {
    OnnxFunction f{function.name(), function.domain(), {}, {}, {}};
    f.inputs.assign(function.input().begin(), function.input().end());
    f.outputs.assign(function.output().begin(), function.output().end());
    for (const auto& n : function.node()) f.nodes.push_back(node(n));
    out.functions.push_back(std::move(f));
  }
  GRAFT_TRY(graph(*model.mutable_graph(), out));
  return out;
}

bool parse(google::protobuf::MessageLite& message, const void* data, std::size_t size) {
  silence_protobuf();
  google::protobuf::io::CodedInputStream stream(static_cast<const std::uint8_t*>(data), static_cast<int>(size));
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  stream.SetRecursionLimit(64);
  return message.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

}  // namespace

namespace {

Status parse_model(std::span<const std::byte> bytes, const LoadLimits& limits, onnx::ModelProto& model) {
  if (bytes.size() > limits.max_file_bytes) {
    return invalid("The ONNX file has ", bytes_text(bytes.size()), ", more than the limit of ",
                   bytes_text(limits.max_file_bytes), "; larger models keep their weights in external data.");
  }
  GRAFT_TRY(check_message_count(bytes));
  if (!bytes.empty() && parse(model, bytes.data(), bytes.size())) return ok_status();
  return corrupt("The file of ", bytes_text(bytes.size()), " is not a complete ONNX model: parsing it failed.");
}

}  // namespace

Result<OnnxGraph> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder,
                             const LoadLimits& limits) {
  onnx::ModelProto model;
  GRAFT_TRY(parse_model(bytes, limits, model));
  return Loader(folder, !folder.empty(), limits).model(model);
}

Result<OnnxGraph> load_onnx(const std::filesystem::path& path, const LoadLimits& limits) {
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure)) {
    if (std::filesystem::exists(path, failure)) return invalid(quoted(path), " is not a regular file.");
    return error(Code::not_found, "There is no file ", quoted(path), ".");
  }
  const std::uint64_t size = std::filesystem::file_size(path, failure);
  if (failure) return error(Code::io_error, "The file ", quoted(path), " cannot be read: ", failure.message(), ".");
  if (size > limits.max_file_bytes) {
    return invalid("The file ", quoted(path), " has ", bytes_text(size), ", more than the limit of ",
                   bytes_text(limits.max_file_bytes), "; larger models keep their weights in external data.");
  }
  const std::string name = path.filename().string();
  onnx::ModelProto model;
  {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::byte> bytes(size);  // gone before the weights are read out of the message
    if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size))) {
      return error(Code::io_error, "The file ", quoted(path), " cannot be read.");
    }
    GRAFT_TRY(parse_model(bytes, limits, model).with_context(name));
  }
  const std::filesystem::path parent = path.parent_path();
  return Loader(parent.empty() ? std::filesystem::path(".") : parent, true, limits).model(model).with_context(name);
}

Result<HostTensor> parse_onnx_tensor(std::span<const std::byte> bytes) {
  onnx::TensorProto proto;
  if (!parse(proto, bytes.data(), bytes.size())) return corrupt("The file is not an ONNX tensor.");
  return Loader({}, false, {}).tensor(proto);
}

Result<std::vector<HostTensor>> parse_onnx_tensors(std::span<const std::byte> bytes, const OnnxValue& type) {
  std::vector<HostTensor> tensors;
  const auto add = [&](const onnx::TensorProto& proto) -> Status {
    GRAFT_TRY_ASSIGN(tensors.emplace_back(), Loader({}, false, {}).tensor(proto));
    return {};
  };
  onnx::OptionalProto optional;
  onnx::SequenceProto sequence;
  if (type.optional) {
    if (!parse(optional, bytes.data(), bytes.size())) return corrupt("The file is not an ONNX optional.");
    if (optional.has_tensor_value()) GRAFT_TRY(add(optional.tensor_value()));
    sequence = optional.sequence_value();
  } else if (type.sequence) {
    if (!parse(sequence, bytes.data(), bytes.size())) return corrupt("The file is not an ONNX sequence.");
  } else {
    GRAFT_TRY_ASSIGN(tensors.emplace_back(), parse_onnx_tensor(bytes));
  }
  for (const auto& proto : sequence.tensor_values()) GRAFT_TRY(add(proto));
  return tensors;
}

}  // namespace graft::convert
