package ai.graft.sample

import ai.graft.Batch
import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Random

/** Pictures with their labels, appended to a file: 3 x 96 x 96 floats and an int each. */
class Examples(folder: File) {
  private val file = File(folder, "examples")

  val count: Int get() = (file.length() / RECORD).toInt()

  fun add(pixels: FloatArray, label: Int) {
    require(pixels.size == PIXELS) { "A picture has $PIXELS numbers, not ${pixels.size}." }
    val record = ByteBuffer.allocate(RECORD).order(ByteOrder.nativeOrder())
    record.asFloatBuffer().put(pixels)
    record.putInt(4 * PIXELS, label)
    // After a write that was cut short, the next one begins at the whole records' end.
    RandomAccessFile(file, "rw").use { it.seek(count.toLong() * RECORD); it.write(record.array()) }
  }

  /** The batch of a step, drawn from the first `known` examples: the same whenever it is asked for, so that a run resumes. */
  fun batch(step: Long, known: Int): Batch {
    val random = Random(step)
    val pixels = FloatArray(BATCH * PIXELS)
    val labels = IntArray(BATCH)
    val record = ByteBuffer.allocate(RECORD).order(ByteOrder.nativeOrder())
    RandomAccessFile(file, "r").use {
      for (i in 0 until BATCH) {
        it.seek(random.nextInt(known).toLong() * RECORD)
        it.readFully(record.array())
        record.asFloatBuffer().get(pixels, i * PIXELS, PIXELS)
        labels[i] = record.getInt(4 * PIXELS)
      }
    }
    return Batch(BATCH).input(pixels).target(labels)
  }

  companion object {
    const val PIXELS = 3 * 96 * 96
    const val BATCH = 16
    private const val RECORD = 4 * PIXELS + 4
  }
}
