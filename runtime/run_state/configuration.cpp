#include "runtime/run_state/configuration.h"

#include <map>
#include <vector>

#include "platform/base/numbers.h"
#include "platform/base/text.h"
#include "runtime/lora/adapter.h"

namespace graft {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

/// Words that stand before numbers in a configuration, as a person says them.
std::string spoken(const std::string& word) {
  static const std::map<std::string, std::string, std::less<>> kSpoken = {
      {"lr", "learning rate"},          {"decay", "weight decay"},
      {"over", "schedule's steps"},     {"to", "final share of the rate"},
      {"every", "steps between drops"}, {"by", "factor of each drop"},
      {"scale", "loss scale"}};
  const auto found = kSpoken.find(word);
  return found == kSpoken.end() ? word : found->second;
}

bool is_number(const std::string& word) {
  double number = 0;
  return whole_number(word, number);
}

}  // namespace

std::string plain_numbers(std::string_view text) {
  std::string out;
  for (const std::string& word : words_of(text)) {
    const bool negative = word.starts_with('-');
    const std::string_view digits = std::string_view(word).substr(negative ? 1 : 0);
    double number = 0;
    std::string plain = word;
    if (digits.starts_with("0x")) {
      if (whole_hexadecimal(digits.substr(2), number)) plain = exact_text(negative ? -number : number);
    }
    out += (out.empty() ? "" : " ") + plain;
  }
  return out;
}

std::string what_differs(std::string_view name, std::string_view then, std::string_view now) {
  const auto a = words_of(then), b = words_of(now);
  std::string out, label(name);
  if (a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const bool number = is_number(a[i]) && is_number(b[i]);
      if (!number && a[i] == b[i]) label = spoken(a[i]);
      if (a[i] == b[i]) continue;
      out += cat(out.empty() ? "" : "; ", number ? label : std::string(name), " ", b[i], " now, ", a[i], " then");
    }
  }
  if (!out.empty()) return out;
  return cat(name, " \"", now, "\" now, ", then.empty() ? "none" : cat("\"", then, "\""), " then");
}

}  // namespace graft
