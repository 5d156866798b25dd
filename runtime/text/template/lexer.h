// A template as tokens, with white space taken away as Hugging Face's settings say (trim_blocks, lstrip_blocks).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft::text::jinja {

enum class TokenType : std::uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  real,
  symbol,
  end
};

struct TemplateToken {
  TokenType type = TokenType::end;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
  int line = 0;
};

/// Ends with a token of type `end`. invalid_argument: what is no template, with its line.
Result<std::vector<TemplateToken>> template_tokens(std::string_view source);

}  // namespace graft::text::jinja
