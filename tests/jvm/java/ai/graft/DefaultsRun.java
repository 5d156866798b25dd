package ai.graft;

/** As tests/bindings/defaults.c: two steps for each pair of loss and optimizer, with nothing else said. */
public final class DefaultsRun {
  public static void main(String[] arguments) {
    try (Context context = new Context()) {
      for (int i = 2; i < arguments.length; i += 3) {
        DataSet.Options kind = new DataSet.Options();
        try (Model model = context.load(arguments[0])) {
          kind.model = model;
          try (DataSet set = context.openData(arguments[1], kind)) {
            TrainerOptions options =
                new TrainerOptions(TrainerOptions.Optimizer.values()[Integer.parseInt(arguments[i + 1])]);
            options.loss = TrainerOptions.Loss.values()[Integer.parseInt(arguments[i])];
            options.batch = 4;
            options.data = set;
            Loader.Options batches = new Loader.Options();
            batches.batch = 4;
            batches.epochs = 1;
            try (Trainer trainer = model.trainer(options); Loader loader = set.loader(batches)) {
              while (trainer.trainNext(loader) != null) {}
              trainer.store();
              model.save(arguments[i + 2]);
            }
          }
        }
      }
    }
  }

  private DefaultsRun() {}
}
