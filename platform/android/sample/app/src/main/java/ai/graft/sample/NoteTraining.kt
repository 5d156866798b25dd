package ai.graft.sample

import ai.graft.Batch
import ai.graft.CheckpointOptions
import ai.graft.GenerateOptions
import ai.graft.GeneratorOptions
import ai.graft.Model
import ai.graft.TrainerOptions
import ai.graft.pieces
import android.content.Context
import java.io.File
import java.util.Random
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.emitAll
import kotlinx.coroutines.flow.flow

/** The user's notes, one text file each. */
class Notes(private val folder: File) {
  fun add(text: String) {
    folder.mkdirs()
    File(folder, "${folder.list().orEmpty().size}.txt").writeText(text)
  }

  /** In the order in which they were written. */
  fun all(): List<String> =
    folder.listFiles().orEmpty().sortedBy { it.nameWithoutExtension.toInt() }.map { it.readText() }
}

/** Teaches low-rank adapters of a frozen, quantized language model to go on as the user's notes do. */
class NoteTraining(private val app: Context) : Training {
  override fun train(graft: Graft, control: Control): Boolean {
    graft.load(modelFile(app, "language.graft").path).use { model ->
      val tokens = model.tokenizer().use { tokenizer ->
        Notes(File(app.filesDir, "notes")).all().flatMap { tokenizer.encode(it).asList() }.toIntArray()
      }
      return tokens.size <= WINDOW * SAMPLES || train(model, tokens, control)
    }
  }

  private fun train(model: Model, tokens: IntArray, control: Control): Boolean {
    // A run belongs to the notes that it began with: with new ones, another begins.
    val run = File(app.noBackupFilesDir, "note-run-${tokens.contentHashCode()}")
    app.noBackupFilesDir.listFiles { file -> file.name.startsWith("note-run-") && file != run }.orEmpty()
      .forEach { it.deleteRecursively() }
    model.addAdapters("r=8,alpha=16", 1)
    val options = TrainerOptions().apply {
      batch = SAMPLES
      learningRate = 2e-4
      bindings["seq"] = WINDOW.toLong()
      budget = 512L shl 20
      checkpoints = true
    }
    model.trainer(options).use { trainer ->
      val kept = trainer.openCheckpoint(CheckpointOptions(run.path).apply {
        every = 10
        resume = true
      })
      for (step in kept.step until STEPS) {
        val batch = batch(tokens, step)
        while (trainer.microStep(batch) == null) if (control.pause(trainer)) return suspended(trainer)
        if (control.pause(trainer)) return suspended(trainer)
      }
      trainer.store()
      trainer.closeCheckpoint()
    }
    model.saveAdapters(adapters(app).path)
    run.deleteRecursively()
    return true
  }

  /** Windows of the notes, and for each token the next as its label: the same for a step whenever it is asked for. */
  private fun batch(tokens: IntArray, step: Long): Batch {
    val random = Random(step)
    val inputs = IntArray(SAMPLES * WINDOW)
    val labels = IntArray(SAMPLES * WINDOW)
    for (i in 0 until SAMPLES) {
      val start = random.nextInt(tokens.size - WINDOW)
      tokens.copyInto(inputs, i * WINDOW, start, start + WINDOW)
      tokens.copyInto(labels, i * WINDOW, start + 1, start + 1 + WINDOW)
    }
    return Batch(SAMPLES).input(inputs).target(labels)
  }

  companion object {
    private const val STEPS = 300L
    private const val SAMPLES = 4
    private const val WINDOW = 128

    private fun adapters(app: Context) = File(app.noBackupFilesDir, "notes.graft")

    /** Goes on with a note as the user would, piece by piece. */
    fun write(app: Context, beginning: String): Flow<String> = flow {
      openGraft(app).use { graft ->
        graft.load(modelFile(app, "language.graft").path).use { model ->
          if (adapters(app).exists()) model.loadAdapters(adapters(app).path)
          model.generator(GeneratorOptions().apply { context = 512 }).use { generator ->
            emitAll(generator.pieces(beginning, GenerateOptions().apply { maxTokens = 64; temperature = 0.7 }))
          }
        }
      }
    }
  }
}
