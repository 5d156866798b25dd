// What Kotlin sees of ai.graft: options by apply, listeners as lambdas, use(), nullability. Usage: FromKotlinKt FOLDER
// Or README's run of adapters, to the command line's bytes: FromKotlinKt MODEL SPEC OUT
package ai.graft

import java.io.IOException
import kotlin.system.exitProcess

/** Teaches a language model by adapters, by the texts of a data set. */
fun teach(graft: Context, path: String, spec: String, out: String) {
  graft.load(path).use { model ->
    model.addAdapters("r=16,alpha=32", 1)
    graft.openData(spec, DataOptions().apply { this.model = model; length = 128 }).use { texts ->
      val options = TrainerOptions().apply {
        learningRate = 1e-2
        weightDecay = 0.01
        batch = 8
        seed = 1
        data = texts
      }
      model.trainer(options).use { trainer ->
        texts.loader(LoaderOptions().apply { batch = 8; seed = 1; epochs = 1 }).use { loader ->
          while (trainer.trainNext(loader) != null) {
            // Metrics are there for whoever shows them.
          }
        }
        trainer.store()
      }
    }
    model.saveAdapters(out)
  }
}

fun main(arguments: Array<String>) {
  if (arguments.size == 3) {
    Context(ContextOptions()).use { graft -> teach(graft, arguments[0], arguments[1], arguments[2]) }
    exitProcess(0)
  }
  Tests.folder = java.nio.file.Paths.get(arguments[0])
  Context(ContextOptions().apply { device = Tests.device() }).use { graft ->
    graft.load(Tests.file("mlp.graft")).use { model ->
      model.session(SessionOptions().bind("batch", 4L)).use { session ->
        session.setInput("x", Tests.x(0))
        session.run()
        check(session.floats("y").contentEquals(Tests.floats("y.f32"))) { "y" }
      }
      model.trainer(TrainerOptions().apply { learningRate = 0.05; batch = 4; seed = 3 }).use { trainer ->
        val metrics: Metrics = trainer.trainStep(Batch(4).input(Tests.x(0)).target(Tests.labels(0)))
        check(metrics.loss == Tests.doubles("losses.f64")[0]) { "the loss: ${metrics.loss}" }
        val whole: Metrics? = trainer.microStep(Batch(4).input(Tests.x(1)).target(Tests.labels(1)))
        check(whole?.step == 2L) { "a micro-step of the whole batch" }
      }
    }
    graft.load(Tests.file("letters.graft")).use { model ->
      model.generator().use { generator ->
        val pieces = StringBuilder()
        val text = generator.generate("abc", GenerateTests.sampling()) { piece -> pieces.append(piece); true }
        check(text == GenerateTests.wanted() && pieces.toString() == text) { "the text: $text" }
        val thrown = try {
          generator.generate("abc", GenerateTests.sampling()) { throw IOException("a checked exception") }
          null
        } catch (e: IOException) {
          e.message
        }
        check(thrown == "a checked exception") { "what the listener threw: $thrown" }
      }
    }
  }
  exitProcess(0)
}
