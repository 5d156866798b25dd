// Data sets: opened, shuffled, and some batches read. The input is a line with a data set's name as the command line
// takes it, in which the files are called a and b, then four bytes for the size of a, and the contents of both. A
// capital first letter ("Csv:a") has a gzip-compressed before it is read.
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "runtime/data/loader.h"
#include "runtime/data/spec.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/support/files/power_files.h"

namespace {

using namespace graft::fuzz;
using graft::test::PowerFiles;

struct Input {
  std::string spec, a, b;
};

Input parse(std::string_view input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string_view rest = input.substr(std::min(end + 1, input.size()));
  Input out{.spec = std::string(input.substr(0, end))};
  if (rest.size() < 4) return out;
  const auto size = std::min<std::size_t>(number_at<std::uint32_t>(rest, 0), rest.size() - 4);
  out.a = rest.substr(4, size);
  out.b = rest.substr(4 + size);
  return out;
}

PowerFiles::Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string compressed(const std::string& text) {
  z_stream stream{};
  constexpr int kGzip = 16;
  if (deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) return {};
  std::string out(deflateBound(&stream, text.size()), 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void read_batches(graft::data::Source& source, std::size_t batches) {
  constexpr std::uint64_t kMemory = 16 << 20;
  const auto loader = graft::data::Loader::create(
      source, {.batch = 3, .seed = 1, .shuffle_buffer = 16, .epochs = 2, .prefetch = 0, .memory_limit = kMemory});
  if (!loader.ok()) return check_refusal(loader.status());
  for (std::size_t i = 0; i < batches; ++i) {
    const auto batch = (*loader)->next();
    if (!batch.ok()) return check_refusal(batch.status());
    if (*batch == nullptr) return;
    check((*batch)->count() > 0 && (*batch)->count() <= 3);
  }
}

std::string mutate_data(std::string_view bytes, Random& random) {
  Input input = parse(bytes);
  std::string& part = random.one_in(6) ? input.spec : input.b.empty() || random.one_in(2) ? input.a : input.b;
  std::string changed;
  if (part.starts_with("\x93NUMPY")) {
    changed = mutate_npy(part, random);
  } else if (&part == &input.spec || (input.spec.starts_with('c') || input.spec.starts_with('C'))) {
    changed = mutate_lines(part, random);
  } else {
    changed = part;
    change_bytes(changed, random);
  }
  part = changed;
  std::string out = input.spec + '\n';
  add_number(out, random.one_in(20) ? static_cast<std::uint32_t>(extreme_integer(random))
                                    : static_cast<std::uint32_t>(input.a.size()));
  return out + input.a + input.b;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input = parse({reinterpret_cast<const char*>(data), size});
  if (!input.spec.empty() && std::isupper(static_cast<unsigned char>(input.spec[0])) != 0) {
    input.spec[0] = static_cast<char>(std::tolower(input.spec[0]));
    input.a = compressed(input.a);
  }
  PowerFiles files(PowerFiles::Image{{"a", bytes_of(input.a)}, {"b", bytes_of(input.b)}});
  const graft::data::FileOptions options{
      .files = &files, .unpack_in_memory = 1 << 16, .unpack_limit = 1 << 22, .temporary_directory = "."};
  const auto source = graft::data::open_spec(input.spec, options);
  if (source.ok()) {
    read_batches(**source, 20);
  } else {
    check_refusal(source.status());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_data, data, size, max_size, seed);
}
