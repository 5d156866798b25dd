package ai.graft;

import java.util.Arrays;

/** What native code calls. It sees no exception: those are kept at the gate. All methods are called from JNI. */
final class Callbacks {
  private final Gate gate;
  private final Context.Log log;
  private final Generator.Listener listener;
  private final Cipher cipher;

  private Callbacks(Gate gate, Context.Log log, Generator.Listener listener, Cipher cipher) {
    this.gate = gate;
    this.log = log;
    this.listener = listener;
    this.cipher = cipher;
  }

  /** The three below give null where there is nothing to call. */
  static Callbacks of(Gate gate, Context.Log log) {
    return log == null ? null : new Callbacks(gate, log, null, null);
  }

  static Callbacks of(Gate gate, Generator.Listener listener) {
    return listener == null ? null : new Callbacks(gate, null, listener, null);
  }

  static Callbacks of(Gate gate, Cipher cipher) {
    return cipher == null ? null : new Callbacks(gate, null, null, cipher);
  }

  void onLog(int level, String message) {
    gate.beginService();
    try {
      log.log(Context.LogLevel.values()[level], message);
    } catch (Throwable t) {
      gate.callbackThrew(t);
    } finally {
      gate.endCallback();
    }
  }

  /** False ends the text. */
  boolean onText(String piece) {
    gate.beginText();
    try {
      return listener.onText(piece);
    } catch (Throwable t) {
      gate.callbackThrew(t);
      return false;
    } finally {
      gate.endCallback();
    }
  }

  int overhead() {
    return cipher.overhead();
  }

  /** Null: failed. Zeros the plain bytes of its own afterwards. */
  byte[] onSeal(byte[] associated, byte[] plain, int bytes) {
    return guarded(() -> cipher.seal(associated, plain), bytes, plain);
  }

  /** Null: not sealed under this key with these associated bytes. */
  byte[] onOpen(byte[] associated, byte[] sealed, int bytes) {
    return guarded(() -> cipher.open(associated, sealed), bytes, null);
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
