package ai.graft;

/** What an app fills, and native code reads. */
abstract class Options extends Shown {
  abstract void pack(Out out);

  /** Inside `here`'s gate. */
  final byte[] packed(Owner here) {
    return new Out(here).option(this).bytes();
  }
}
