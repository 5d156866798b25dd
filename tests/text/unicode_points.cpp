// What the tables of Unicode say of every code point, for tests/text/unicode_parity.py: a line each, of the number, the
// general category, the lower case form, and D, C, KD and KC as UTF-8 in hexadecimal.
#include <cstdio>
#include <string>

#include "runtime/text/unicode/unicode.h"

namespace {

std::string hexadecimal(const std::string& text) {
  std::string out;
  char two[3];
  for (const char c : text) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += two;
  }
  return out;
}

}  // namespace

int main() {
  using namespace graft::text;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    std::printf("%x %d %x", static_cast<unsigned>(c), static_cast<int>(category(c)),
                static_cast<unsigned>(to_lower(c)));
    for (const NormalForm form : {NormalForm::d, NormalForm::c, NormalForm::kd, NormalForm::kc}) {
      std::printf(" %s", hexadecimal(normal_form(form, text)).c_str());
    }
    std::puts("");
  }
  return 0;
}
