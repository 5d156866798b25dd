package ai.graft;

/** What all that owns a native object has in common. */
abstract class Handle {
  Owner own;

  /** "Trainer", or "Trainer (closed)". */
  @Override
  public String toString() {
    return getClass().getSimpleName() + (own == null || own.isClosed() ? " (closed)" : "");
  }
}
