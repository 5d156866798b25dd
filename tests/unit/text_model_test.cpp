// What a model itself says of the text that it was made for.
#include "runtime/session/text_model.h"

#include <gtest/gtest.h>

namespace graft::text_model_test {
namespace {

std::string rendered(const Model& model, std::string_view format, std::vector<text::ChatMessage> messages) {
  const auto parts = render_chat(model.metadata, format, std::move(messages), true);
  if (!parts.ok()) return parts.status().message();
  std::string out;
  for (const text::ChatPart& part : *parts) out += part.text;
  return out;
}

Model with_template(const std::string& jinja) {
  Model model;
  model.metadata[std::string(kMetaChatTemplate)] = jinja;
  if (const auto format = text::chat_format_of(jinja); !format.empty()) {
    model.metadata[std::string(kMetaChatFormat)] = format;
  }
  return model;
}

TEST(TextModel, ChatsInItsOwnFormatWithItsOwnSystemMessage) {
  const Model model = with_template("{{ '<|im_start|>system\\nYou are graft.<|im_end|>\\n' }}");
  const std::string asked = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(rendered(model, "", {{"user", "Hi"}}), "<|im_start|>system\nYou are graft.<|im_end|>\n" + asked);
  EXPECT_EQ(rendered(model, "", {{"system", "Be kind."}, {"user", "Hi"}}),
            "<|im_start|>system\nBe kind.<|im_end|>\n" + asked);
  EXPECT_EQ(rendered(model, "chatml", {{"user", "Hi"}}), asked);
  EXPECT_EQ(rendered(model, "llama2", {{"user", "Hi"}}), "<s>[INST] Hi [/INST]");
}

TEST(TextModel, SaysWhichFormatsAreKnown) {
  const std::string known = "; name the format to use, one of alpaca, chatml, gemma, llama2, llama3.";
  EXPECT_EQ(rendered({}, "", {{"user", "Hi"}}), "The model has no chat template" + known);
  EXPECT_EQ(rendered(with_template("{{ messages }}"), "", {{"user", "Hi"}}),
            "The model's chat template is of no form that is recognized" + known);
}

}  // namespace
}  // namespace graft::text_model_test
