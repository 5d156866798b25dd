#include <algorithm>
#include <cstring>

#include "runtime/checkpoint/manifest.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/fuzz/mutate/store_input.h"

namespace graft::fuzz {
namespace {

using namespace graft::checkpoint;

constexpr std::uint32_t kMostDecoded = 1 << 16;  // of one chunk: seeds have less than 1 KiB

class StoreMutator {
 public:
  StoreMutator(std::vector<StoreFile>& files, Random& random) : files_(files), random_(random) {}

  void change_one() {
    StoreFile& file = random_.pick(files_);
    const std::size_t what = random_.below(8);
    if (what == 0) {
      change_files();
    } else if (what == 1) {
      change_header(file);
    } else if (file.kind() == FileKind::snapshot) {
      change_tables(file);
    } else if (file.kind() == FileKind::journal) {
      change_frames(file);
    } else {
      std::string body = file.bytes.substr(std::min(kHeaderBytes, file.bytes.size()));
      change_bytes(body, random_);
      file.bytes = file.bytes.substr(0, kHeaderBytes) + body;
    }
  }

 private:
  void change_files() {
    const StoreFile copy = random_.pick(files_);
    StoreFile& file = random_.pick(files_);
    switch (random_.below(5)) {
      case 0: files_.erase(files_.begin() + (&file - files_.data())); break;
      case 1: file.bytes = copy.bytes; break;  // the bytes of another file
      case 2: std::swap(file.number, files_[random_.below(files_.size())].number); break;
      case 3: file.bytes.resize(random_.below(file.bytes.size() + 1)); break;
      default: files_.push_back(copy); files_.back().number = static_cast<std::uint8_t>(random_.below(12));
    }
  }

  void change_header(StoreFile& file) {
    if (file.bytes.size() < kHeaderBytes) return;
    const std::size_t at = 16 + 8 * random_.below(4);
    const auto value =
        random_.one_in(2) ? random_.below(12) : extreme_integer(random_, number_at<std::uint64_t>(file.bytes, at));
    set_number(file.bytes, at, static_cast<std::uint64_t>(value));
  }

  void change_frames(StoreFile& file) {
    if (file.bytes.size() < kHeaderBytes + kFrameHeaderBytes) return;
    std::vector<std::string> frames = frames_of(file.bytes);
    if (frames.empty()) return;
    std::string& frame = random_.pick(frames);
    const std::string copy = random_.pick(frames);
    switch (random_.below(6)) {
      case 0: frames.erase(frames.begin() + (&frame - frames.data())); break;
      case 1: frames.insert(frames.begin(), copy); break;
      case 2: std::swap(frame, frames[random_.below(frames.size())]); break;
      case 3: set_number(frame, 8, extreme_integer(random_, number_at<std::uint64_t>(frame, 8))); break;
      case 4: set_number(frame, 4, static_cast<std::uint32_t>(random_.below(6))); break;
      default: {
        std::string payload = frame.substr(kFrameHeaderBytes);
        change_bytes(payload, random_);
        frame = frame.substr(0, kFrameHeaderBytes) + payload;
        set_number(frame, 0, static_cast<std::uint32_t>(payload.size()));
      }
    }
    file.bytes.resize(kHeaderBytes);
    for (const std::string& one : frames) file.bytes += one;
  }

  void change_tables(StoreFile& file) {
    if (file.bytes.size() <= kHeaderBytes) return;
    const std::string tables = file.bytes.substr(kHeaderBytes);
    std::vector<std::uint64_t> aligned(tables.size() / 8 + 1);
    std::memcpy(aligned.data(), tables.data(), tables.size());
    const Header header{.kind = FileKind::snapshot,
                        .number = number_at<std::uint64_t>(file.bytes, 16),
                        .a = tables.size(),
                        .b = number_at<std::uint64_t>(file.bytes, 32)};
    auto manifest = decode_tables(std::as_bytes(std::span(aligned)).first(tables.size()), header);
    if (!manifest.ok()) return;
    change_manifest(*manifest);
    if (!random_.one_in(8)) seal_chunks(manifest->chunks);
    const auto changed = encode_tables(*manifest);
    file.bytes.resize(kHeaderBytes);
    file.bytes.append(reinterpret_cast<const char*>(changed.data()), changed.size());
    set_number(file.bytes, 24, static_cast<std::uint64_t>(changed.size()));
  }

  template <class T>
  void change(T& number) {
    number = static_cast<T>(random_.one_in(2) ? random_.below(6)
                                              : extreme_integer(random_, static_cast<std::uint64_t>(number)));
  }

  void change_manifest(Manifest& manifest) {
    const std::size_t what = random_.below(8);
    if (what == 0) {
      change(manifest.chunk_bytes);
    } else if (what == 1) {
      manifest.meta.loss = extreme_number(random_);
      change(manifest.meta.step);
      manifest.meta.tags.push_back(odd_text(random_));
      manifest.meta.metadata.edit()[odd_text(random_)] = odd_text(random_);
    } else if (what < 4 && !manifest.streams->empty()) {
      change_stream(manifest, random_.pick(manifest.streams.edit()));
    } else if (what == 4 && !manifest.streams->empty()) {
      auto& streams = manifest.streams.edit();
      streams.push_back(Stream(random_.pick(streams)));
    } else if (!manifest.chunks.empty()) {
      change_chunk(random_.pick(manifest.chunks));
    }
  }

  void change_stream(Manifest& manifest, Stream& stream) {
    switch (random_.below(8)) {
      case 0: stream.name = odd_text(random_); break;
      case 1: change(stream.bytes); break;
      case 2: stream.element = static_cast<Element>(random_.below(8)); break;
      case 3: stream.kind = static_cast<StreamKind>(random_.below(12)); break;
      case 4: change(stream.worker); break;
      case 5: stream.frozen = Hash128{.low = random_.next(), .high = random_.next()}; break;
      case 6: {  // one more chunk: its indices stand at the end of all then
        const auto indices = manifest.chunks_of(stream);
        std::vector<std::uint32_t> longer(indices.begin(), indices.end());
        longer.push_back(static_cast<std::uint32_t>(random_.below(8)));
        stream.first = static_cast<std::uint32_t>(manifest.indices.size());
        ++stream.count;
        manifest.indices.insert(manifest.indices.end(), longer.begin(), longer.end());
        break;
      }
      default:
        if (stream.count != 0) change(manifest.indices[stream.first + random_.below(stream.count)]);
    }
  }

  void change_chunk(Chunk& chunk) {
    switch (random_.below(9)) {
      case 0: change(chunk.segment); break;
      case 1: change(chunk.offset); break;
      case 2: change(chunk.stored_bytes); break;
      case 3: change(chunk.decoded_bytes); break;
      case 4: change(chunk.parent); break;
      case 5: chunk.codec = static_cast<Codec>(random_.below(7)); break;
      case 6: chunk.compression = static_cast<Compression>(random_.below(3)); break;
      case 7: change(chunk.element_bytes); break;
      default: chunk.hash.low ^= 1;
    }
  }

  std::string_view stored(const Chunk& chunk) const {
    for (const StoreFile& file : files_) {
      if (file.kind() != FileKind::segment || file.number != chunk.segment) continue;
      if (chunk.offset > file.bytes.size() || chunk.stored_bytes > file.bytes.size() - chunk.offset) return {};
      return std::string_view(file.bytes).substr(chunk.offset, chunk.stored_bytes);
    }
    return {};
  }

  /// Checksums and hashes of what the chunks hold now, where that can be decoded.
  void seal_chunks(std::span<Chunk> chunks) {
    ChunkDecoder decoder;
    std::vector<std::vector<std::byte>> decoded(chunks.size());
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      Chunk& chunk = chunks[i];
      const auto bytes = std::as_bytes(std::span(stored(chunk)));
      if (bytes.empty() || chunk.decoded_bytes == 0 || chunk.decoded_bytes > kMostDecoded) continue;
      chunk.stored_checksum = checksum64(bytes);
      const std::size_t width = chunk.element_bytes;
      const bool known = chunk.codec <= Codec::sparse && chunk.compression <= Compression::zstd;
      if (!known || (width != 1 && width != 2 && width != 4) || !suits(chunk.codec, width)) continue;
      std::vector<std::byte> parent;
      if (chunk.parent < i) parent = decoded[chunk.parent];
      parent.resize(chunk.decoded_bytes);
      std::vector<std::byte> out(chunk.decoded_bytes);
      if (!decoder.decode(chunk.codec, chunk.compression, width, bytes, parent, out).ok()) continue;
      chunk.hash = hash128(out);
      decoded[i] = std::move(out);
    }
  }

  std::vector<StoreFile>& files_;
  Random& random_;
};

}  // namespace

std::vector<StoreFile> parse_store(std::string_view input) {
  std::vector<StoreFile> files;
  while (input.size() >= 4) {
    const std::size_t size = std::min<std::size_t>(input.size() - 4, number_at<std::uint16_t>(input, 2));
    files.push_back(
        {static_cast<std::uint8_t>(input[0]), static_cast<std::uint8_t>(input[1]), std::string(input.substr(4, size))});
    input.remove_prefix(4 + size);
  }
  return files;
}

std::vector<std::string> frames_of(std::string_view journal) {
  std::vector<std::string> frames;
  std::size_t at = kHeaderBytes;
  while (at < journal.size() && journal.size() - at >= kFrameHeaderBytes) {
    const auto size = number_at<std::uint32_t>(journal, at);
    if (size > journal.size() - at - kFrameHeaderBytes) break;
    frames.emplace_back(journal.substr(at, kFrameHeaderBytes + size));
    at += kFrameHeaderBytes + size;
  }
  return frames;
}

std::string mutate_store(std::string_view input, Random& random) {
  std::vector<StoreFile> files = parse_store(input);
  for (std::size_t left = 1 + random.below(3); left > 0 && !files.empty(); --left)
    StoreMutator(files, random).change_one();
  std::string out;
  for (const StoreFile& file : files) {
    if (file.bytes.size() > 0xffff) return {};
    out += static_cast<char>(file.kind_byte);
    out += static_cast<char>(file.number);
    add_number(out, static_cast<std::uint16_t>(file.bytes.size()));
    out += file.bytes;
  }
  return out;
}

}  // namespace graft::fuzz
