package ai.graft;

import java.util.List;
import java.util.Map;

/** Maps and lists of options as the arrays that JNI takes. */
final class Names {
  static String[] of(Map<String, ?> map) {
    return map.keySet().toArray(new String[0]);
  }

  static String[] of(List<String> list) {
    return list.toArray(new String[0]);
  }

  static long[] sizes(Map<String, Long> bindings) {
    long[] sizes = new long[bindings.size()];
    int i = 0;
    for (long size : bindings.values()) sizes[i++] = size;
    return sizes;
  }

  private Names() {}
}
