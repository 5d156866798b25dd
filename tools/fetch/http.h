// Texts and files from an HTTP server, by libcurl, which is loaded when something is fetched: a command that fetches
// nothing does not wait for its twenty libraries, and a prebuilt tool runs where it is missing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tools/common/status.h"

namespace graft::cli {

class Http {
 public:
  /// `token` goes to servers of this scheme and host alone, as a bearer token; empty: none. not_found: libcurl is not
  /// here.
  static Result<Http> open(const std::string& endpoint, std::string token);
  Http(Http&&) noexcept;
  ~Http();

  /// What the address answers, of at most `limit` bytes. The code tells failures apart: not_found (404),
  /// invalid_argument (401 and 403), timeout (nothing answered: no network, no server).
  Result<std::string> text(const std::string& url, std::uint64_t limit);
  /// Adds what is missing of a file of `size` bytes to `path`, which may hold its beginning. What broke off is taken up
  /// again a few times; the part stays. told(bytes that are there) is called as they come.
  Status file(const std::string& url, const std::string& path, std::uint64_t size,
              const std::function<void(std::uint64_t)>& told);

 private:
  struct State;
  explicit Http(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A path with all but letters, digits and "-._~/" as %XX.
std::string escaped_path(const std::string& path);

}  // namespace graft::cli
