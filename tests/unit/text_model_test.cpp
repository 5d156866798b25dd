// What a model itself says of the text that it was made for.
#include "runtime/language/text_model.h"

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

std::string bracketed(const Result<std::vector<text::ChatPart>>& parts) {
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

/// What is learned of a conversation, each stretch in brackets.
std::string learned(std::string_view jinja, const std::vector<text::ChatMessage>& messages) {
  return bracketed(parts_of(with_template(jinja), "", messages, false));
}

/// The same in training, with the text around, and with stop tokens beside the tokenizer's.
std::string trained(std::string_view jinja, const std::string& messages, const std::string& stops = "",
                    const text::Tokenizer& tokenizer = letters()) {
  Metadata metadata = with_template(jinja);
  if (!stops.empty()) metadata[std::string(kMetaStop)] = stops;
  const auto parts = render_chat(metadata, tokenizer, "", {.messages = messages, .ask = false, .learn = true});
  if (!parts.ok()) return parts.status().message();
  std::string out;
  bool inside = false;
  for (const text::ChatPart& part : *parts) {
    if (part.reply != inside) out += part.reply ? "[" : "]";
    inside = part.reply;
    out += part.text;
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

constexpr const char* kTwoAnswers =
    R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}])";

TEST(TextModel, AnAnswersEndIsLearnedThoughTheTemplateWritesNone) {
  constexpr std::string_view kRoles =
      "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}";
  EXPECT_EQ(
      trained(kRoles, kTwoAnswers),
      "<|im_start|>user: a<|im_start|>assistant: [b<|im_end|>]<|im_start|>user: c<|im_start|>assistant: [d<|im_end|>]")
      << "the next message's token ends no text";
  const std::string start = std::to_string(letters().find("<|im_start|>"));
  EXPECT_EQ(trained(kRoles, kTwoAnswers, start),
            "<|im_start|>user: a<|im_start|>assistant: [b<|im_start|>]user: c<|im_start|>assistant: [d<|im_end|>]")
      << "unless the model stops at it";
  EXPECT_EQ(trained("{% for m in messages %}{% if m.role == 'user' %}U: {{ m.content }}{% else %} A:{% generation %} "
                    "{{ m.content }}{% endgeneration %};{% endif %}{% endfor %}",
                    kTwoAnswers),
            "U: a A:[ b<|im_end|>];U: c A:[ d<|im_end|>];");
  EXPECT_EQ(trained(kChatml, kTwoAnswers), trained(kChatml, kTwoAnswers, start))
      << "nothing is added to what has an end";
  text::Vocabulary words = letters().vocabulary();
  words.eos = text::kNoToken;
  const auto endless = text::Tokenizer::make(std::move(words));
  ASSERT_TRUE(endless.ok());
  EXPECT_TRUE(trained(kRoles, kTwoAnswers, "", *endless).starts_with("The chat template writes no token that ends"));
  EXPECT_EQ(trained(kChatml, kTwoAnswers, "", *endless), trained(kChatml, kTwoAnswers));
}

TEST(TextModel, MessagesSayWhetherTheyAreLearned) {
  const auto with = [](const std::string& first, const std::string& second) {
    return trained(kChatml, cat(R"([{"role": "user", "content": "a")", first,
                                R"(}, {"role": "assistant", "content": "b")", second, "}]"));
  };
  constexpr const char* kNone = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n";
  constexpr const char* kLearned = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[b<|im_end|>]\n";
  for (const char* off : {R"(, "weight": 0)", R"(, "train": false)", R"(, "weight": 0.0, "train": null)"})
    EXPECT_EQ(with(off, off), kNone) << off;
  for (const char* on : {R"(, "weight": 1)", R"(, "train": true)", ""}) EXPECT_EQ(with("", on), kLearned) << on;
  EXPECT_EQ(with("", R"(, "weight": 0.5)"),
            "Message 2 has the \"weight\" 0.5; only 0 or false (not learned) and 1 or true (learned) can be read.");
  EXPECT_TRUE(with(R"(, "train": true)", "").starts_with("Message 1 has a \"train\" that has it learned"));
}

TEST(TextModel, ArgumentsThatAreATextOfJsonAreNotEncodedTwice) {
  const std::string call =
      R"([{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{\"x\": 1.0}"}}]}])";
  const auto said = [&](const std::string& form) {
    const auto parts = render_chat(
        with_template("{% for m in messages %}{% for c in m.tool_calls %}" + form + "{% endfor %}{% endfor %}"),
        letters(), "", {.messages = call, .ask = false});
    std::string out;
    for (const text::ChatPart& part : *parts) out += part.text;
    return out;
  };
  EXPECT_EQ(said("{{ c.function | tojson }}"), R"({"name": "f", "arguments": {"x": 1.0}})");
  EXPECT_EQ(said("{{ c.function.arguments }}"), R"({"x": 1.0})") << "a template that prints texts gets one";
  EXPECT_EQ(said("{% for k, v in c.function.arguments | items %}<parameter={{ k }}>{{ v }}{% endfor %}"),
            "<parameter=x>1.0");
}

}  // namespace
}  // namespace graft::text_model_test
