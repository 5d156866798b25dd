#include "runtime/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

namespace graft::data {

bool is_gzip(std::span<const std::byte> start) {
  return start.size() >= 2 && start[0] == std::byte{0x1f} && start[1] == std::byte{0x8b};
}

struct StreamReader::Impl {
  // One read of the file at a time; larger gains nothing, as the unpacking takes longer than the reading.
  static constexpr std::size_t kInputBytes = 64 << 10;

  ~Impl() {
    if (inflating) inflateEnd(&stream);
  }

  std::string path;
  std::unique_ptr<os::File> file;
  std::uint64_t limit = 0;
  std::uint64_t given = 0;     // bytes handed out
  std::uint64_t consumed = 0;  // bytes read from the file
  bool packed = false;
  bool inflating = false;
  bool in_member = false;  // a member has begun and its end has not been seen
  bool at_end = false;     // of the file
  std::vector<std::byte> input;
  z_stream stream{};
  Status failure;

  Status fill();
  Result<std::size_t> read_plain(std::span<std::byte> out);
  Result<std::size_t> read_packed(std::span<std::byte> out);
  Status start_member();
  Status too_large() const {
    return invalid("\"", path, "\" holds more than ", bytes_text(limit), packed ? " when unpacked" : "",
                   ", the limit.");
  }
  Status cut_short() const { return corrupt("The gzip file \"", path, "\" ends in the middle of its data."); }
};

/// Reads on where all input has been used; sets at_end where there is none.
Status StreamReader::Impl::fill() {
  if (stream.avail_in != 0 || at_end) return ok_status();
  GRAFT_TRY_ASSIGN(const std::size_t count, file->read_at(consumed, input));
  consumed += count;
  at_end = count == 0;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(count);
  return ok_status();
}

Result<std::size_t> StreamReader::Impl::read_plain(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    GRAFT_TRY_ASSIGN(const std::size_t count, file->read_at(consumed, out.subspan(done)));
    if (count == 0) break;
    consumed += count;
    done += count;
  }
  return done;
}

/// Begins the next member where the file goes on. Zeros after the last member are padding, as of tapes.
Status StreamReader::Impl::start_member() {
  GRAFT_TRY(fill());
  while (inflating && !at_end && *stream.next_in == 0) {
    ++stream.next_in;
    --stream.avail_in;
    GRAFT_TRY(fill());
  }
  if (at_end) return ok_status();
  constexpr int kGzipOnly = 16;  // added to zlib's window size: expect gzip's header, verify gzip's checksum
  const int code = inflating ? inflateReset(&stream) : inflateInit2(&stream, kGzipOnly + MAX_WBITS);
  if (code != Z_OK) return error(Code::out_of_memory, "There is no memory to unpack \"", path, "\".");
  inflating = true;
  in_member = true;
  return ok_status();
}

Result<std::size_t> StreamReader::Impl::read_packed(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    if (!in_member) GRAFT_TRY(start_member());
    if (!in_member) break;
    GRAFT_TRY(fill());
    if (at_end) return cut_short();
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size() - done, std::numeric_limits<uInt>::max()));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = room;
    const int code = inflate(&stream, Z_NO_FLUSH);
    done += room - stream.avail_out;
    if (code == Z_STREAM_END) {
      in_member = false;
    } else if (code == Z_MEM_ERROR) {
      return error(Code::out_of_memory, "There is no memory to unpack \"", path, "\".");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return corrupt("The gzip file \"", path,
                     "\" is damaged: ", stream.msg != nullptr ? stream.msg : "it needs a preset dictionary", ".");
    }
  }
  return done;
}

StreamReader::StreamReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StreamReader::StreamReader(StreamReader&&) noexcept = default;
StreamReader& StreamReader::operator=(StreamReader&&) noexcept = default;
StreamReader::~StreamReader() = default;

Result<StreamReader> StreamReader::open(os::FileSystem& files, const std::string& path, std::uint64_t limit) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->limit = limit;
  GRAFT_TRY_ASSIGN(impl->file, files.open(path, os::OpenMode::read));
  std::byte start[2];
  GRAFT_TRY_ASSIGN(const std::size_t count, impl->file->read_at(0, start));
  impl->packed = is_gzip(std::span(start).first(count));
  if (impl->packed) impl->input.resize(Impl::kInputBytes);
  return StreamReader(std::move(impl));
}

Result<std::size_t> StreamReader::read(std::span<std::byte> out) {
  Impl& impl = *impl_;
  if (!impl.failure.ok()) return impl.failure;
  const std::uint64_t left = impl.limit - impl.given;
  const auto room = static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left));
  auto count = impl.packed ? impl.read_packed(out.first(room)) : impl.read_plain(out.first(room));
  if (count.ok() && room < out.size() && *count == room) {
    // The limit is reached: fine only if this is the end as well.
    std::byte more[1];
    const auto extra = impl.packed ? impl.read_packed(more) : impl.read_plain(more);
    if (!extra.ok()) {
      count = extra.status();
    } else if (*extra != 0) {
      count = impl.too_large();
    }
  }
  if (!count.ok()) {
    impl.failure = count.status();
    return count;
  }
  impl.given += *count;
  return count;
}

Result<HostBuffer> read_unpacked(os::FileSystem& files, const std::string& path, std::uint64_t limit,
                                 const HostAllocator& allocator) {
  GRAFT_TRY_ASSIGN(StreamReader reader, StreamReader::open(files, path, limit));
  const std::string purpose = cat("the contents of \"", path, "\"");
  // The size is known only at the end: room is doubled, and the last copy makes the buffer exact.
  GRAFT_TRY_ASSIGN(HostBuffer room, HostBuffer::create(64 * 1024, purpose, allocator));
  std::size_t used = 0;
  while (true) {
    GRAFT_TRY_ASSIGN(const std::size_t count, reader.read(room.bytes().subspan(used)));
    used += count;
    if (used < room.size()) break;
    GRAFT_TRY_ASSIGN(HostBuffer larger, HostBuffer::create(2 * std::uint64_t{room.size()}, purpose, allocator));
    std::memcpy(larger.data(), room.data(), used);
    room = std::move(larger);
  }
  GRAFT_TRY_ASSIGN(HostBuffer exact, HostBuffer::create(used, purpose, allocator));
  if (used != 0) std::memcpy(exact.data(), room.data(), used);
  return exact;
}

}  // namespace graft::data
