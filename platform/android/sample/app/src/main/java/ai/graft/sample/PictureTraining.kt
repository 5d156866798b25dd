package ai.graft.sample

import ai.graft.CheckpointOptions
import ai.graft.SessionOptions
import ai.graft.TrainerOptions
import android.content.Context
import java.io.File
import java.nio.ByteBuffer

/** Teaches the classifier's last layer the user's own pictures. */
class PictureTraining(private val app: Context) : Training {
  private val run = File(app.noBackupFilesDir, "picture-run")

  override fun train(graft: Graft, control: Control): Boolean {
    val examples = Examples(app.noBackupFilesDir)
    if (examples.count < Examples.BATCH) return true
    graft.load(modelFile(app, "classifier.graft").path).use { model ->
      val options = TrainerOptions().apply {
        batch = Examples.BATCH
        learningRate = 1e-3
        // All but what comes last: the features stay, and a step takes little memory.
        freeze = model.namedParameters().dropLast(2).joinToString(",") { it.name }
        budget = 128L shl 20
        checkpoints = true
      }
      model.trainer(options).use { trainer ->
        val kept = trainer.openCheckpoint(CheckpointOptions(run.path).apply { every = 20; resume = true })
        // As many examples as there were when this run began: it must see the same batches again.
        val known = trainer.checkpointData()?.let { ByteBuffer.wrap(it).int } ?: examples.count
        if (kept.step == 0L) {
          trainer.setCheckpointData(ByteBuffer.allocate(4).putInt(known).array())
          trainer.saveCheckpoint()
        }
        for (step in kept.step until STEPS) {
          val batch = examples.batch(step, known)
          while (trainer.microStep(batch) == null) if (control.pause(trainer)) return suspended(trainer)
          if (control.pause(trainer)) return suspended(trainer)
        }
        trainer.store()
        trainer.closeCheckpoint()
      }
      model.save(tuned(app).path) // whole or not at all
    }
    run.deleteRecursively() // the next run begins anew, with the examples of that day
    return true
  }

  companion object {
    private const val STEPS = 200L

    private fun tuned(app: Context) = File(app.noBackupFilesDir, "classifier-tuned.graft")

    /** The number of the class that the picture most likely shows. */
    fun classify(app: Context, graft: Graft, pixels: FloatArray): Int {
      val file = tuned(app).takeIf { it.exists() } ?: modelFile(app, "classifier.graft")
      graft.load(file.path).use { model ->
        model.session(SessionOptions().bind("batch", 1)).use { session ->
          session.setInput("image", pixels)
          session.run()
          val logits = session.floats("logits")
          return logits.indices.maxByOrNull { logits[it] } ?: 0
        }
      }
    }
  }
}
