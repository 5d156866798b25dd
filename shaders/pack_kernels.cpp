// Packs compiled kernels into the program: graft_pack_kernels LIST NAMES OUT.h
//
// LIST has a line for each kernel, in the order of the table: the shader's folder and the path of its SPIR-V. NAMES has the
// names of all kernels, built or not, one behind the other. Kernels
// of one folder, which repeat most of each other, are written as kernel_words.h says and compressed together, and all of
// them with one trained dictionary. Few kernels are one frame: a program that was built for few uses most of them.
#include <zdict.h>
#include <zstd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kernel_words.h"

namespace {

struct Group {
  std::string folder;
  std::string code;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "graft_pack_kernels: %s\n", why.c_str());
  return 1;
}

/// What kernels have in common; empty where they are too few to learn from. Larger ones gain nothing on all kernels.
std::string train_dictionary(const std::vector<Group>& groups) {
  std::string samples;
  std::vector<std::size_t> sizes;
  for (const Group& group : groups) {
    samples += group.code;
    sizes.push_back(group.code.size());
  }
  std::string dictionary(65536, '\0');
  const std::size_t size = ZDICT_trainFromBuffer(dictionary.data(), dictionary.size(), samples.data(), sizes.data(),
                                                 static_cast<unsigned>(sizes.size()));
  dictionary.resize(ZDICT_isError(size) != 0 ? 0 : size);
  return dictionary;
}

struct Packed {
  std::string bytes, rows;
};

/// Appends a frame of `code`; false where zstd fails.
bool append_frame(Packed& packed, const std::string& code, const std::string& dictionary) {
  std::string frame(ZSTD_compressBound(code.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  const std::size_t size = ZSTD_compress_usingDict(context, frame.data(), frame.size(), code.data(), code.size(),
                                                   dictionary.data(), dictionary.size(), ZSTD_maxCLevel());
  ZSTD_freeCCtx(context);
  if (ZSTD_isError(size) != 0) return false;
  packed.rows += "    {" + std::to_string(packed.bytes.size()) + ", " + std::to_string(size) + ", " +
                 std::to_string(code.size()) + "},\n";
  packed.bytes.append(frame, 0, size);
  return true;
}

/// Kernels of more bytes than these stay apart by folder, so that a program unpacks those it uses alone.
constexpr std::size_t kMostAtOnce = 512 * 1024;

/// The groups, and behind them the names and the dictionary as the last two; nothing where zstd fails.
Packed pack(const std::vector<Group>& groups, const std::string& names, const std::string& dictionary) {
  Packed packed;
  for (const Group& group : groups) {
    if (!append_frame(packed, group.code, dictionary)) return {};
  }
  if (!append_frame(packed, names, {}) || !append_frame(packed, dictionary, {})) return {};
  return packed;
}

/// Where a kernel begins in its group, and how long it is.
struct Place {
  std::size_t group = 0, first = 0, words = 0;
};

/// All groups as one: places move with their group.
void join(std::vector<Group>& groups, std::vector<Place>& places) {
  std::vector<std::size_t> first;
  std::string all;
  for (const Group& group : groups) {
    first.push_back(all.size());
    all += group.code;
  }
  for (Place& place : places) place = {0, first[place.group] + place.first, place.words};
  groups = {{"all", std::move(all)}};
}

/// False where the file cannot be read.
bool read_file(const std::string& path, std::string& text) {
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail("usage: graft_pack_kernels LIST NAMES OUT.h");
  const char* const target = argv[3];
  std::ifstream list(argv[1]);
  std::string names;
  if (!read_file(argv[2], names)) return fail(std::string("cannot read ") + argv[2]);
  std::vector<Group> groups;
  std::vector<Place> places;
  for (std::string line; std::getline(list, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string folder = line.substr(0, space), path = line.substr(space + 1);
    std::string code;
    if (!read_file(path, code) || code.empty() || code.size() % 4 != 0) return fail(path + " is no SPIR-V");
    if (groups.empty() || groups.back().folder != folder) groups.push_back({folder, {}});  // kernels of a folder follow each other
    std::string& all = groups.back().code;
    const std::size_t first = all.size();
    std::vector<std::uint32_t> words(code.size() / 4), again(words.size());
    std::memcpy(words.data(), code.data(), code.size());
    if (!graft::shaders::write_kernel(words, all)) return fail(path + " has instructions of no kernel");
    if (!graft::shaders::read_kernel(std::as_bytes(std::span(all)).subspan(first), again) || again != words) {
      return fail(path + " would not be read as it was written");
    }
    places.push_back({groups.size() - 1, first, words.size()});
  }
  std::size_t code_bytes = 0;
  for (const Group& group : groups) code_bytes += group.code.size();
  if (code_bytes <= kMostAtOnce) join(groups, places);
  // A dictionary costs its own bytes: a few kernels are smaller without.
  Packed best = pack(groups, names, train_dictionary(groups));
  Packed plain = pack(groups, names, {});
  if (best.bytes.empty() || plain.bytes.size() < best.bytes.size()) best = std::move(plain);
  if (best.bytes.empty()) return fail("zstd failed");
  auto& [packed, rows] = best;
  const std::size_t bytes = packed.size();
  packed.resize((bytes + 7) / 8 * 8);
  std::FILE* out = std::fopen(target, "w");
  if (out == nullptr) return fail(std::string("cannot write ") + target);
  std::fprintf(out, "// Generated from shaders/ by shaders/pack_kernels.cpp.\nnamespace graft::shaders {\nnamespace {\n");
  std::fprintf(out, "constexpr std::size_t kPackedBytes = %zu;\nconstexpr std::uint64_t kPacked[] = {", bytes);
  for (std::size_t i = 0; i < packed.size(); i += 8) {
    std::uint64_t word = 0;  // the first byte is the lowest, as on all that graft runs on
    for (std::size_t b = 8; b-- > 0;) word = word << 8 | static_cast<unsigned char>(packed[i + b]);
    std::fprintf(out, "%s0x%llx,", i % 64 == 0 ? "\n" : "", static_cast<unsigned long long>(word));
  }
  std::fprintf(out, "};\nconstexpr PackedGroup kGroups[] = {\n%s};\nconstexpr KernelPlace kPlaces[] = {\n", rows.c_str());
  for (const Place& place : places) std::fprintf(out, "    {%zu, %zu, %zu},\n", place.group, place.first, place.words);
  std::fprintf(out, "};\n");
  std::fprintf(out, "}  // namespace\n}  // namespace graft::shaders\n");
  return std::fclose(out) == 0 ? 0 : fail(std::string("cannot write ") + target);
}
