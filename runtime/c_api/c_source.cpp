#include "runtime/c_api/c_source.h"

#include <limits>

#include "platform/os/descriptor.h"

namespace graft::c_api {

namespace {

/// Bytes of the caller's.
class BorrowedBytes final : public os::MappedFile {
 public:
  explicit BorrowedBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes() const override { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Bytes of one's own.
class OwnedBytes final : public os::MappedFile {
 public:
  explicit OwnedBytes(HostBuffer buffer) : buffer_(std::move(buffer)) {}
  std::span<const std::byte> bytes() const override { return buffer_.bytes(); }

 private:
  HostBuffer buffer_;
};

// What weights and checksums of blocks are read as; load_model() asks for it.
constexpr std::uint64_t kMappedAlignment = 8;
constexpr std::size_t kReadAtOnce = 4 << 20;  // graft_source promises it

using Bytes = std::unique_ptr<os::MappedFile>;

/// A buffer of `bytes` that fill(at, piece) fills, piece after piece.
template <typename Fill>
Result<Bytes> read_pieces(std::uint64_t bytes, const std::string& name, const HostAllocator& allocator, Fill fill) {
  GRAFT_TRY_ASSIGN(HostBuffer buffer, HostBuffer::create(bytes, name, allocator));
  for (std::size_t at = 0; at < buffer.size(); at += kReadAtOnce) {
    GRAFT_TRY(fill(at, buffer.bytes().subspan(at, std::min(kReadAtOnce, buffer.size() - at))));
  }
  return Bytes(std::make_unique<OwnedBytes>(std::move(buffer)));
}

Result<Bytes> from_memory(const graft_source& source, const std::string& name, const HostAllocator& allocator) {
  if (source.data == nullptr) return invalid("The source \"", name, "\" in memory has no data.");
  if (source.bytes > std::numeric_limits<std::size_t>::max()) {
    return invalid("The source \"", name, "\" in memory has ", source.bytes, " bytes, more than there are addresses.");
  }
  const std::span bytes(static_cast<const std::byte*>(source.data), static_cast<std::size_t>(source.bytes));
  if (source.copy == 0) {
    if (reinterpret_cast<std::uintptr_t>(source.data) % kMappedAlignment != 0) {
      return invalid("The source \"", name, "\" in memory does not start at a multiple of ", kMappedAlignment,
                     " bytes; with copy = 1 it may start anywhere.");
    }
    return Bytes(std::make_unique<BorrowedBytes>(bytes));
  }
  return read_pieces(source.bytes, name, allocator, [&](std::size_t at, std::span<std::byte> piece) {
    std::memcpy(piece.data(), bytes.data() + at, piece.size());
    return ok_status();
  });
}

Result<Bytes> from_descriptor(const graft_source& source, const std::string& name, const HostAllocator& allocator) {
  GRAFT_TRY_ASSIGN(const std::uint64_t bytes,
                   os::descriptor_bytes(source.descriptor, source.offset, source.bytes, name));
  if (source.offset % kMappedAlignment == 0) {
    auto mapped = os::map_descriptor(source.descriptor, source.offset, bytes, name);
    // What a file system cannot map may still be read.
    if (mapped.ok() || mapped.status().code() != Code::io_error) return mapped;
  }
  GRAFT_TRY_ASSIGN(const auto file, os::open_descriptor(source.descriptor, name));
  return read_pieces(bytes, name, allocator, [&](std::size_t at, std::span<std::byte> piece) {
    return os::read_exactly(*file, source.offset + at, piece, name);
  });
}

Result<Bytes> from_reader(const graft_source& source, const std::string& name, const HostAllocator& allocator) {
  if (source.read == nullptr) return invalid("The source \"", name, "\" has no function that reads.");
  return read_pieces(source.bytes, name, allocator, [&](std::size_t at, std::span<std::byte> piece) -> Status {
    if (source.read(source.user, at, piece.size(), piece.data()) == 0) return ok_status();
    return error(Code::io_error, "The source \"", name, "\" did not give its ", piece.size(), " bytes from byte ", at,
                 " on.");
  });
}

}  // namespace

Result<SourceBytes> read_source(const graft_context& context, const graft_source* given) {
  if (given == nullptr) return invalid("The source is NULL.");
  GRAFT_TRY_ASSIGN(const graft_source source, read_options(given, "graft_source"));
  SourceBytes out;
  switch (source.kind) {
    case GRAFT_SOURCE_MEMORY: {
      out.name = source.name != nullptr ? source.name : "memory";
      GRAFT_TRY_ASSIGN(out.bytes, from_memory(source, out.name, context.allocator));
      return out;
    }
    case GRAFT_SOURCE_DESCRIPTOR: {
      out.name = source.name != nullptr ? source.name : cat("descriptor ", source.descriptor);
      GRAFT_TRY_ASSIGN(out.bytes, from_descriptor(source, out.name, context.allocator));
      return out;
    }
    case GRAFT_SOURCE_READER: {
      out.name = source.name != nullptr ? source.name : "reader";
      GRAFT_TRY_ASSIGN(out.bytes, from_reader(source, out.name, context.allocator));
      return out;
    }
  }
  return invalid("There is no kind of sources number ", static_cast<unsigned>(source.kind), ".");
}

Result<Model> load_source(const graft_context& context, const graft_source* source, const LoadOptions& options) {
  GRAFT_TRY_ASSIGN(SourceBytes read, read_source(context, source));
  return load_model(std::move(read.bytes), read.name, options);
}

Result<LoadOptions> load_options(const graft_model_options& options) {
  constexpr WeightCheck kChecks[] = {WeightCheck::on_use, WeightCheck::at_once, WeightCheck::never};
  const auto check = static_cast<unsigned>(options.check);
  if (check >= std::size(kChecks)) return invalid("There is no check of weights number ", check, ".");
  return LoadOptions{.check = kChecks[check], .shapes_only = options.shapes_only != 0};
}

}  // namespace graft::c_api
