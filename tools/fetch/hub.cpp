#include "tools/fetch/hub.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "tools/common/files.h"
#include "tools/common/progress.h"
#include "tools/common/terminal.h"
#include "tools/fetch/digest.h"
#include "tools/fetch/http.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::uint64_t kMaxListing = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxText = std::uint64_t{256} << 20;  // of what is no weights: a tokenizer's file
constexpr std::uint64_t kSpareSpace = std::uint64_t{64} << 20;
constexpr std::size_t kCommitDigits = 40;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A name of the hub: letters, digits, "-", "_" and ".", but not a way out of a folder.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text != "." && text.find("..") == std::string_view::npos &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || std::string_view("-_.").find(static_cast<char>(c)) != std::string_view::npos;
         });
}

/// Whether a path stays below its folder.
bool is_inside(const std::string& path) {
  if (path.empty() || path.size() > 1024 || path.front() == '/' || path.find('\\') != std::string::npos) return false;
  if (std::ranges::any_of(path, [](unsigned char c) { return c < 0x20 || c == 0x7f; })) return false;
  return std::ranges::none_of(fs::path(path),
                              [](const fs::path& part) { return part.empty() || part == "." || part == ".."; });
}

bool is_hexadecimal(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); });
}

/// A file of a repository, as the hub lists it.
struct Listed {
  std::string path;
  std::uint64_t size = 0;
  Digest kind = Digest::sha1;
  std::string digest;  ///< empty: the hub gives none
};

struct Listing {
  std::string commit;
  std::vector<Listed> files;
};

std::string text_at(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Result<Listing> parse_listing(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto files = json.is_object() ? json.find("siblings") : json.end();
  Listing listing;
  if (!json.is_object() || files == json.end() || !files->is_array())
    return corrupt("The hub's list of files is no such list.");
  listing.commit = text_at(json, "sha");
  if (!is_hexadecimal(listing.commit, kCommitDigits)) return corrupt("The hub's list of files names no commit.");
  for (const Json& one : *files) {
    Listed file;
    if (one.is_object()) file.path = text_at(one, "rfilename");
    if (!is_inside(file.path)) return corrupt("The hub's list holds a file that would not lie in the model's folder.");
    const auto size = one.find("size");
    if (size != one.end() && size->is_number_unsigned()) file.size = size->get<std::uint64_t>();
    file.digest = text_at(one, "blobId");
    if (const auto large = one.find("lfs"); large != one.end() && large->is_object()) {
      file.kind = Digest::sha256;
      file.digest = text_at(*large, "sha256");
    }
    if (!is_hexadecimal(file.digest, file.kind == Digest::sha1 ? 40 : 64)) {
      return corrupt("The hub gives no checksum of \"", file.path, "\".");
    }
    listing.files.push_back(std::move(file));
  }
  return listing;
}

/// Of a folder: what `graft convert` reads of it.
bool is_wanted(const Listed& file, bool has_safetensors) {
  const fs::path path(file.path);
  const std::string name = path.filename().string();
  const std::string ending = path.extension().string();
  // sentence-transformers' modules have their settings in folders such as 1_Pooling.
  if (path.has_parent_path())
    return path.parent_path().string().starts_with(std::to_string(1) + "_") && name == "config.json";
  if (ending == ".safetensors") return name.starts_with("model") || name.starts_with("adapter_model");
  if (name == "pytorch_model.bin") return !has_safetensors;
  if (file.size > kMaxText) return false;
  return (ending == ".json" && !name.starts_with("pytorch_model")) || ending == ".jinja" || ending == ".model" ||
         name == "vocab.txt" || name == "merges.txt";
}

Result<std::vector<Listed>> wanted_files(const HubAddress& address, const Listing& listing) {
  std::vector<Listed> wanted;
  if (!address.file.empty()) {
    // An ONNX file's weights may be in other files of its folder, whose names begin with its own.
    const bool is_onnx = address.file.ends_with(".onnx");
    std::ranges::copy_if(listing.files, std::back_inserter(wanted), [&](const Listed& file) {
      return file.path == address.file || (is_onnx && file.path.starts_with(address.file));
    });
    if (std::ranges::find(wanted, address.file, &Listed::path) == wanted.end()) {
      return error(Code::not_found, address.repository, " has no file \"", address.file, "\".");
    }
    return wanted;
  }
  const auto has = [&](std::string_view ending) {
    return std::ranges::any_of(listing.files, [&](const Listed& file) { return file.path.ends_with(ending); });
  };
  const bool has_safetensors = std::ranges::any_of(listing.files, [](const Listed& file) {
    return file.path.ends_with(".safetensors") && file.path.find('/') == std::string::npos && is_wanted(file, true);
  });
  std::ranges::copy_if(listing.files, std::back_inserter(wanted),
                       [&](const Listed& file) { return is_wanted(file, has_safetensors); });
  const bool has_config = std::ranges::any_of(
      wanted, [](const Listed& file) { return file.path == "config.json" || file.path == "adapter_config.json"; });
  if (has_config && (has_safetensors || has("pytorch_model.bin"))) return wanted;
  std::string names;
  std::size_t count = 0;
  for (const Listed& file : listing.files) {
    if (!file.path.ends_with(".gguf") && !file.path.ends_with(".onnx") && !file.path.ends_with(".tflite")) continue;
    if (++count <= 4) names += cat(names.empty() ? "" : ", ", "hf:", address.repository, "/", file.path);
  }
  if (count > 0) {
    return invalid(address.repository, " is no folder of config.json and safetensors. Name one of its files: ", names,
                   count > 4 ? cat(" or one of ", count - 4, " more") : "", ".");
  }
  return unsupported(
      address.repository,
      " holds nothing that graft convert reads: no config.json with safetensors, no GGUF, ONNX or TFLite file.");
}

Result<std::string> cache_folder() {
  if (const std::string given = environment("GRAFT_CACHE"); !given.empty()) return given;
  if (const std::string given = environment("XDG_CACHE_HOME"); !given.empty()) return given + "/graft";
  if (const std::string home = environment("HOME"); !home.empty()) return home + "/.cache/graft";
  return invalid("There is no folder to fetch into: set GRAFT_CACHE.");
}

Result<std::string> endpoint() {
  std::string given = environment("HF_ENDPOINT");
  if (given.empty()) return std::string("https://huggingface.co");
  while (given.ends_with('/')) given.pop_back();
  if (given.starts_with("https://") || given.starts_with("http://127.0.0.1:") || given.starts_with("http://localhost:"))
    return given;
  return invalid("HF_ENDPOINT is \"", given, "\", and only https is taken, or http of this machine.");
}

/// Of the environment, or what `huggingface-cli login` keeps.
std::string token() {
  std::string found = environment("HF_TOKEN");
  if (found.empty()) {
    const std::string home = environment("HF_HOME");
    const auto kept =
        text_of_file(home.empty() ? environment("HOME") + "/.cache/huggingface/token" : home + "/token", 4096);
    if (kept.ok()) found = *kept;
  }
  // A line's end or a space in a header would be another header.
  std::erase_if(found, [](unsigned char c) { return std::isgraph(c) == 0; });
  return found;
}

/// The lock of a folder that one process at a time fetches into; it goes with the process.
class FolderLock {
 public:
  static Result<FolderLock> take(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor < 0) return error(Code::io_error, "Cannot write \"", path, "\".");
    WaitNotice notice("Another graft fetches this model: waiting for it.");
    while (::flock(descriptor, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      ::close(descriptor);
      return error(Code::io_error, "Cannot lock \"", path, "\".");
    }
    return FolderLock(descriptor);
  }
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

/// One repository of the hub and its place in the cache.
class Repository {
 public:
  Repository(HubAddress address, std::string hub, std::string folder)
      : address_(std::move(address)), hub_(std::move(hub)), folder_(std::move(folder)) {}

  Result<Fetched> fetch(bool quiet) {
    TRY(make_folders(folder_));
    TRY_ASSIGN(const FolderLock lock, FolderLock::take(folder_ + "/lock"));
    TRY_ASSIGN(const Listing listing, listing_now());
    TRY_ASSIGN(const std::vector<Listed> files, wanted_files(address_, listing));
    // The folder has the model's name, which graft convert writes into the model.
    const std::string target =
        cat(folder_, "/", listing.commit, "/", fs::path(address_.repository).filename().string());
    Fetched out{address_.file.empty() ? target : cat(target, "/", address_.file), files.size()};
    std::vector<Listed> missing;
    std::uint64_t to_come = 0;
    for (const Listed& file : files) {
      out.bytes += file.size;
      if (is_there(target, file)) continue;
      missing.push_back(file);
      to_come += file.size;
    }
    out.bytes_fetched = to_come;
    if (missing.empty()) return out;
    if (is_offline_) return offline(offline_why_, missing.front().path);
    TRY(make_folders(target));
    TRY(check_space(target, missing, to_come));
    TRY(connect());
    constexpr std::uint64_t kMegabyte = 1'000'000;
    Progress progress("MB", to_come / kMegabyte, quiet || to_come < kMegabyte);
    std::uint64_t done = 0;
    for (const Listed& file : missing) {
      TRY(fetch_file(listing, target, file,
                     [&](std::uint64_t there) { progress.update((done + there) / kMegabyte, file.path); }));
      done += file.size;
    }
    progress.finish();
    return out;
  }

 private:
  static bool is_there(const std::string& target, const Listed& file) {
    std::error_code failed;
    return fs::file_size(cat(target, "/", file.path), failed) == file.size && !failed;
  }

  Status connect() {
    if (http_) return ok_status();
    TRY_ASSIGN(Http http, Http::open(hub_, token()));
    http_.emplace(std::move(http));
    return ok_status();
  }

  std::string listing_path(const std::string& commit) const { return cat(folder_, "/", commit, ".files.json"); }
  std::string revision_path() const { return cat(folder_, "/", address_.revision, ".commit"); }

  /// What the hub has, or, where it cannot be reached, what it had when it was last asked.
  Result<Listing> listing_now() {
    // A commit never changes: what is known of it need not be asked again.
    if (is_hexadecimal(address_.revision, kCommitDigits)) {
      if (auto kept = listing_of(address_.revision); kept.ok()) return kept;
    }
    TRY(connect());
    const auto answer = http_->text(
        cat(hub_, "/api/models/", address_.repository, "/revision/", address_.revision, "?blobs=true"), kMaxListing);
    if (answer.ok()) {
      TRY_ASSIGN(Listing listing, parse_listing(*answer));
      TRY(write_text(listing_path(listing.commit), *answer));
      TRY(write_text(revision_path(), listing.commit));
      return listing;
    }
    const Status& why = answer.status();
    if (why.code() == Code::timeout) {
      is_offline_ = true;
      offline_why_ = why.message();
      const auto commit = text_of_file(revision_path(), 64);
      auto kept = commit.ok() && is_hexadecimal(*commit, kCommitDigits) ? listing_of(*commit) : Result<Listing>(why);
      if (!kept.ok()) return offline(why.message(), "");
      to_stderr("%s graft takes what was fetched earlier: commit %s.\n", why.message().c_str(), commit->c_str());
      return kept;
    }
    if (why.code() == Code::not_found || why.code() == Code::invalid_argument) {
      return error(why.code(), hub_, " gives no model ", address_.repository, " at the revision \"", address_.revision,
                   "\": it does not exist, or it needs a token (HF_TOKEN) of somebody who may read it.");
    }
    return why;
  }

  Result<Listing> listing_of(const std::string& commit) const {
    TRY_ASSIGN(const std::string text, text_of_file(listing_path(commit), kMaxListing));
    return parse_listing(text);
  }

  Status offline(const std::string& why, const std::string& missing) const {
    return error(Code::timeout, why,
                 missing.empty() ? "" : cat(" Of the model, \"", missing, "\" is not in the cache."),
                 " With another machine's browser, put the model's files (config.json, the tokenizer's files and "
                 "*.safetensors of ",
                 hub_, "/", address_.repository, "/tree/", address_.revision,
                 ") into a folder, and give graft convert that folder.");
  }

  Status check_space(const std::string& target, const std::vector<Listed>& missing, std::uint64_t to_come) const {
    std::error_code failed;
    std::uint64_t parts = 0;
    for (const Listed& file : missing) {
      const auto size = fs::file_size(part_path(target, file), failed);
      if (!failed) parts += size;
    }
    const fs::space_info space = fs::space(target, failed);
    if (failed || space.available + parts >= to_come + kSpareSpace) return ok_status();
    return error(Code::io_error, "The model's files take ", (to_come + 999'999) / 1'000'000, " MB, and \"", target,
                 "\" has room for ", space.available / 1'000'000, ": set GRAFT_CACHE to another place.");
  }

  static std::string part_path(const std::string& target, const Listed& file) {
    return cat(target, "/", file.path, ".part");
  }

  Status fetch_file(const Listing& listing, const std::string& target, const Listed& file,
                    const std::function<void(std::uint64_t)>& told) {
    const std::string path = cat(target, "/", file.path);
    const std::string part = part_path(target, file);
    TRY(make_folders(fs::path(path).parent_path().string()));
    const std::string url =
        cat(hub_, "/", address_.repository, "/resolve/", listing.commit, "/", escaped_path(file.path));
    const Status done = http_->file(url, part, file.size, told);
    if (done.code() == Code::invalid_argument) {
      return invalid(done.message(), " Accept the model's terms at ", hub_, "/", address_.repository,
                     ", and set HF_TOKEN.");
    }
    if (done.code() == Code::timeout)
      return error(Code::timeout, done.message(), " Run the command again: it continues where this one ended.");
    TRY(done);
    // git's name of a small file is the SHA-1 of its size and its bytes.
    const std::string prefix = file.kind == Digest::sha1 ? cat("blob ", file.size, std::string(1, '\0')) : "";
    TRY_ASSIGN(const std::string digest, digest_of_file(part, file.kind, prefix));
    std::error_code failed;
    if (digest != file.digest) {
      fs::remove(part, failed);
      return corrupt("What came of \"", file.path, "\" has the checksum ", digest, " instead of ", file.digest,
                     ": it was removed.");
    }
    fs::rename(part, path, failed);
    if (failed) return error(Code::io_error, "Cannot write \"", path, "\": ", failed.message(), ".");
    return ok_status();
  }

  HubAddress address_;
  std::string hub_;
  std::string folder_;  ///< in the cache
  std::optional<Http> http_;
  bool is_offline_ = false;
  std::string offline_why_;
};

}  // namespace

std::string HubAddress::text() const {
  return cat("hf:", repository, revision == "main" ? "" : "@" + revision, file.empty() ? "" : "/" + file);
}

Result<HubAddress> parse_hub_address(const std::string& text) {
  const auto wrong = [&] {
    return invalid("\"", text, "\" is no address of the hub: hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME/FILE.");
  };
  std::string rest = text.substr(std::string_view("hf:").size());
  const auto first = rest.find('/');
  if (first == std::string::npos) return wrong();
  const auto second = rest.find('/', first + 1);
  HubAddress address;
  if (second != std::string::npos) address.file = rest.substr(second + 1);
  rest = rest.substr(0, second);
  if (const auto at = rest.find('@'); at != std::string::npos) {
    address.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  address.repository = rest;
  if (first >= rest.size() || !is_name(rest.substr(0, first)) || !is_name(rest.substr(first + 1)) ||
      !is_name(address.revision))
    return wrong();
  if (second != std::string::npos && !is_inside(address.file)) return wrong();
  return address;
}

Result<Fetched> fetch_from_hub(const HubAddress& address, bool quiet) {
  TRY_ASSIGN(const std::string cache, cache_folder());
  TRY_ASSIGN(const std::string hub, endpoint());
  std::string name = address.repository;
  name.replace(name.find('/'), 1, "--");
  return Repository(address, hub, cat(cache, "/hub/", name)).fetch(quiet);
}

}  // namespace graft::cli
