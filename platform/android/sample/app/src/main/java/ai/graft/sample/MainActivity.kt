package ai.graft.sample

import android.app.Activity
import android.os.Bundle
import android.widget.Button
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import java.io.File
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.MainScope
import kotlinx.coroutines.cancel
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.flowOn
import kotlinx.coroutines.launch

/** A note that can be kept, and gone on with as the user writes. */
class MainActivity : Activity(), CoroutineScope by MainScope() {
  override fun onCreate(state: Bundle?) {
    super.onCreate(state)
    val note = EditText(this)
    val said = TextView(this)
    val keep = Button(this).apply { text = "Keep" }
    val go = Button(this).apply { text = "Go on" }
    setContentView(LinearLayout(this).apply {
      orientation = LinearLayout.VERTICAL
      for (view in listOf(note, keep, go, said)) addView(view)
    })
    keep.setOnClickListener {
      Notes(File(filesDir, "notes")).add(note.text.toString())
      TrainWorker.enqueue(applicationContext)
    }
    go.setOnClickListener {
      launch {
        said.text = ""
        NoteTraining.write(applicationContext, note.text.toString())
          .flowOn(Dispatchers.IO)
          .catch { failure -> said.text = failure.message }
          .collect { piece -> said.append(piece) }
      }
    }
  }

  override fun onDestroy() {
    cancel()
    super.onDestroy()
  }
}
