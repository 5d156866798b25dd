package ai.graft;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/** Arguments on their way to native code: what `In` of jni/packed.h reads. */
final class Out {
  private static final byte[] UNKNOWN = {(byte) 0xEF, (byte) 0xBF, (byte) 0xBD};

  private final Owner here;
  private ByteBuffer data = ByteBuffer.allocate(1024).order(ByteOrder.nativeOrder());

  /** `here`: of the context that takes handles, inside whose gate this is. */
  Out(Owner here) {
    this.here = here;
  }

  byte[] bytes() {
    return java.util.Arrays.copyOf(data.array(), data.position());
  }

  /** Makes room for `bytes` and what is between them and the next number. */
  private ByteBuffer room(int bytes) {
    if (data.remaining() >= bytes + 8) return data;
    ByteBuffer larger = ByteBuffer.allocate(2 * data.capacity() + bytes + 8).order(ByteOrder.nativeOrder());
    data.flip();
    data = larger.put(data);
    return data;
  }

  private Out filled() {
    while (data.position() % 8 != 0) data.put((byte) 0);
    return this;
  }

  Out number(long value) {
    room(8).putLong(value);
    return this;
  }

  /** A number of C that has no sign. */
  Out count(String name, long value) {
    if (value >= 0) return number(value);
    throw new GraftException.InvalidArgument("The option \"" + name + "\" is " + value + "; it must not be negative.");
  }

  Out flag(boolean value) {
    return number(value ? 1 : 0);
  }

  Out real(double value) {
    room(8).putDouble(value);
    return this;
  }

  Out choice(String name, Enum<?> value) {
    if (value != null) return number(value.ordinal());
    throw new GraftException.InvalidArgument("The option \"" + name + "\" is null.");
  }

  /** UTF-8, in which half a surrogate pair is U+FFFD; null stays null. */
  Out text(String text) {
    if (text == null) return number(-1);
    int zero = text.indexOf('\0');
    if (zero >= 0) {
      throw new GraftException.InvalidArgument(
          "The text \"" + text.substring(0, zero) + "\" holds a zero character after that; texts must not hold one.");
    }
    try {
      ByteBuffer utf8 = StandardCharsets.UTF_8.newEncoder().replaceWith(UNKNOWN).onMalformedInput(CodingErrorAction.REPLACE)
          .encode(CharBuffer.wrap(text));
      number(utf8.remaining());
      room(utf8.remaining() + 1).put(utf8).put((byte) 0);
    } catch (CharacterCodingException e) {
      throw new AssertionError(e);  // all that cannot be is replaced
    }
    return filled();
  }

  Out texts(Collection<String> texts) {
    number(texts.size());
    for (String text : texts) text(java.util.Objects.requireNonNull(text));
    return this;
  }

  /** Names, which C takes as one text. */
  Out names(List<String> names) {
    return text(names.isEmpty() ? null : String.join(",", names));
  }

  Out array(double[] values) {
    number(values == null ? 0 : values.length);
    if (values != null) for (double value : values) real(value);
    return this;
  }

  Out array(long[] values) {
    number(values == null ? 0 : values.length);
    if (values != null) for (long value : values) number(value);
    return this;
  }

  Out array(float[] values) {
    number(values == null ? 0 : values.length);
    if (values != null) for (float value : values) room(4).putFloat(value);
    return filled();
  }

  Out array(int[] values) {
    number(values == null ? 0 : values.length);
    if (values != null) for (int value : values) room(4).putInt(value);
    return filled();
  }

  Out handle(Handle handle) {
    return number(handle == null ? 0 : handle.own.given(here));
  }

  Out handles(List<? extends Handle> handles) {
    number(handles.size());
    for (Handle handle : handles) handle(java.util.Objects.requireNonNull(handle));
    return this;
  }

  /** Options, or none. */
  Out option(Options options) {
    flag(options != null);
    if (options != null) options.pack(this);
    return this;
  }

  Out list(List<? extends Options> all) {
    number(all.size());
    for (Options one : all) one.pack(this);
    return this;
  }

  Out bindings(Map<String, Long> sizes) {
    number(sizes.size());
    sizes.forEach((name, size) -> text(name).number(size));
    return this;
  }

  Out pairs(Map<String, String> texts) {
    number(texts.size());
    texts.forEach((key, value) -> text(key).text(value));
    return this;
  }

  Out biases(Map<Integer, Float> biases) {
    number(biases.size());
    biases.forEach((token, bias) -> number(token).real(bias));
    return this;
  }

  Out formats(Map<String, InputFormat> inputs) {
    number(inputs.size());
    inputs.forEach((name, format) -> {
      text(name);
      format.pack(this);
    });
    return this;
  }
}
