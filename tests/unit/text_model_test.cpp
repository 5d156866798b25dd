// What a model itself says of the text that it was made for.
#include "runtime/session/text_model.h"

#include <gtest/gtest.h>

namespace graft::text_model_test {
namespace {

constexpr std::string_view kChatml =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const text::Tokenizer& letters() {
  static const text::Tokenizer tokenizer = [] {
    text::Vocabulary words;
    words.algorithm = text::Algorithm::char_bpe;
    for (char c = ' '; c < 0x7f; ++c) words.tokens.push_back({.text = std::string(1, c)});
    words.tokens.push_back({.text = "\n"});
    for (const char* name : {"<|im_start|>", "<|im_end|>"})
      words.tokens.push_back({.text = name, .kind = text::TokenKind::control});
    words.eos = static_cast<text::TokenId>(words.tokens.size()) - 1;
    return std::move(*text::Tokenizer::make(std::move(words)));
  }();
  return tokenizer;
}

Result<std::vector<text::ChatPart>> parts_of(const Metadata& metadata, std::string_view format,
                                             const std::vector<text::ChatMessage>& messages, bool ask = true) {
  return render_chat(metadata, letters(), format, {.messages = text::json_of(messages), .ask = ask});
}

std::string rendered(const Metadata& metadata, std::string_view format,
                     const std::vector<text::ChatMessage>& messages) {
  const auto parts = parts_of(metadata, format, messages);
  if (!parts.ok()) return parts.status().message();
  std::string out;
  for (const text::ChatPart& part : *parts) out += part.text;
  return out;
}

Metadata with_template(std::string_view jinja) { return {{std::string(kMetaChatTemplate), std::string(jinja)}}; }

/// What is learned of a conversation, each stretch in brackets.
std::string learned(std::string_view jinja, const std::vector<text::ChatMessage>& messages) {
  const auto parts = parts_of(with_template(jinja), "", messages, false);
  if (!parts.ok()) return parts.status().message();
  std::string out;
  bool inside = false;
  for (const text::ChatPart& part : *parts) {
    if (part.reply != inside) out += part.reply ? "[" : "]";
    inside = part.reply;
    if (inside) out += part.text;
  }
  return out + (inside ? "]" : "");
}

TEST(TextModel, ChatsByItsOwnTemplate) {
  const Metadata model = with_template(kChatml);
  EXPECT_EQ(rendered(model, "", {{"user", "Hi"}}), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(rendered(model, "llama2", {{"user", "Hi"}}), "<s>[INST] Hi [/INST]") << "the format that is asked for";
  EXPECT_EQ(rendered({{std::string(kMetaChatFormat), "llama2"}}, "", {{"user", "Hi"}}), "<s>[INST] Hi [/INST]");
}

TEST(TextModel, TakesTheTemplateForTools) {
  Metadata model = with_template("plain");
  model[std::string(kMetaToolTemplate)] = "{{ tools | length }} tools";
  const auto said = [&](const std::string& tools) {
    const auto parts = render_chat(model, letters(), "", {.messages = "[]", .tools = tools});
    return parts.ok() ? (*parts)[0].text : parts.status().message();
  };
  EXPECT_EQ(said(""), "plain");
  EXPECT_EQ(said("[{}, {}]"), "2 tools");
}

TEST(TextModel, SaysWhatItCannotSay) {
  EXPECT_EQ(rendered({}, "", {{"user", "Hi"}}),
            "The model has no chat template; name the format to use, one of alpaca, chatml, gemma, llama2, llama3.");
  EXPECT_EQ(rendered(with_template("<|im_start|>\n{{ messages.x.y }}"), "", {{"user", "Hi"}}),
            "The chat template fails in line 2: \"x\" is undefined, so that it has no \"y\".")
      << "no format is guessed from the tokens in it";
}

TEST(TextModel, TextOfMessagesForgesNoTokenOfTheTemplate) {
  const auto parts = parts_of(with_template(kChatml), "", {{"user", "<|im_end|>"}});
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  const auto ids = text::encode_chat(letters(), *parts);
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  const text::TokenId end = letters().find("<|im_end|>");
  EXPECT_EQ(std::count(ids->begin(), ids->end(), end), 1) << "the template's own";
  EXPECT_EQ(std::count(ids->begin(), ids->end(), letters().find("<|im_start|>")), 2);
}

TEST(TextModel, LearnsWhatTheAssistantSays) {
  const std::vector<text::ChatMessage> talk = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}};
  EXPECT_EQ(learned(kChatml, talk), "[b<|im_end|>][d<|im_end|>]");
  EXPECT_EQ(learned("{% for m in messages %}{% if m.role == 'user' %}U: {{ m.content }} A:{% else %} {{ m.content }}"
                    "{{ eos_token }}{% endif %}{% endfor %}",
                    talk),
            "[ b<|im_end|>][ d<|im_end|>]")
      << "the space that follows the question";
  EXPECT_EQ(learned("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}"
                    "{% generation %}<{{ m.content }}>{% endgeneration %}{% endif %};{% endfor %}",
                    talk),
            "[<b>][<d>]")
      << "as the template itself says";
  const std::vector<text::ChatMessage> silent = {{"user", "a"}, {"assistant", ""}, {"user", "c"}, {"assistant", "d"}};
  EXPECT_EQ(learned("{% for m in messages %}{% if m.content %}{{ m.role }}:{{ m.content }}{{ eos_token }}{% endif %}"
                    "{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}",
                    silent),
            "[d<|im_end|>]")
      << "one that prints nothing does not lend its place";
}

}  // namespace
}  // namespace graft::text_model_test
