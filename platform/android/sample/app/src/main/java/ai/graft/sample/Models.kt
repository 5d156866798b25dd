package ai.graft.sample

import ai.graft.Context.Log as GraftLog
import ai.graft.ContextOptions
import ai.graft.LogLevel
import android.content.Context
import android.util.Log
import java.io.File

typealias Graft = ai.graft.Context

/** A context with a folder where it remembers what it found out about this phone's driver. */
fun openGraft(app: Context): Graft {
  val graft = Graft(ContextOptions().apply {
    logLevel = LogLevel.WARNING
    log = GraftLog { _, message -> Log.w("graft", message) }
  })
  try {
    graft.openCache(File(app.noBackupFilesDir, "graft").path)
  } catch (failure: RuntimeException) {
    graft.close()
    throw failure
  }
  return graft
}

/** Models are mapped from files, so an asset is copied out once. */
fun modelFile(app: Context, name: String): File {
  val file = File(app.noBackupFilesDir, name)
  if (file.exists()) return file
  val part = File(file.path + ".part")
  app.assets.open(name).use { from -> part.outputStream().use { to -> from.copyTo(to); to.fd.sync() } }
  check(part.renameTo(file)) { "$part could not be renamed." }
  return file
}
