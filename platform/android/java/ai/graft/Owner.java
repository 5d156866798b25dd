package ai.graft;

import java.lang.ref.PhantomReference;
import java.lang.ref.ReferenceQueue;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Owns one native object. It goes when the Java object over it is closed or unreachable and everything made from it has
 * gone; so handles may be closed, forgotten and collected in any order.
 */
final class Owner extends PhantomReference<Object> {
  interface Destroyer {
    void destroy(long pointer);
  }

  interface Call<T> {
    T with(long pointer);
  }

  interface Action {
    void with(long pointer);
  }

  private static final ReferenceQueue<Object> UNREACHABLE = new ReferenceQueue<>();
  /** The references themselves must stay reachable. */
  private static final Set<Owner> ALIVE = ConcurrentHashMap.newKeySet();

  static {
    Thread cleaner = new Thread(Owner::clean, "graft cleaner");
    cleaner.setDaemon(true);
    cleaner.start();
  }

  final Gate gate;
  private final Owner parent;  // null: a context
  private final String what;
  private final Destroyer destroyer;
  private long pointer;
  private int children;
  private volatile boolean closed;
  private final Map<Long, Long> named = new HashMap<>();
  private Object reachable;
  private long callbacks;  // native memory that the object may use as long as it lives; 0: none

  /** Takes `pointer` over. With a parent, the caller is inside its gate. */
  Owner(Object over, Owner parent, Gate gate, long pointer, String what, Destroyer destroyer) {
    super(over, UNREACHABLE);
    this.gate = gate;
    this.parent = parent;
    this.pointer = pointer;
    this.what = what;
    this.destroyer = destroyer;
    if (parent != null) parent.children++;
    ALIVE.add(this);
  }

  Owner child(Object over, long child, String what, Destroyer destroyer) {
    return new Owner(over, this, gate, child, what, destroyer);
  }

  /** What was made by way of this object, but needs the context alone. */
  Owner sibling(Object over, long made, String name, Destroyer destroyer) {
    return new Owner(over, parent, gate, made, name, destroyer);
  }

  /** The context's. */
  Owner root() {
    Owner o = this;
    while (o.parent != null) o = o.parent;
    return o;
  }

  /** Inside: what a call on `here` may be given of this object. */
  long given(Owner here) {
    if (gate != here.gate) throw new GraftException.InvalidArgument("The " + what + " is of another context.");
    if (closed) throw new IllegalStateException("The " + what + " is closed.");
    return pointer;
  }

  /** Inside: of what this was made from, which stays as long as this, closed or not. */
  long parentPointer() {
    return parent.pointer;
  }

  /** What the native object reads as long as it lives. */
  void keepReachable(Object kept) {
    reachable = kept;
  }

  /** Native callbacks of one of the things that this object does, until done(name) or its end. 0: none. */
  void keepFor(long name, long handle) {
    if (handle != 0) named.put(name, handle);
  }

  void done(long name) {
    Long handle = named.remove(name);
    if (handle != null) Jni.callbacksDestroy(handle);
  }

  /** Native callbacks that this object uses from now on: freed after it. Null callbacks are none. */
  void keep(long handle) {
    if (handle == 0) return;
    if (callbacks != 0) Jni.callbacksDestroy(callbacks);
    callbacks = handle;
  }

  <T> T call(Call<T> body) {
    enter();
    try {
      T result = body.with(pointer);
      gate.rethrow();
      return result;
    } catch (GraftException e) {
      throw gate.explain(e);
    } finally {
      gate.leave();
    }
  }

  void run(Action body) {
    call(p -> {
      body.with(p);
      return null;
    });
  }

  /** Without waiting for the call that is under way, for what is meant for it; nothing where the object has gone. */
  synchronized void beside(Action body) {
    if (pointer != 0) body.with(pointer);
  }

  boolean isClosed() {
    return closed;
  }

  /** How many native objects there are in this process. */
  static int alive() {
    return ALIVE.size();
  }

  /** Inside: whether anything made from this object is left. */
  boolean hasChildren() {
    return children != 0;
  }

  private void enter() {
    gate.enter();
    if (!closed) return;
    gate.leave();
    throw new IllegalStateException("The " + what + " is closed.");
  }

  /** Waits for the call that is under way, if any. Closing twice does nothing. */
  void close() {
    gate.enter();
    try {
      release();
    } finally {
      gate.leave();
    }
  }

  /** Inside. */
  void release() {
    if (closed) return;
    closed = true;
    clear();
    destroyWhenFree();
  }

  private void destroyWhenFree() {
    for (Owner o = this; o != null && o.closed && o.children == 0 && o.pointer != 0; o = o.parent) {
      long last = o.pointer;
      synchronized (o) {  // beside() is over, and finds nothing from now on
        o.pointer = 0;
      }
      o.destroyer.destroy(last);
      ALIVE.remove(o);
      if (o.callbacks != 0) Jni.callbacksDestroy(o.callbacks);
      o.callbacks = 0;
      for (long handle : o.named.values()) Jni.callbacksDestroy(handle);
      o.named.clear();
      o.reachable = null;
      if (o.parent != null) o.parent.children--;
    }
  }

  private static void clean() {
    while (true) {
      try {
        Owner owner = (Owner) UNREACHABLE.remove();
        owner.gate.drop(owner);
      } catch (InterruptedException e) {
        return;  // the process ends
      } catch (RuntimeException | Error e) {
        // Whatever one object's end threw, the others must go as well.
        Thread.UncaughtExceptionHandler handler = Thread.getDefaultUncaughtExceptionHandler();
        if (handler != null) handler.uncaughtException(Thread.currentThread(), e);
      }
    }
  }
}
