package ai.graft;

import static ai.graft.Tests.bytes;
import static ai.graft.Tests.check;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.thrown;

import java.io.IOException;
import java.nio.charset.StandardCharsets;

final class GenerateTests {
  static String wanted() {
    return new String(bytes("text.txt"), StandardCharsets.UTF_8);
  }

  /** As bindings_oracle draws. */
  static GenerateOptions sampling() {
    GenerateOptions sampling = new GenerateOptions();
    sampling.maxTokens = 12;
    sampling.temperature = 1.5;
    sampling.seed = 11;
    return sampling;
  }

  public static void writesTheTextOfTheCppApi() {
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"));
         Generator generator = model.generator()) {
      check(wanted().length() > 6, "choose another seed: " + wanted());
      StringBuilder pieces = new StringBuilder();
      equal(wanted(), generator.generate("abc", sampling(), piece -> pieces.append(piece) != null), "the text");
      equal(wanted(), pieces.toString(), "its pieces");
      int[] left = {3};
      equal(wanted().substring(0, 3), generator.generate("abc", sampling(), piece -> --left[0] > 0), "ended early");
      GenerateOptions stopped = sampling();
      stopped.stop.add(wanted().substring(4, 6));
      equal(wanted().substring(0, wanted().indexOf(wanted().substring(4, 6))), generator.generate("abc", stopped, null),
          "until a stop");
      check(generator.memory().total > 0, "memory");
    }
  }

  public static void whatAListenerThrowsComesOut() {
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"));
         Generator generator = model.generator()) {
      RuntimeException mine = new ArithmeticException("mine");
      check(mine == thrown(ArithmeticException.class, "mine", () -> generator.generate("abc", sampling(), piece -> {
        throw mine;
      })), "the exception itself");
      // A checked one, as Kotlin throws them.
      thrown(IOException.class, "disk", () -> generator.generate("abc", sampling(), piece -> {
        throw GenerateTests.<RuntimeException>any(new IOException("disk"));
      }));
      thrown(IllegalStateException.class, "must not call graft",
          () -> generator.generate("abc", sampling(), piece -> generator.generate("a").isEmpty()));
      thrown(IllegalStateException.class, "must not call graft", () -> generator.generate("abc", sampling(), piece -> {
        generator.close();
        return true;
      }));
      // Another context may be used there, and this one afterwards.
      equal(wanted(), generator.generate("abc", sampling(), piece -> {
        Tests.deviceless().close();
        return true;
      }), "the text afterwards");
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E any(Throwable t) throws E {
    throw (E) t;
  }

  public static void tokensAndConversations() {
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"))) {
      try (Tokenizer tokenizer = model.tokenizer(); Generator generator = model.generator()) {
        int[] abc = tokenizer.encode("abc");
        equal("abc", tokenizer.decode(abc), "there and back");
        equal(17, tokenizer.size(), "tokens");
        check(tokenizer.find("a") >= 0 && tokenizer.find("nothing") == -1, "tokens by their spelling");
        Generated said = generator.generate(abc, sampling(), null);
        equal(wanted(), said.text, "the text");
        equal(StopReason.MAX_TOKENS, said.reason, "why it ended");
        equal(abc.length, said.promptTokens, "tokens of the prompt");
        equal(12, said.tokens.length, "tokens of the text");
        generator.generate("abc", sampling(), piece -> false);
        equal(StopReason.CALLBACK, generator.last().reason, "why the other ended");
        thrown(GraftException.InvalidArgument.class, "", () -> generator.generate(new int[] {99}, sampling(), null));
        thrown(GraftException.InvalidArgument.class, "", () -> generator.generate(new int[0], sampling(), null));
        thrown(GraftException.InvalidArgument.class, "", () -> tokenizer.decode(new int[] {-1}));
        thrown(NullPointerException.class, "", () -> tokenizer.encode(null));
        java.util.List<ChatMessage> talk = java.util.Arrays.asList(new ChatMessage("user", "abc"));
        check(tokenizer.chatText(talk, "chatml").contains("user\nabc"), tokenizer.chatText(talk, "chatml"));
        thrown(GraftException.InvalidArgument.class, "nobody", () -> tokenizer.chatText(
            java.util.Arrays.asList(new ChatMessage("nobody", "abc")), "chatml"));
      }
    }
  }

  private GenerateTests() {}
}
