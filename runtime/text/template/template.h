// Chat templates: the part of Jinja that they are written in, with the settings of Hugging Face.
//
// By the specification of Jinja's template language (https://jinja.palletsprojects.com/en/stable/templates/) and the
// environment that Hugging Face's libraries make: trim_blocks, lstrip_blocks, break and continue, {% generation %},
// raise_exception, strftime_now, tojson without HTML's escapes; nothing that would change a value. There are no other
// templates to include, and nothing escapes for HTML.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/template/marked_text.h"
#include "runtime/text/template/syntax.h"

namespace graft::text::jinja {

/// What a template may cost: it comes with a file, and may be made to harm.
struct TemplateLimits {
  std::uint64_t steps = 10'000'000;  ///< nodes that are run, and stretches of bytes that are walked over
  /// Of all values together, as they are held; a text takes a sixteenth at most. The process takes half as much again
  /// while values are copied.
  std::size_t memory = std::size_t{256} << 20;
  std::size_t output = std::size_t{32} << 20;
};

enum class Origin : std::uint8_t {
  model,        ///< may spell out special tokens
  data,         ///< may not
  conversation  ///< a list of messages, likewise, but for known roles; what the assistant says is marked as reply
};

/// A variable of the template.
struct TemplateInput {
  std::string name;  ///< empty: `json` is an object, whose members are variables
  std::string json;
  Origin origin = Origin::data;
};

struct RenderedTemplate {
  MarkedText text;
  bool has_generation = false;                                  ///< the template says itself what the assistant says:
  std::vector<std::pair<std::size_t, std::size_t>> generation;  ///< begin and end of each stretch
};

/// Immutable; any thread may use it.
class Template {
 public:
  /// invalid_argument: a source that is no template or larger than 4 MiB; the sentence names the line.
  static Result<Template> parse(std::string_view source);

  /// `now`: what strftime_now tells, in local time; nullopt: the clock's.
  /// invalid_argument: what fails while it runs, or the template's own refusal (raise_exception), or more than
  /// `limits`.
  Result<RenderedTemplate> render(std::span<const TemplateInput> inputs, const TemplateLimits& limits = {},
                                  std::optional<std::time_t> now = std::nullopt) const;

 private:
  explicit Template(std::vector<NodePtr> body);
  std::vector<NodePtr> body_;
  std::vector<std::string> roles_;  ///< that messages have: sorted
};

}  // namespace graft::text::jinja
