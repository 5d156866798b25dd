package ai.graft;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** What native code calls. It sees no exception: those are kept at the gate. All methods are called from JNI. */
final class Callbacks {
  private final Gate gate;
  private final Object called;
  private final Generator.TokenListener tokens;

  private Callbacks(Gate gate, Object called, Generator.TokenListener tokens) {
    this.gate = gate;
    this.called = called;
    this.tokens = tokens;
  }

  /** Null where there is nothing to call. `called`: of the type whose method native code calls. */
  static Callbacks of(Gate gate, Object called) {
    return called == null ? null : new Callbacks(gate, called, null);
  }

  static Callbacks of(Gate gate, Generator.Listener text, Generator.TokenListener tokens) {
    return text == null && tokens == null ? null : new Callbacks(gate, text, tokens);
  }

  interface Use<T> {
    T by(long callbacks);
  }

  /** Native callbacks for the length of a call. */
  static <T> T during(Callbacks callbacks, Use<T> use) {
    long handle = create(callbacks);
    try {
      return use.by(handle);
    } finally {
      Jni.callbacksDestroy(handle);
    }
  }

  interface Make<T extends Handle> {
    T by(long callbacks);
  }

  /** Native callbacks that live as long as what `make` makes. */
  static <T extends Handle> T within(Callbacks callbacks, Make<T> make) {
    long handle = create(callbacks);
    T made = null;
    try {
      made = make.by(handle);
    } finally {
      if (made == null) Jni.callbacksDestroy(handle);
    }
    made.own.keep(handle);
    return made;
  }

  static long create(Callbacks callbacks) {
    return Jni.callbacksCreate(callbacks, callbacks != null && callbacks.tokens != null);
  }

  private interface Answer {
    boolean get() throws Exception;
  }

  /** False where it throws. */
  private boolean answer(Answer answer) {
    gate.beginText();
    try {
      return answer.get();
    } catch (Throwable t) {
      gate.callbackThrew(t);
      return false;
    } finally {
      gate.endCallback();
    }
  }

  void onLog(int level, String message) {
    gate.beginService();
    try {
      ((Context.Log) called).log(LogLevel.values()[level], message);
    } catch (Throwable t) {
      gate.callbackThrew(t);
    } finally {
      gate.endCallback();
    }
  }

  /** False ends the text. */
  boolean onText(String piece) {
    return answer(() -> called == null || ((Generator.Listener) called).onText(piece));
  }

  /** False makes it the last. */
  boolean onToken(int token, ByteBuffer scores) {
    return answer(() -> tokens.onToken(token, scores.order(ByteOrder.nativeOrder()).asFloatBuffer().asReadOnlyBuffer()));
  }

  void onProgress(int stage, long done, long total) {
    answer(() -> {
      ((Context.Progress) called).at(Stage.values()[stage], done, total);
      return true;
    });
  }

  /** 1: done; 0: the data ends before it; -1: it failed. */
  int onRead(long index, ByteBuffer[] places) {
    gate.beginService();
    try {
      for (ByteBuffer place : places) place.order(ByteOrder.nativeOrder());
      return ((DataSet.Reader) called).read(index, places) ? 1 : 0;
    } catch (Throwable t) {
      gate.callbackThrew(t);
      return -1;
    } finally {
      gate.endCallback();
    }
  }

  int overhead() {
    return ((Cipher) called).overhead();
  }

  /** Null: failed. Zeros the plain bytes of its own afterwards. */
  byte[] onSeal(byte[] associated, byte[] plain, int bytes) {
    return guarded(() -> ((Cipher) called).seal(associated, plain), bytes, plain);
  }

  /** Null: not sealed under this key with these associated bytes. */
  byte[] onOpen(byte[] associated, byte[] sealed, int bytes) {
    return guarded(() -> ((Cipher) called).open(associated, sealed), bytes, null);
  }

  private interface Work {
    byte[] bytes() throws Exception;
  }

  private byte[] guarded(Work work, int bytes, byte[] toZero) {
    gate.beginService();
    try {
      byte[] result = work.bytes();
      if (result != null && result.length == bytes) return result;
      throw new IllegalStateException(
          "The cipher gave " + (result == null ? "null" : result.length + " bytes") + " instead of " + bytes + " bytes.");
    } catch (Throwable t) {
      gate.callbackThrew(t);
      return null;
    } finally {
      if (toZero != null) Arrays.fill(toZero, (byte) 0);
      gate.endCallback();
    }
  }
}
