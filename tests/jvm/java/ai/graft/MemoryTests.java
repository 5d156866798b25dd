package ai.graft;

import static ai.graft.Tests.check;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.fresh;
import static ai.graft.Tests.thrown;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** A memory of examples: what it holds, evicts and erases, its data sets, and its cipher. */
final class MemoryTests {
  private static final List<Field> FIELDS = Arrays.asList(
      new Field("x", Dtype.F32, Field.Role.INPUT, 2), new Field("label", Dtype.I32, Field.Role.TARGET));

  private static MemoryOptions options(boolean encrypted) {
    MemoryOptions options = new MemoryOptions();
    options.fields.addAll(FIELDS);
    options.records = 20;
    options.policy = MemoryPolicy.AGE;
    options.heldOutShare = 0.3;
    if (encrypted) options.cipher = new AesGcm(new javax.crypto.spec.SecretKeySpec(new byte[16], "AES"));
    return options;
  }

  public static void recordsComeAndGo() throws Exception {
    Path path = fresh("memory");
    try (Context context = Tests.deviceless()) {
      try (MemoryFile memory = context.openMemory(path.toString(), options(true))) {
        for (int i = 0; i < 25; i++) {
          RecordOptions record = new RecordOptions();
          record.expiresMs = i == 10 ? 1 : 0;
          MemoryAdded added = memory.add("r" + i, record, new float[] {i, -i}, new int[] {0});
          check(added.stored, "it is stored");
          equal(i < 20 ? "" : "r" + (i - 20), added.evicted, "what went");
        }
        thrown(GraftException.InvalidArgument.class, "x", () -> memory.add("s", new RecordOptions(), new float[3], new int[1]));
        thrown(GraftException.InvalidArgument.class, "another sample",
            () -> memory.add("r24", new RecordOptions(), new float[2], new int[1]));
        equal(20, memory.records().size(), "records");
        equal(24f, memory.read("r24").asFloatBuffer().get(0), "a number of a sample");
        memory.setLoss("r24", 0.5);
        equal(0.5, memory.record("r24").loss, "its loss");
        equal(1L, memory.expire(0), "records that expired");
        memory.remove(Collections.singletonList("r24"));
        thrown(GraftException.NotFound.class, "r24", () -> memory.record("r24"));
        equal(18L, memory.info().records, "records that are left");
        LoaderOptions order = new LoaderOptions();
        order.batch = 4;
        order.epochs = 1;
        order.keyed = true;
        long training = memory.records().stream().filter(one -> !one.isHeldOut).count();
        try (DataSet news = context.dataOf(FIELDS, 6, new float[12], new int[6]);
             DataSet mixed = memory.mix(news, 0.4, 0); DataSet all = memory.data(MemoryPart.TRAINING, 0)) {
          equal(training, all.samples(), "samples to train on");
          equal(9L, mixed.samples(), "of an epoch");
          equal(null, memory.firstUse(mixed, order, "r24", 0), "a record that is gone");
          long used = memory.records().stream().filter(one -> memory.firstUse(mixed, order, one.id, 0) != null).count();
          equal(3L, used, "records that the epoch uses");
          equal(12L, memory.addData(news, "n", new RecordOptions()) + memory.addData(news, "n", new RecordOptions()), "samples added");
          try (Loader loader = mixed.loader(order)) {
            equal(4L, loader.next().samples, "a batch");
          }
        }
      }
      thrown(GraftException.InvalidArgument.class, "encrypted", () -> context.openMemory(path.toString(), options(false)));
    }
    Tests.remove(path);
    Tests.remove(path.resolveSibling(path.getFileName() + ".lock"));
  }

  private MemoryTests() {}
}
