package ai.graft;

import static ai.graft.Tests.check;
import static ai.graft.Tests.file;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

final class GrowthTests {
  /**
   * Resident memory over 20,000 contexts and models, after 10,000 with which the virtual machine has warmed up. What else
   * grows is kept still (CMakeLists.txt): the Java heap is touched as a whole when the process starts, malloc has one
   * arena, the compiler's threads and their memory stay. Measured: 0 to 60 KiB. 384 KiB would be 19 bytes for each pair,
   * and the smallest block that malloc gives takes 32.
   */
  public static void twentyThousandHandlesLeaveNothingBehind() throws Exception {
    makeCheapHandles();
    long before = residentBytes();
    makeCheapHandles();
    makeCheapHandles();
    long grown = residentBytes() - before;
    System.out.println("        20,000 contexts and models: " + grown + " bytes");
    check(grown < 384 << 10, "20,000 contexts and models leave " + grown + " bytes behind");
  }

  /** 10,000 pairs. What waits for its collection counts as well, so it is never much. */
  private static void makeCheapHandles() throws Exception {
    for (int i = 0; i < 10000; i++) {
      makePair(i);
      if (i % 500 == 499) LifetimeTests.collectAll();
    }
  }

  /** Half of them are forgotten instead of closed; children before parents and after. */
  private static void makePair(int i) {
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
