// From a Model to a file: lay out the weights, build the root around their places and checksums, write all atomically.
#include <algorithm>
#include <array>

#include "platform/base/checked.h"
#include "runtime/model/enums.h"
#include "runtime/model/format.h"
#include "runtime/model/graph_writer.h"
#include "runtime/model/model.h"

namespace graft {

using namespace model_format;

namespace {

struct Stored {
  ValueId value;
  std::span<const std::byte> bytes;
  Hash128 checksum;
  std::vector<std::uint64_t> blocks;
  std::uint32_t segment = 0;
  std::uint64_t offset = 0;  // in the segment
};

struct Segment {
  std::uint64_t bytes = 0;
  std::vector<std::size_t> tensors;  // indices into the list of Stored, in order of offset
};

/// A weight of one block has the checksum alone.
std::vector<std::uint64_t> hash_blocks(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> out;
  for (std::size_t at = 0; bytes.size() > kHashedBlock && at < bytes.size(); at += kHashedBlock) {
    out.push_back(hash64(bytes.subspan(at, std::min<std::size_t>(kHashedBlock, bytes.size() - at))));
  }
  return out;
}

std::vector<Stored> collect(const Model& model) {
  std::vector<Stored> stored;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    if (const auto bytes = model.weight({i})) stored.push_back({{i}, *bytes, hash128(*bytes), hash_blocks(*bytes)});
  }
  return stored;
}

/// Small weights share the first segment, so that a bias does not cost 64 KiB; each large one has its own.
std::vector<Segment> lay_out(std::vector<Stored>& stored) {
  std::vector<Segment> segments;
  const auto place = [&](std::size_t index, std::size_t segment) {
    Stored& tensor = stored[index];
    tensor.segment = static_cast<std::uint32_t>(segment);
    tensor.offset = align_up(segments[segment].bytes, kTensorAlignment);
    segments[segment].bytes = tensor.offset + tensor.bytes.size();
    segments[segment].tensors.push_back(index);
  };
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i].bytes.size() >= kSegmentAlignment) continue;
    if (segments.empty()) segments.emplace_back();
    place(i, 0);
  }
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i].bytes.size() < kSegmentAlignment) continue;
    segments.emplace_back();
    place(i, segments.size() - 1);
  }
  return segments;
}

fb::ModelT describe(const Model& model, const std::vector<Stored>& stored, const std::vector<Segment>& segments) {
  fb::ModelT out;
  out.graph = write_graph(model.graph, model.symbol_defaults);
  for (const Signature& signature : model.signatures) {
    auto& made = out.signatures.emplace_back(std::make_unique<fb::SignatureT>());
    made->name = signature.name;
    made->inputs = write_named_values(signature.inputs);
    made->outputs = write_named_values(signature.outputs);
  }
  for (const auto& [key, value] : model.metadata) {
    auto& made = out.metadata.emplace_back(std::make_unique<fb::KeyValueT>());
    made->key = key;
    made->value = value;
  }
  if (model.tokenizer) {
    out.tokenizer = std::make_unique<fb::TokenizerT>();
    out.tokenizer->kind = model.tokenizer->format;
    out.tokenizer->data.assign(model.tokenizer->bytes.begin(), model.tokenizer->bytes.end());
  }
  for (const Segment& segment : segments) {
    auto& made = out.segments.emplace_back(std::make_unique<fb::SegmentT>());
    made->bytes = segment.bytes;
  }
  for (const Stored& tensor : stored) {
    auto& made = out.tensors.emplace_back(std::make_unique<fb::TensorT>());
    made->value = tensor.value.index;
    made->segment = tensor.segment;
    made->offset = tensor.offset;
    made->bytes = tensor.bytes.size();
    made->dtype = *to_file(model.graph.value(tensor.value).dtype);
    made->checksum_low = tensor.checksum.low;
    made->checksum_high = tensor.checksum.high;
    made->blocks = tensor.blocks;
  }
  return out;
}

/// Puts the segments one after another, the first at `start`; returns the file's size.
std::uint64_t place_segments(fb::ModelT& file, std::uint64_t start) {
  std::uint64_t end = start;
  for (auto& segment : file.segments) {
    segment->offset = align_up(end, kSegmentAlignment);
    end = segment->offset + segment->bytes;
  }
  return end;
}

std::string pack(const fb::ModelT& file) {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishModelBuffer(builder, fb::Model::Pack(builder, &file));
  return add_header({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
}

/// An upper bound, so that FlatBuffers' 32-bit offsets are never put to the test.
Status check_root_size(const Model& model) {
  // What one table with its strings, vectors and alignment takes at most, apart from the contents counted here.
  constexpr std::uint64_t kTable = 256;
  std::uint64_t bytes = 0;
  const auto count_list = [&](const std::vector<Output>& list) {
    for (const Output& item : list) bytes += kTable + item.name.size();
  };
  for (const Value& value : model.graph.values()) {
    bytes += 3 * kTable + value.name.size();  // the value, its shape, its tensor
    if (const auto weight = model.weight(model.graph.find_value(value.name))) {
      bytes += sizeof(std::uint64_t) * (weight->size() / kHashedBlock + 1);
    }
    for (const Dim& dim : value.shape) bytes += 32 + dim.symbols().size();
  }
  for (const Node& node : model.graph.nodes()) {
    bytes += kTable + node.name.size() + 4 * (node.inputs.size() + node.outputs.size());
    for (const auto& [name, value] : node.attrs.items()) {
      bytes += 2 * kTable + name.size();
      if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
      if (const auto* integers = std::get_if<Ints>(&value)) bytes += 8 * integers->size();
      if (const auto* shape = std::get_if<Shape>(&value)) bytes += kTable + shape->text().size() + 16 * shape->rank();
    }
  }
  count_list(model.graph.outputs());
  for (const Signature& signature : model.signatures) {
    bytes += kTable + signature.name.size();
    count_list(signature.inputs);
    count_list(signature.outputs);
  }
  for (const auto& [key, value] : model.metadata) bytes += kTable + key.size() + value.size();
  if (model.tokenizer) bytes += kTable + model.tokenizer->format.size() + model.tokenizer->bytes.size();
  if (bytes <= kMaxRootBytes) return ok_status();
  return invalid("Its structure and metadata without weights may need ", bytes_text(bytes), "; the limit is ",
                 bytes_text(kMaxRootBytes), ".");
}

}  // namespace

namespace {

/// use(parts of the file, one after another). `context`: what a model that cannot be written is told with.
template <typename Use>
Status with_parts(const Model& model, bool shapes_only, const std::string& context, Use use) {
  GRAFT_TRY(validate(model, shapes_only).with_context(context));
  GRAFT_TRY(check_root_size(model).with_context(context));
  GRAFT_TRY(model.verify_weights().with_context(context));  // else damage would get a checksum that is right
  auto stored = collect(model);
  const auto segments = lay_out(stored);
  fb::ModelT file = describe(model, stored, segments);
  // Where the segments start depends on the root's size, which does not depend on where they start (no offset is 0,
  // FlatBuffers' default, which takes no room): pack once to learn the size.
  place_segments(file, kSegmentAlignment);
  const std::uint64_t file_bytes = place_segments(file, pack(file).size());
  std::string root = pack(file);
  const bool no_segment = file.segments.empty();
  seal(std::as_writable_bytes(std::span(root)), no_segment ? root.size() : file_bytes);

  static std::array<std::byte, kSegmentAlignment> zeros;  // never written; a constant would be 64 KiB of the library
  std::vector<std::span<const std::byte>> parts;
  std::uint64_t at = 0;
  const auto write_at = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    parts.push_back(std::span<const std::byte>(zeros).first(static_cast<std::size_t>(offset - at)));
    parts.push_back(bytes);
    at = offset + bytes.size();
  };
  write_at(0, std::as_bytes(std::span(root)));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    write_at(file.segments[i]->offset, {});
    for (const std::size_t index : segments[i].tensors) {
      write_at(file.segments[i]->offset + stored[index].offset, stored[index].bytes);
    }
  }
  return use(std::span<const std::span<const std::byte>>(parts));
}

}  // namespace

Status save_model(os::FileSystem& files, const std::string& path, const Model& model) {
  return with_parts(model, false, cat("The model cannot be saved as \"", path, "\""),
                    [&](auto parts) { return os::atomic_write_file(files, path, parts); });
}

Result<HostBuffer> model_bytes(const Model& model, bool shapes_only) {
  HostBuffer out;
  GRAFT_TRY(with_parts(model, shapes_only, "The model cannot be written", [&](auto parts) -> Status {
    std::uint64_t bytes = 0;
    for (const auto part : parts) bytes += part.size();
    GRAFT_TRY_ASSIGN(out, HostBuffer::create(bytes, "a model file in memory"));
    std::byte* at = out.data();
    for (const auto part : parts) at = std::ranges::copy(part, at).out;
    return ok_status();
  }));
  return out;
}

}  // namespace graft
