package ai.graft;

import static ai.graft.Tests.STEPS;
import static ai.graft.Tests.bytes;
import static ai.graft.Tests.check;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.fresh;
import static ai.graft.Tests.labels;
import static ai.graft.Tests.thrown;
import static ai.graft.Tests.x;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.crypto.spec.SecretKeySpec;

final class CheckpointTests {
  /** A process of its own that is killed: trains with a checkpoint, tells each step, stops after step 7. */
  static final class Child {
    public static void main(String[] arguments) throws Exception {
      Tests.folder = Paths.get(arguments[0]);
      try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
           Trainer trainer = model.trainer(kept())) {
        CheckpointOptions options = new CheckpointOptions(arguments[1]);
        options.every = 4;
        trainer.openCheckpoint(options);
        trainer.setCheckpointData(new byte[] {1, 2, 3});
        for (int step = 0; step < 7; step++) System.out.println("step " + trainer.trainStep(x(step), labels(step)).step);
        System.out.println("wait");
        Thread.sleep(600000);
      }
    }
  }

  private static TrainerOptions kept() {
    TrainerOptions options = Tests.trainerOptions();
    options.checkpoints = true;
    return options;
  }

  private static AesGcm cipher(int key) {
    byte[] bits = new byte[32];
    Arrays.fill(bits, (byte) key);
    return new AesGcm(new SecretKeySpec(bits, "AES"));
  }

  private static void finish(Model model, Trainer trainer, long from) throws Exception {
    for (int step = (int) from; step < STEPS; step++) trainer.trainStep(x(step), labels(step));
    trainer.store();
    Path out = fresh("resumed.graft");
    model.save(out.toString());
    equal(bytes("trained.graft"), Files.readAllBytes(out), "the file of the run that went on");
    Files.delete(out);
  }

  public static void aKilledRunGoesOnToTheSameBytes() throws Exception {
    Path folder = fresh("killed");
    Process child = new ProcessBuilder(Paths.get(System.getProperty("java.home"), "bin", "java").toString(),
        "-Djava.library.path=" + System.getProperty("java.library.path"), "-cp", System.getProperty("java.class.path"),
        Child.class.getName(), Tests.folder.toString(), folder.toString())
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (BufferedReader said = new BufferedReader(new InputStreamReader(child.getInputStream(), StandardCharsets.UTF_8))) {
      String last = "";
      String line = said.readLine();
      for (; line != null && !line.equals("wait"); line = said.readLine()) last = line;
      equal("wait", line, "the child's last line");
      equal("step 7", last, "the line before");
    } finally {
      child.destroyForcibly();
    }
    check(child.waitFor() != 0, "the child was killed");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Trainer trainer = model.trainer(kept())) {
      CheckpointOptions options = new CheckpointOptions(folder.toString());
      options.resume = true;
      CheckpointInfo at = trainer.openCheckpoint(options);
      // Steps are journalled before trainStep returns; the snapshot of step 4 is written by a thread.
      check(at.step == 4 || at.step == 0, "the snapshot's step: " + at.step);
      equal(7L, at.step + at.journalled, "the journal's last step");
      if (at.step == 4) equal(new byte[] {1, 2, 3}, trainer.checkpointData(), "the app's own bytes");
      finish(model, trainer, at.step);
    }
    Tests.remove(folder);
  }

  public static void encryptedRunsOpenUnderTheirKeyOnly() throws Exception {
    Path folder = fresh("sealed");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      try (Trainer trainer = model.trainer(kept())) {
        CheckpointOptions options = new CheckpointOptions(folder.toString());
        options.metadata.put("note", "a-plain-marker");
        options.cipher = cipher(1);
        trainer.openCheckpoint(options);
        equal(null, trainer.checkpointData(), "the app's bytes before any were set");
        for (int step = 0; step < 5; step++) trainer.trainStep(x(step), labels(step));
        trainer.setCheckpointData("another-marker".getBytes(StandardCharsets.UTF_8));
        trainer.saveCheckpoint("five");
        trainer.closeCheckpoint();
      }
      List<Path> files;
      try (Stream<Path> all = Files.walk(folder)) {
        files = all.filter(Files::isRegularFile).collect(Collectors.toList());
      }
      check(!files.isEmpty(), "files");
      for (Path path : files) {
        String contents = new String(Files.readAllBytes(path), StandardCharsets.ISO_8859_1);
        check(!contents.contains("plain-marker") && !contents.contains("another-marker"), path + " is sealed");
      }
      try (Trainer trainer = model.trainer(kept())) {
        CheckpointOptions options = new CheckpointOptions(folder.toString());
        options.resume = true;
        options.cipher = cipher(2);
        GraftException refused = thrown(GraftException.InvalidArgument.class, "The key is not the one",
            () -> trainer.openCheckpoint(options));
        check(refused.getCause() instanceof GeneralSecurityException, "the cipher's reason: " + refused.getCause());
      }
      try (Trainer trainer = model.trainer(kept())) {
        thrown(GraftException.InvalidArgument.class, "The key is not the one",
            () -> trainer.warmStart(folder.toString(), null, cipher(2)));
        trainer.warmStart(folder.toString(), "five", cipher(1));
        equal(1L, trainer.trainStep(x(0), labels(0)).step, "a warm start begins anew");
      }
      try (Trainer trainer = model.trainer(kept())) {
        CheckpointOptions options = new CheckpointOptions(folder.toString());
        options.resume = true;
        options.from = "five";
        options.cipher = cipher(1);
        equal(5L, trainer.openCheckpoint(options).step, "the step");
        equal("another-marker", new String(trainer.checkpointData(), StandardCharsets.UTF_8), "the app's bytes");
        finish(model, trainer, 5);
      }
    }
    Tests.remove(folder);
  }

  public static void aCipherThatThrowsFailsTheSave() throws Exception {
    Path folder = fresh("throws");
    AtomicBoolean fail = new AtomicBoolean();
    AtomicInteger sealed = new AtomicInteger();
    Cipher good = cipher(1);
    Cipher cipher = new Cipher() {
      @Override public int overhead() {
        return good.overhead();
      }

      @Override public byte[] seal(byte[] associated, byte[] plain) throws GeneralSecurityException {
        sealed.incrementAndGet();
        if (fail.get()) throw new IllegalArgumentException("the key store is locked");
        return good.seal(associated, plain);
      }

      @Override public byte[] open(byte[] associated, byte[] bytes) throws GeneralSecurityException {
        return good.open(associated, bytes);
      }
    };
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Trainer trainer = model.trainer(kept())) {
      CheckpointOptions options = new CheckpointOptions(folder.toString());
      options.cipher = cipher;
      trainer.openCheckpoint(options);
      trainer.trainStep(x(0), labels(0));
      trainer.saveCheckpoint();
      check(sealed.get() > 0, "the cipher was asked");
      fail.set(true);
      Throwable failure = null;
      try {
        trainer.saveCheckpoint("again");
      } catch (Throwable t) {
        failure = t;
      }
      // Itself where graft sealed on this thread, else the cause of graft's sentence.
      Throwable origin = failure instanceof GraftException ? failure.getCause() : failure;
      check(origin instanceof IllegalArgumentException && origin.getMessage().equals("the key store is locked"),
          "what came out: " + failure);
    }
    Tests.remove(folder);
  }

  private CheckpointTests() {}
}
