#include "tools/watch/page.h"

#include <string_view>

namespace graft::cli {

extern const char kPageData[];
extern const unsigned long kPageBytes;

namespace {

std::string text_for_html(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace

// In JSON these characters are in strings only.
std::string json_for_html(const std::string& json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<': out += "\\u003c"; break;
      case '>': out += "\\u003e"; break;
      case '&': out += "\\u0026"; break;
      default: out += c;
    }
  }
  return out;
}

// In one pass: what is put in is not looked at again.
std::string run_page(const std::string& title, const std::string& run, bool is_live) {
  constexpr std::string_view kMark = "%%";
  const std::string_view page(kPageData, kPageBytes);
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t mark = page.find(kMark, at);
    out += page.substr(at, mark - at);
    if (mark == std::string_view::npos) return out;
    const std::size_t begin = mark + kMark.size(), end = page.find(kMark, begin);
    const std::string_view name = page.substr(begin, end - begin);
    if (name == "TITLE") out += text_for_html(title);
    if (name == "RUN") out += json_for_html(run);
    if (name == "LIVE") out += is_live ? "true" : "false";
    at = end + kMark.size();
  }
}

}  // namespace graft::cli
