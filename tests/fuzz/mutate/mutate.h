// What the structure-aware mutators share. A mutator takes an input apart by its format, changes a part, and puts it
// together with the lengths and checksums that a reader asks for first: else no change would get past them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace graft::fuzz {

/// splitmix64: the same seed gives the same changes.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// 0 .. count - 1; 0 of nothing.
  std::size_t below(std::size_t count) { return count == 0 ? 0 : static_cast<std::size_t>(next() % count); }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class List>
  auto& pick(List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::uint64_t state_;
};

/// Numbers at the ends of ranges, around powers of two, small ones, or `near` with a little added.
std::uint64_t extreme_integer(Random& random, std::uint64_t near = 0);
/// Not finite, denormal, huge, zero of either sign, or an extreme integer.
double extreme_number(Random& random);
/// A name that readers may stumble over: empty, long, with quotes, zero bytes or bytes that are no UTF-8.
std::string odd_text(Random& random);

/// Flips a bit, writes an extreme integer, or removes, repeats, moves or swaps a stretch.
void change_bytes(std::string& bytes, Random& random);

/// Gives the changed input, or an empty text where the input is none of the format.
using Mutate = std::string (*)(std::string_view input, Random& random);
/// The body of an LLVMFuzzerCustomMutator. One change in eight, and what `mutate` cannot take, is libFuzzer's own.
std::size_t mutate_with(Mutate mutate, std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed);

/// Little-endian numbers within bytes.
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value{};
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(static_cast<std::uint8_t>(bytes[at + i])) << (8 * i)));
  }
  return value;
}
template <class T>
void add_number(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i));
}

/// A document changed in one to three places; empty where `text` is no JSON.
std::string mutate_json(std::string_view text, Random& random);
/// A protobuf message, taken apart by its wire format alone, changed in one to three fields.
std::string mutate_protobuf(std::string_view bytes, Random& random);
/// Metadata, tensor list and contents of a GGUF file.
std::string mutate_gguf(std::string_view bytes, Random& random);
/// A header of JSON behind its length, then bytes.
std::string mutate_safetensors(std::string_view bytes, Random& random);
/// Lines of fields (csv, jsonl, plain text): fields and lines are changed, repeated, removed and swapped.
std::string mutate_lines(std::string_view text, Random& random);
/// The root of a .graft file: nodes, attributes and dimensions with shapes inferred anew (a valid model, mostly), or
/// any field of its tables.
std::string mutate_model(std::string_view root, Random& random);
/// Whether the input is of a size that model_of_root() takes.
bool is_model_root(std::string_view root);
/// The whole file: 1 KiB of zeros for weights behind the root, and a header and checksum that are right.
std::vector<std::byte> model_of_root(std::string_view root);
/// NumPy's header, with its length.
std::string mutate_npy(std::string_view bytes, Random& random);

}  // namespace graft::fuzz
