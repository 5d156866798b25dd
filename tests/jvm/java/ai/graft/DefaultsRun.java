package ai.graft;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.List;

/** As tests/bindings/defaults.c: two steps for each pair of loss and optimizer, with nothing else said or with a file of options. */
public final class DefaultsRun {
  /** learning_rate: learningRate. */
  private static String camel(String name) {
    StringBuilder out = new StringBuilder();
    for (String part : name.split("_")) {
      out.append(out.length() == 0 ? part : part.substring(0, 1).toUpperCase() + part.substring(1));
    }
    return out.toString();
  }

  @SuppressWarnings("unchecked")
  private static void set(TrainerOptions options, String name, String value) throws ReflectiveOperationException {
    Field field = TrainerOptions.class.getField(camel(name));
    Class<?> type = field.getType();
    if (type == boolean.class) {
      field.setBoolean(options, value.equals("1"));
    } else if (type == double.class) {
      field.setDouble(options, Double.parseDouble(value));
    } else if (type == long.class) {
      field.setLong(options, Long.parseLong(value));
    } else if (type == int.class) {
      field.setInt(options, (int) Long.parseLong(value)); // one without a sign has the same bits
    } else if (type == double[].class) {
      field.set(options, Arrays.stream(value.split(",")).mapToDouble(Double::parseDouble).toArray());
    } else if (type.isEnum()) {
      field.set(options, type.getEnumConstants()[Integer.parseInt(value)]);
    } else if (type == List.class) {
      ((List<String>) field.get(options)).addAll(Arrays.asList(value.split(",")));
    } else {
      field.set(options, value);
    }
  }

  /** OPTIMIZER[@FILE]. */
  private static TrainerOptions read(String text) throws IOException, ReflectiveOperationException {
    String[] parts = text.split("@", 2);
    TrainerOptions options = new TrainerOptions(Optimizer.values()[Integer.parseInt(parts[0])]);
    if (parts.length == 2) {
      for (String line : Files.readAllLines(Paths.get(parts[1]))) {
        String[] pair = line.split("=", 2);
        set(options, pair[0], pair[1]);
      }
    }
    return options;
  }

  public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
    boolean failed = false;
    try (Context context = new Context()) {
      for (int i = 2; i < arguments.length; i += 3) {
        TrainerOptions options = read(arguments[i + 1]);
        options.loss = Loss.values()[Integer.parseInt(arguments[i])];
        try {
          train(context, arguments[0], arguments[1], options, arguments[i + 2]);
        } catch (RuntimeException problem) {
          System.err.println(arguments[i + 2] + ": " + problem.getMessage());
          failed = true;
        }
      }
    }
    System.exit(failed ? 1 : 0);
  }

  private static void train(Context context, String path, String spec, TrainerOptions options, String out) {
    DataOptions kind = new DataOptions();
    try (Model model = context.load(path)) {
      kind.model = model;
      try (DataSet set = context.openData(spec, kind)) {
        options.batch = 4;
        options.data = set;
        LoaderOptions batches = new LoaderOptions();
        batches.batch = 4;
        batches.epochs = 1;
        batches.seed = Integer.toUnsignedLong(options.seed);
        try (Trainer trainer = model.trainer(options); Loader loader = set.loader(batches)) {
          while (trainer.trainNext(loader) != null) {}
          trainer.store();
          model.save(out);
        }
      }
    }
  }

  private DefaultsRun() {}
}
