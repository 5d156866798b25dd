package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.List;
import java.util.Objects;

/** Text as tokens, and conversations as prompts. Threads and closing: see {@link Context}. */
public final class Tokenizer extends Handle implements Closeable {
  /** What one speaker said: "system", "user" or "assistant". It forges no special token. */
  public static final class Message extends Shown {
    @NonNull public final String role;
    @NonNull public final String text;

    public Message(@NonNull String role, @NonNull String text) {
      this.role = Objects.requireNonNull(role);
      this.text = Objects.requireNonNull(text);
    }
  }

  /** How a conversation becomes a prompt. */
  public static final class ChatOptions extends Shown {
    /** "alpaca", "chatml", "gemma", "llama2" or "llama3"; null: the model's own. */
    @Nullable public String format;
    /** The conversation as it is; else with what makes the assistant speak next. */
    public boolean complete;
    /** For the model's own template, as JSON: in place of the list, [{"role": ..., "content": ..., "tool_calls": ...}, ...]. */
    @Nullable public String messages;
    /** Functions that the model may call, a list. */
    @Nullable public String tools;
    /** What it may refer to, a list. */
    @Nullable public String documents;
    /** An object of whatever else the template reads. */
    @Nullable public String variables;
  }

  Tokenizer(Owner model, long pointer) {
    // It needs the model no longer: the model's adapters may change meanwhile.
    own = model.sibling(this, pointer, "tokenizer", Jni::tokenizerDestroy);
  }

  /** How many tokens there are: ids are 0 to one less. */
  public int size() {
    return own.call(Jni::tokenizerSize);
  }

  /** The id of the token that is spelled so in the vocabulary; -1 where there is none. */
  public int find(@NonNull String token) {
    Objects.requireNonNull(token);
    return own.call(p -> Jni.tokenizerFind(p, token));
  }

  /** With the tokens that the model puts before and after a text; special tokens that are spelled out stay text. */
  @NonNull
  public int[] encode(@NonNull String text) {
    return encode(text, false, false);
  }

  /** bare: without those tokens. parseSpecial: "&lt;|im_end|>" becomes the token; not for text from outside. */
  @NonNull
  public int[] encode(@NonNull String text, boolean bare, boolean parseSpecial) {
    Objects.requireNonNull(text);
    return own.call(p -> Jni.encode(p, text, bare, parseSpecial));
  }

  /** Special tokens leave nothing. */
  @NonNull
  public String decode(@NonNull int[] tokens) {
    return decode(tokens, false, false);
  }

  /** continued: the tokens go on with a text, and keep the space that they begin with. */
  @NonNull
  public String decode(@NonNull int[] tokens, boolean spellSpecial, boolean continued) {
    int[] copy = tokens.clone();
    return own.call(p -> Jni.decode(p, copy, spellSpecial, continued));
  }

  /**
   * A conversation as the prompt that makes the assistant speak next. For the next turn add what it said and what the
   * user says then: {@link Generator} computes the new tokens only. format: "alpaca", "chatml", "gemma", "llama2" or
   * "llama3"; null: the model's own.
   */
  @NonNull
  public int[] chat(@NonNull List<Message> messages, @Nullable String format) {
    return chat(messages, options(format));
  }

  @NonNull
  public int[] chat(@NonNull List<Message> messages, @NonNull ChatOptions options) {
    return own.call(p -> Jni.chatEncode(p, roles(messages), texts(messages), options));
  }

  /** The same as text, to look at. */
  @NonNull
  public String chatText(@NonNull List<Message> messages, @Nullable String format) {
    return chatText(messages, options(format));
  }

  @NonNull
  public String chatText(@NonNull List<Message> messages, @NonNull ChatOptions options) {
    return own.call(p -> Jni.chatRender(p, roles(messages), texts(messages), options));
  }

  private static ChatOptions options(String format) {
    ChatOptions options = new ChatOptions();
    options.format = format;
    return options;
  }

  private static String[] roles(List<Message> messages) {
    return messages.stream().map(m -> m.role).toArray(String[]::new);
  }

  private static String[] texts(List<Message> messages) {
    return messages.stream().map(m -> m.text).toArray(String[]::new);
  }

  @Override
  public void close() {
    own.close();
  }
}
