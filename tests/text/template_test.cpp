// Chat templates: what Jinja itself cannot be asked (limits, sentences, where bytes come from). The rest is
// template_parity.py.
#include "runtime/text/template/template.h"

#include <gtest/gtest.h>

namespace graft::text::jinja::template_test {
namespace {

Result<RenderedTemplate> rendered(std::string_view source, const std::vector<TemplateInput>& inputs = {},
                                  const TemplateLimits& limits = {}, std::optional<std::time_t> now = std::nullopt) {
  auto program = Template::parse(source);
  if (!program.ok()) return std::move(program).status();
  return program->render(inputs, limits, now);
}

std::string text_or_error(std::string_view source, const TemplateLimits& limits = {}) {
  const auto out =
      rendered(source, {{"messages", R"([{"role": "user", "content": "hi"}])", Origin::conversation}}, limits);
  return out.ok() ? out->text.bytes : out.status().message();
}

TEST(Template, NamesTheLineOfWhatFails) {
  EXPECT_EQ(text_or_error("a\n{% if %}x{% endif %}"),
            "The chat template cannot be read: line 2: an expression is needed where the tag's end stands.");
  EXPECT_EQ(text_or_error("a\n\n{{ 'x' + 1 }}"),
            "The chat template fails in line 3: '+' has no meaning for a text and a whole number.");
  EXPECT_EQ(text_or_error("{{ raise_exception('No such role!') }}"),
            "The chat template fails in line 1: it refuses the conversation: No such role!.");
  EXPECT_EQ(text_or_error("{% for m in messages %}\n{{ m.no.where }}{% endfor %}"),
            "The chat template fails in line 2: \"no\" is undefined, so that it has no \"where\".");
  EXPECT_EQ(text_or_error("{% include 'other' %}"),
            "The chat template cannot be read: line 1: the tag 'include' is not known.");
  EXPECT_EQ(text_or_error("{{ messages.append(1) }}"),
            "The chat template fails in line 1: \"append\" would change a list, which templates may not.");
}

TEST(Template, IsBounded) {
  const TemplateLimits small = {.steps = 100000, .memory = 1 << 20, .output = 1 << 16};
  const auto fails = [&](std::string_view source, std::string_view with) {
    const std::string said = text_or_error(source, small);
    EXPECT_NE(said.find(with), std::string::npos) << source.substr(0, 80) << ": " << said.substr(0, 200);
  };
  const std::string loop = "{% for a in range(99999) %}";
  fails(loop + loop + "x{% endfor %}{% endfor %}", "it takes more than 100000 steps");
  fails("{{ 'x' * 9999999999 }}", "of memory");
  fails("{% set n = namespace(t='xxxxxxxx') %}{% for i in range(40) %}{% set n.t = n.t + n.t %}{% endfor %}",
        "of memory");
  fails("{% set n = namespace(t=[1]) %}{% for i in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor %}",
        "holds more than");
  fails("{% set n = namespace(t=[1]) %}{% for i in range(999) %}{% set n.t = [n.t] %}{% endfor %}", "nested more than");
  fails("{% for i in range(9999) %}0123456789{% endfor %}", "it writes more than");
  fails("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deep");
  fails("{{ " + std::string(5000, '(') + "1" + std::string(5000, ')') + " }}", "nested more than");
  fails("{{ 1" + std::string(2000, '+') + "1 }}", "nested more than");
  fails("{{ " + std::string(3000, '-') + "1 }}", "nested more than");
  std::string chain = "1";
  for (int i = 0; i < 1000; ++i) chain += "+1";
  fails("{{ " + chain + " }}", "nested more than");
  fails("{{ 9223372036854775807 + 1 }}", "too large");
  fails("{{ 'x'.center(99999999999) }}", "too large");
  fails("{{ 1 // 0 }}", "divides by zero");
  fails("{{ '%1000d' % 3 }}", "too wide");
}

TEST(Template, KnowsWhereBytesComeFrom) {
  const std::vector<TemplateInput> inputs = {
      {"messages", R"([{"role": "user", "content": "u"}, {"content": "xy", "role": "assistant"}, {"role": "me"}])",
       Origin::conversation},
      {"bos_token", R"("<s>")", Origin::model}};
  const auto out = rendered(
      "{{ bos_token }}{% for m in messages %}{{ m.role | upper ~ ':' ~ (m.content or '')[::-1] }}{% endfor %}", inputs);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->text.bytes, "<s>USER:uASSISTANT:yxME:");
  const std::string expected =
      std::string(8, '\0') + "\1" + std::string(10, '\0') + "\2\2" + "\1\1" + std::string(1, '\0');
  EXPECT_EQ(out->text.marks, expected) << "a role is the template's own if it is known, and never what is said";
}

TEST(Template, TellsTheTimeThatItIsGiven) {
  const auto out = rendered("{{ strftime_now('%Y-%m-%d') }}", {}, {}, std::time_t{1000000000});
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->text.bytes.substr(0, 8), "2001-09-");
}

}  // namespace
}  // namespace graft::text::jinja::template_test
