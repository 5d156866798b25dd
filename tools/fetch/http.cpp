#include "tools/fetch/http.h"

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#ifdef GRAFT_HAVE_CURL
#define CURL_DISABLE_TYPECHECK
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

#include "platform/os/dynamic_library.h"
#endif

namespace graft::cli {

std::string escaped_path(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("-._~/", c) != nullptr) {
      out += c;
    } else {
      char code[4];
      std::snprintf(code, sizeof code, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += code;
    }
  }
  return out;
}

#ifdef GRAFT_HAVE_CURL

namespace {

constexpr int kTries = 5;  // of a file whose transfer breaks off
constexpr const char* kLibraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib", "libcurl.dll"};

}  // namespace

struct Http::State {
  /// The functions of libcurl that are called; all have been there since 7.12.
  struct Curl {
    os::DynamicLibrary library;
    decltype(&::curl_easy_init) init;
    decltype(&::curl_easy_setopt) set;
    decltype(&::curl_easy_perform) perform;
    decltype(&::curl_easy_getinfo) info;
    decltype(&::curl_easy_strerror) text_of;
    decltype(&::curl_easy_reset) reset;
    decltype(&::curl_easy_cleanup) cleanup;
    decltype(&::curl_slist_append) append;
    decltype(&::curl_slist_free_all) free_all;

    bool find() {
      init = library.find_as<decltype(init)>("curl_easy_init");
      set = library.find_as<decltype(set)>("curl_easy_setopt");
      perform = library.find_as<decltype(perform)>("curl_easy_perform");
      info = library.find_as<decltype(info)>("curl_easy_getinfo");
      text_of = library.find_as<decltype(text_of)>("curl_easy_strerror");
      reset = library.find_as<decltype(reset)>("curl_easy_reset");
      cleanup = library.find_as<decltype(cleanup)>("curl_easy_cleanup");
      append = library.find_as<decltype(append)>("curl_slist_append");
      free_all = library.find_as<decltype(free_all)>("curl_slist_free_all");
      return init != nullptr && set != nullptr && perform != nullptr && info != nullptr && text_of != nullptr &&
             reset != nullptr && cleanup != nullptr && append != nullptr && free_all != nullptr;
    }
  };

  Curl curl;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::string endpoint;  ///< with its scheme

  /// Where the answer to one request goes.
  struct Sink {
    State* state;
    std::function<bool(std::string_view)> take;  ///< false: stop
    bool is_begun = false;
    std::function<bool(long)> begin;  ///< told the code before the first byte; false: stop
  };

  ~State() {
    if (headers != nullptr) curl.free_all(headers);
    if (easy != nullptr) curl.cleanup(easy);
  }

  static std::size_t write(char* bytes, std::size_t one, std::size_t count, void* user) {
    Sink& sink = *static_cast<Sink*>(user);
    if (!sink.is_begun) {
      sink.is_begun = true;
      long code = 0;
      sink.state->curl.info(sink.state->easy, CURLINFO_RESPONSE_CODE, &code);
      if (!sink.begin(code)) return 0;
    }
    return sink.take({bytes, one * count}) ? one * count : 0;
  }

  /// The code of HTTP, or the failure of the transfer as timeout.
  Result<long> get(const std::string& url, std::uint64_t from, Sink& sink) {
    curl.reset(easy);
    char reason[CURL_ERROR_SIZE] = "";
    curl.set(easy, CURLOPT_URL, url.c_str());
    curl.set(easy, CURLOPT_ERRORBUFFER, reason);
    curl.set(easy, CURLOPT_NOSIGNAL, 1L);
    curl.set(easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl.set(easy, CURLOPT_MAXREDIRS, 8L);
    // A redirection never leads from an encrypted address to a plain one, nor to files of this machine.
    const long allowed = url.starts_with("https:") ? CURLPROTO_HTTPS : CURLPROTO_HTTP | CURLPROTO_HTTPS;
    curl.set(easy, CURLOPT_PROTOCOLS, allowed);
    curl.set(easy, CURLOPT_REDIR_PROTOCOLS, allowed);
    curl.set(easy, CURLOPT_CONNECTTIMEOUT, 30L);
    curl.set(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.set(easy, CURLOPT_LOW_SPEED_TIME, 60L);
    curl.set(easy, CURLOPT_USERAGENT, "graft/" GRAFT_VERSION);
    // libcurl leaves such a header out where a redirection leads to another host.
    if (headers != nullptr) curl.set(easy, CURLOPT_HTTPHEADER, headers);
    if (from > 0) curl.set(easy, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(from));
    curl.set(easy, CURLOPT_WRITEFUNCTION, &State::write);
    curl.set(easy, CURLOPT_WRITEDATA, &sink);
    const CURLcode done = curl.perform(easy);
    long code = 0;
    curl.info(easy, CURLINFO_RESPONSE_CODE, &code);
    // A server that cannot go on where the part ends says 416, or sends the whole file, which libcurl refuses.
    if (done == CURLE_RANGE_ERROR || code == 416) return 416L;
    // An answer that is not wanted is stopped, which is an error of libcurl's.
    if (done == CURLE_OK || (done == CURLE_WRITE_ERROR && sink.is_begun)) return code;
    std::string why = reason[0] != '\0' ? reason : curl.text_of(done);
    if (why.ends_with('.')) why.pop_back();
    return error(Code::timeout, "Cannot read from ", endpoint, ": ", why, ".");
  }

  Status refusal(long code) const {
    if (code == 401 || code == 403) {
      return invalid(endpoint, " does not give this without leave (HTTP ", code, ").");
    }
    if (code == 404) return error(Code::not_found, endpoint, " does not have this (HTTP 404).");
    return error(code == 429 || code >= 500 ? Code::timeout : Code::unsupported, endpoint, " answered with HTTP ", code,
                 ".");
  }
};

Result<Http> Http::open(const std::string& endpoint, std::string token) {
  auto state = std::make_unique<State>();
  for (const char* name : kLibraries) {
    auto library = os::DynamicLibrary::open(name);
    if (!library.ok()) continue;
    state->curl.library = std::move(library.value());
    break;
  }
  if (!state->curl.find()) {
    return error(Code::not_found, "graft fetches by libcurl, and this machine has none (Debian: libcurl4).");
  }
  state->curl.library.keep();
  state->easy = state->curl.init();
  if (state->easy == nullptr) return error(Code::out_of_memory, "libcurl cannot start.");
  state->endpoint = endpoint;
  if (!token.empty()) state->headers = state->curl.append(nullptr, ("Authorization: Bearer " + token).c_str());
  return Http(std::move(state));
}

Result<std::string> Http::text(const std::string& url, std::uint64_t limit) {
  std::string out;
  bool is_long = false;
  State::Sink sink{state_.get(),
                   [&](std::string_view bytes) {
                     is_long = out.size() + bytes.size() > limit;
                     if (!is_long) out += bytes;
                     return !is_long;
                   },
                   false, [](long) { return true; }};
  TRY_ASSIGN(const long code, state_->get(url, 0, sink));
  if (code != 200) return state_->refusal(code);
  if (is_long) return unsupported(state_->endpoint, " answered with more than ", limit, " bytes.");
  return out;
}

Status Http::file(const std::string& url, const std::string& path, std::uint64_t size,
                  const std::function<void(std::uint64_t)>& told) {
  Status last;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::seconds(1 << (attempt - 1)));
    std::error_code ignored;
    std::uint64_t there = std::filesystem::file_size(path, ignored);
    if (ignored || there > size) there = 0;
    if (there == size && size > 0) return ok_status();
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(path.c_str(), there > 0 ? "r+b" : "wb"),
                                                              std::fclose);
    const auto failed = [&] {
      return error(Code::io_error, "Cannot write \"", path, "\": ", std::strerror(errno), ".");
    };
    if (out == nullptr || std::fseek(out.get(), 0, SEEK_END) != 0) return failed();
    bool cannot_write = false;
    bool is_long = false;
    State::Sink sink{state_.get(),
                     [&](std::string_view bytes) {
                       is_long = there + bytes.size() > size;
                       if (is_long) return false;
                       cannot_write = std::fwrite(bytes.data(), 1, bytes.size(), out.get()) != bytes.size();
                       there += bytes.size();
                       told(there);
                       return !cannot_write;
                     },
                     false, [](long code) { return code == 200 || code == 206; }};
    const Result<long> code = state_->get(url, there, sink);
    if (cannot_write || std::fflush(out.get()) != 0) return failed();
    if (is_long) return corrupt(state_->endpoint, " sends more than the ", size, " bytes that it announced.");
    if (code.ok() && (*code == 200 || *code == 206) && there == size) return ok_status();
    if (!code.ok()) {
      last = code.status();
    } else if (*code == 416) {
      last = corrupt(state_->endpoint, " cannot go on after ", there, " bytes.");
      std::filesystem::remove(path, ignored);
    } else if (*code == 200 || *code == 206) {
      last = error(Code::timeout, state_->endpoint, " ended after ", there, " of ", size, " bytes.");
    } else {
      last = state_->refusal(*code);
      if (last.code() != Code::timeout) return last;
    }
  }
  return last;
}

#else

struct Http::State {};
Result<Http> Http::open(const std::string&, std::string) {
  return unsupported("This graft was built without libcurl, and fetches nothing.");
}
Result<std::string> Http::text(const std::string&, std::uint64_t) { return unsupported("No libcurl."); }
Status Http::file(const std::string&, const std::string&, std::uint64_t, const std::function<void(std::uint64_t)>&) {
  return unsupported("No libcurl.");
}

#endif

Http::Http(std::unique_ptr<State> state) : state_(std::move(state)) {}
Http::Http(Http&&) noexcept = default;
Http::~Http() = default;

}  // namespace graft::cli
