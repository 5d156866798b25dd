// Packs compiled kernels into the program: graft_pack_kernels LIST OUT.h
//
// LIST has a line for each kernel, in the order of the table: the shader file's stem and the path of its SPIR-V. Variants
// of one file, which repeat most of each other, are compressed together.
#include <zstd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

struct Group {
  std::string stem;
  std::string code;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "graft_pack_kernels: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return fail("usage: graft_pack_kernels LIST OUT.h");
  std::ifstream list(argv[1]);
  std::vector<Group> groups;
  std::string places;
  for (std::string line; std::getline(list, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string stem = line.substr(0, space), path = line.substr(space + 1);
    std::ifstream file(path, std::ios::binary);
    const std::string code{std::istreambuf_iterator<char>(file), {}};
    if (!file || code.empty() || code.size() % 4 != 0) return fail(path + " is no SPIR-V");
    if (groups.empty() || groups.back().stem != stem) groups.push_back({stem, {}});  // variants follow each other
    std::string& all = groups.back().code;
    places += "    {" + std::to_string(groups.size() - 1) + ", " + std::to_string(all.size() / 4) + ", " +
              std::to_string(code.size() / 4) + "},\n";
    all += code;
  }
  std::string packed, rows;
  for (const Group& group : groups) {
    std::string frame(ZSTD_compressBound(group.code.size()), '\0');
    const std::size_t size =
        ZSTD_compress(frame.data(), frame.size(), group.code.data(), group.code.size(), ZSTD_maxCLevel());
    if (ZSTD_isError(size) != 0) return fail(group.stem + ": " + ZSTD_getErrorName(size));
    rows += "    {" + std::to_string(packed.size()) + ", " + std::to_string(size) + ", " +
            std::to_string(group.code.size() / 4) + "},\n";
    packed.append(frame, 0, size);
  }
  const std::size_t bytes = packed.size();
  packed.resize((bytes + 7) / 8 * 8);
  std::FILE* out = std::fopen(argv[2], "w");
  if (out == nullptr) return fail(std::string("cannot write ") + argv[2]);
  std::fprintf(out, "// Generated from shaders/ by shaders/pack_kernels.cpp.\nnamespace graft::shaders {\nnamespace {\n");
  std::fprintf(out, "constexpr std::size_t kPackedBytes = %zu;\nconstexpr std::uint64_t kPacked[] = {", bytes);
  for (std::size_t i = 0; i < packed.size(); i += 8) {
    std::uint64_t word = 0;  // the first byte is the lowest, as on all that graft runs on
    for (std::size_t b = 8; b-- > 0;) word = word << 8 | static_cast<unsigned char>(packed[i + b]);
    std::fprintf(out, "%s0x%llx,", i % 64 == 0 ? "\n" : "", static_cast<unsigned long long>(word));
  }
  std::fprintf(out, "};\nconstexpr PackedGroup kGroups[] = {\n%s};\nconstexpr KernelPlace kPlaces[] = {\n%s};\n", rows.c_str(),
               places.c_str());
  std::fprintf(out, "}  // namespace\n}  // namespace graft::shaders\n");
  return std::fclose(out) == 0 ? 0 : fail(std::string("cannot write ") + argv[2]);
}
