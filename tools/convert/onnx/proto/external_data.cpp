#include "tools/convert/onnx/proto/external_data.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "platform/base/checked.h"

namespace graft::convert {
namespace {

namespace fs = std::filesystem;

Result<std::uint64_t> parse_count(const std::string& text, const char* what, std::uint64_t absent) {
  if (text.empty()) return absent;
  std::uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size()) {
    return corrupt("the external data's ", what, " \"", text, "\" is not a number of bytes");
  }
  return value;
}

/// The real path of `location`, which must be a regular file within `folder` after every link is followed.
Result<fs::path> confine(const fs::path& folder, const std::string& location) {
  const fs::path relative(location);
  const bool dots = std::any_of(relative.begin(), relative.end(), [](const fs::path& part) { return part == ".."; });
  if (location.empty() || relative.is_absolute() || dots || location.find('\\') != std::string::npos ||
      location.find('\0') != std::string::npos) {
    return corrupt("the external data \"", location, "\" must be a path within the model's folder, without \"..\"");
  }
  std::error_code failure;
  const fs::path root = fs::canonical(folder.empty() ? fs::path(".") : folder, failure);
  if (failure) return error(Code::io_error, "the folder ", quoted(folder), " cannot be read: ", failure.message());
  const fs::path real = fs::canonical(root / relative, failure);
  if (failure) {
    return error(Code::not_found, "the external data \"", location, "\" cannot be read: ", failure.message());
  }
  const auto [root_end, rest] = std::mismatch(root.begin(), root.end(), real.begin(), real.end());
  if (root_end != root.end()) {
    return corrupt("the external data \"", location, "\" leads out of the model's folder through a symbolic link");
  }
  if (!fs::is_regular_file(real, failure)) return corrupt("the external data \"", location, "\" is not a file");
  return real;
}

}  // namespace

std::string quoted(const fs::path& path) {
  std::ostringstream out;
  out << path;
  return out.str();
}

Result<ExternalRegion> find_external(const fs::path& folder, const ExternalData& data, std::uint64_t needed) {
  if (!data.unknown.empty()) {
    return unsupported("the external data has the key \"", data.unknown,
                       "\"; location, offset, length and checksum are known");
  }
  GRAFT_TRY_ASSIGN(const fs::path path, confine(folder, data.location));
  GRAFT_TRY_ASSIGN(const std::uint64_t offset, parse_count(data.offset, "offset", 0));
  GRAFT_TRY_ASSIGN(const std::uint64_t length, parse_count(data.length, "length", needed));
  std::error_code failure;
  const std::uint64_t size = fs::file_size(path, failure);
  if (failure) return error(Code::io_error, "the size of \"", data.location, "\" is unknown: ", failure.message());
  if (length != needed) {
    return corrupt("the external data in \"", data.location, "\" has ", length, " bytes where its tensor needs ",
                   needed);
  }
  if (!in_bounds(offset, length, size)) {
    return corrupt("the external data needs bytes ", offset, " to ", offset + length, " of \"", data.location,
                   "\", which has ", size);
  }
  return ExternalRegion{path.string(), offset, needed};
}

Status ExternalRegion::read(const std::function<Status(std::span<const std::byte>)>& take) const {
  constexpr std::uint64_t kPiece = 1u << 20;
  const auto file = os::system_files().open(path, os::OpenMode::read);  // for each: a model has thousands of tensors
  if (!file.ok()) return error(Code::io_error, "the external data \"", path, "\" cannot be opened");
  std::vector<std::byte> piece(std::min(kPiece, bytes));
  for (std::uint64_t done = 0; done < bytes; done += piece.size()) {
    const auto now = std::span(piece).first(std::min<std::uint64_t>(kPiece, bytes - done));
    if (!os::read_exactly(**file, offset + done, now, path).ok()) {
      return error(Code::io_error, "reading ", bytes, " bytes of \"", path, "\" failed");
    }
    GRAFT_TRY(take(now));
  }
  return ok_status();
}

}  // namespace graft::convert
