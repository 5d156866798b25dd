package ai.graft;

import static ai.graft.Tests.check;
import static ai.graft.Tests.file;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

final class GrowthTests {
  /**
   * Resident memory over 10,000 contexts and models, the least of up to five rounds: what is left behind is left behind
   * in each, while the virtual machine compiles and warms up in the first ones (a later round takes 20 to 200 KiB). The
   * Java heap is touched as a whole when the process starts (see CMakeLists.txt). 1 MiB would be 105 bytes for each.
   */
  public static void tenThousandHandlesLeaveNothingBehind() throws Exception {
    long least = Long.MAX_VALUE;
    for (int round = 0; round < 5 && least >= 1 << 20; round++) {
      long before = residentBytes();
      for (int i = 0; i < 10000; i++) makeCheapHandles(i);
      LifetimeTests.collectAll();
      long grown = residentBytes() - before;
      System.out.println("        10,000 contexts and models: " + grown + " bytes");
      least = Math.min(least, grown);
    }
    check(least < 1 << 20, "each 10,000 contexts and models leave at least " + least + " bytes behind");
  }

  /** Half of them are forgotten instead of closed; children before parents and after. */
  private static void makeCheapHandles(int i) {
    Context context = Tests.deviceless();
    Model model = context.load(file("mlp.graft"));
    if (i % 2 == 0) return;
    if (i % 4 == 1) context.close();
    model.close();
    context.close();
  }

  private static long residentBytes() throws Exception {
    for (String line : Files.readAllLines(Paths.get("/proc/self/status"), StandardCharsets.UTF_8)) {
      if (line.startsWith("VmRSS:")) return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
    }
    throw new AssertionError("VmRSS is missing");
  }

  private GrowthTests() {}
}
