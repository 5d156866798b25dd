package ai.graft;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.LongFunction;

/** What native code gives one by one. */
final class Lists {
  /** From 0 on, until there is none: null. */
  static <T> List<T> until(LongFunction<T> at) {
    List<T> out = new ArrayList<>();
    for (T one = at.apply(0); one != null; one = at.apply(out.size())) out.add(one);
    return Collections.unmodifiableList(out);
  }

  static <T> List<T> of(long count, LongFunction<T> at) {
    List<T> out = new ArrayList<>();
    for (long i = 0; i < count; i++) out.add(at.apply(i));
    return Collections.unmodifiableList(out);
  }

  private Lists() {}
}
