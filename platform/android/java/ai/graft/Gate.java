package ai.graft;

import java.security.GeneralSecurityException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The door to one native context: one thread at a time is inside, with whatever was made from that context. It also
 * keeps what callbacks threw, since no exception can pass through native code.
 */
final class Gate {
  /** The gate whose callback this thread is in, if any; ALL in a log or a cipher, from which graft takes no call. */
  private static final ThreadLocal<Gate> CALLING_BACK = new ThreadLocal<>();
  private static final Gate ALL = new Gate();

  private final ReentrantLock lock = new ReentrantLock();
  /** Unreachable owners, whose native objects go when the next thread leaves. */
  private final ConcurrentLinkedQueue<Owner> dropped = new ConcurrentLinkedQueue<>();
  /** What a callback threw on the thread that is inside; read and written by that thread only. */
  private Throwable thrown;
  /** What the cipher threw last: the reason of the failure that graft reports. */
  private final AtomicReference<Throwable> reason = new AtomicReference<>();

  void enter() {
    // A callback on one of graft's own threads would wait for a call that waits for it.
    Gate calling = CALLING_BACK.get();
    if (calling == this || calling == ALL || lock.isHeldByCurrentThread()) {
      throw new IllegalStateException("A callback must not call graft with the context that called it.");
    }
    lock.lock();
    thrown = null;
  }

  void leave() {
    try {
      releaseDropped();
    } finally {
      lock.unlock();
    }
    sweep();
  }

  /** From any thread: releases `owner` now if nobody is inside, else when that thread leaves. */
  void drop(Owner owner) {
    dropped.add(owner);
    sweep();
  }

  private void sweep() {
    // Again after the unlock: what was added after the last look inside would else wait for another call.
    while (!dropped.isEmpty() && !lock.isHeldByCurrentThread() && lock.tryLock()) {
      try {
        releaseDropped();
      } finally {
        lock.unlock();
      }
    }
  }

  private void releaseDropped() {
    for (Owner owner = dropped.poll(); owner != null; owner = dropped.poll()) owner.release();
  }

  // ---- Callbacks ----

  void beginText() {
    CALLING_BACK.set(this);
  }

  /** A log or a cipher, which may be on one of graft's own threads. */
  void beginService() {
    CALLING_BACK.set(ALL);
  }

  void endCallback() {
    CALLING_BACK.remove();
  }

  /** Keeps what a callback threw: it comes out of the call that is under way on this thread, or explains a failure. */
  void callbackThrew(Throwable failure) {
    if (lock.isHeldByCurrentThread() && !(failure instanceof GeneralSecurityException)) {
      if (thrown == null) thrown = failure;
      else if (thrown != failure) thrown.addSuppressed(failure);
      return;
    }
    reason.set(failure);
  }

  /** After a native call that succeeded. */
  void rethrow() {
    Throwable failure = thrown;
    thrown = null;
    if (failure != null) Gate.<RuntimeException>sneak(failure);
  }

  /** After a native call that failed: throws what a callback threw, or gives graft's sentence with its cause. */
  GraftException explain(GraftException failure) {
    rethrow();
    Throwable cause = reason.getAndSet(null);
    if (cause != null && failure.getCause() == null) failure.initCause(cause);
    return failure;
  }

  /** Kotlin's callbacks throw checked exceptions without saying so; they come out as they are. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void sneak(Throwable failure) throws E {
    throw (E) failure;
  }
}
