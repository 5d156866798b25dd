#include "tools/graft/shared/tensor_files.h"

#include <algorithm>
#include <cstdio>

#include "tools/common/options.h"
#include "tools/common/terminal.h"

namespace graft::cli {

NpyType type_of(const graft_tensor_info& info) {
  return info.dtype == GRAFT_F32 ? NpyType::f32 : info.dtype == GRAFT_I32 ? NpyType::i32 : NpyType::boolean;
}

Status write_array(const std::string& folder, const FileNames& files, const graft_tensor_info& info,
                   std::span<const std::byte> bytes, const std::string& source) {
  const std::string file = npy_file_name(info.name);
  const auto own = files.find(info.name);
  const bool renamed = own != files.end() && own->second != file;
  const std::string path = folder + "/" + (renamed ? own->second : file);
  TRY(write_npy(path, type_of(info), dims_of(info), bytes, source));
  const std::string element = source.empty() ? npy_type_name(type_of(info)) : source;
  const bool says_name = std::ranges::count(files, file, [](const auto& one) { return npy_file_name(one.first); }) > 1;
  to_stdout("%s  %s%s%s\n", path.c_str(), element.c_str(), dims_text(dims_of(info)).c_str(),
            says_name ? cat("  of \"", info.name, "\"").c_str() : "");
  return ok_status();
}

}  // namespace graft::cli
