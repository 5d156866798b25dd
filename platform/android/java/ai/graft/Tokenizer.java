package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.List;
import java.util.Objects;

/** Text as tokens, and conversations as prompts. Threads and closing: see {@link Context}. */
public final class Tokenizer extends Handle implements Closeable {
  Tokenizer(Owner model, long pointer) {
    // It needs the model no longer: the model's adapters may change meanwhile.
    own = model.sibling(this, pointer, "tokenizer", Jni::tokenizerDestroy);
  }

  /** How many tokens there are: ids are 0 to one less. */
  public int size() {
    return (int) (long) own.call(Jni::tokenizerSize);
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
    EncodeOptions options = new EncodeOptions();
    options.bare = bare;
    options.parseSpecial = parseSpecial;
    return own.call(p -> new In(Jni.tokenizerEncode(p, text, options.packed(own))).ints());
  }

  /** Special tokens leave nothing. */
  @NonNull
  public String decode(@NonNull int[] tokens) {
    return decode(tokens, false, false);
  }

  /** continued: the tokens go on with a text, and keep the space that they begin with. */
  @NonNull
  public String decode(@NonNull int[] tokens, boolean spellSpecial, boolean continued) {
    DecodeOptions options = new DecodeOptions();
    options.spellSpecial = spellSpecial;
    options.continued = continued;
    return own.call(p -> Jni.tokenizerDecode(p, new Out(own).array(tokens).bytes(), options.packed(own)));
  }

  /**
   * A conversation as the prompt that makes the assistant speak next. For the next turn add what it said and what the
   * user says then: {@link Generator} computes the new tokens only. format: "alpaca", "chatml", "gemma", "llama2" or
   * "llama3"; null: the model's own.
   */
  @NonNull
  public int[] chat(@NonNull List<ChatMessage> messages, @Nullable String format) {
    return chat(messages, options(format));
  }

  @NonNull
  public int[] chat(@NonNull List<ChatMessage> messages, @NonNull ChatOptions options) {
    return own.call(p -> new In(Jni.chatEncode(p, new Out(own).list(messages).bytes(), options.packed(own))).ints());
  }

  /** The same as text, to look at. */
  @NonNull
  public String chatText(@NonNull List<ChatMessage> messages, @Nullable String format) {
    return chatText(messages, options(format));
  }

  @NonNull
  public String chatText(@NonNull List<ChatMessage> messages, @NonNull ChatOptions options) {
    return own.call(p -> Jni.chatRender(p, new Out(own).list(messages).bytes(), options.packed(own)));
  }

  private static ChatOptions options(String format) {
    ChatOptions options = new ChatOptions();
    options.format = format;
    return options;
  }

  @Override
  public void close() {
    own.close();
  }
}
