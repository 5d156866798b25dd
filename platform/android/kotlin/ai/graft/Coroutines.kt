// For Kotlin's coroutines: what blocks runs on Dispatchers.IO. A source file to copy or to add as a source folder, since
// graft's classes themselves need no library at run time.
package ai.graft

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.trySendBlocking
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.flow.flowOn
import kotlinx.coroutines.withContext

/** Pieces of the text as they become certain. Whoever stops collecting ends the text with its next piece. */
fun Generator.pieces(prompt: String, sampling: GenerateOptions = GenerateOptions()): Flow<String> =
  channelFlow<String> {
    generate(prompt, sampling) { piece -> trySendBlocking(piece).isSuccess }
  }.flowOn(Dispatchers.IO)

suspend fun Generator.awaitText(prompt: String, sampling: GenerateOptions = GenerateOptions()): String =
  withContext(Dispatchers.IO) { generate(prompt, sampling, null) }

suspend fun Session.awaitRun() = withContext(Dispatchers.IO) { run() }

/** A step that has begun comes to its end, also where the coroutine is cancelled meanwhile. */
suspend fun Trainer.awaitStep(batch: Batch): Metrics = withContext(Dispatchers.IO) { trainStep(batch) }
