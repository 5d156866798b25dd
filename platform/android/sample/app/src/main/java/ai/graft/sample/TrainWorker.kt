package ai.graft.sample

import ai.graft.GraftException
import ai.graft.Trainer
import android.content.ComponentCallbacks2
import android.content.Context
import android.content.res.Configuration
import android.util.Log
import androidx.work.Constraints
import androidx.work.ExistingWorkPolicy
import androidx.work.OneTimeWorkRequestBuilder
import androidx.work.WorkManager
import androidx.work.Worker
import androidx.work.WorkerParameters
import java.util.concurrent.atomic.AtomicBoolean

/** What a training asks between two pieces of work. */
class Control(private val stopped: () -> Boolean) {
  private val short = AtomicBoolean()

  /** From any thread: the system is short of memory. */
  fun memoryIsShort() = short.set(true)

  /** Gives memory back if the system asked for it; true: the training has to stop now. */
  fun pause(trainer: Trainer): Boolean {
    if (short.compareAndSet(true, false)) {
      try {
        trainer.trim(trainer.memory().total / 4)
      } catch (nothingSmaller: GraftException.OutOfMemory) {
        Log.w("graft", nothingSmaller.message, nothingSmaller)
      } catch (withinAStep: GraftException.InvalidArgument) {
        short.set(true) // memory changes between two steps: once more after this one
      }
    }
    return stopped()
  }
}

interface Training {
  /** Goes on with the run that is kept, or begins one. False: it was stopped, and is to go on later. */
  fun train(graft: Graft, control: Control): Boolean

  /** A snapshot of now, also within a step; what is not saved in time is redone from the snapshot before. */
  fun suspended(trainer: Trainer): Boolean {
    trainer.saveCheckpoint()
    return false
  }
}

/** Trains while the phone charges; killed or stopped at any time, it goes on where it was. */
class TrainWorker(context: Context, parameters: WorkerParameters) : Worker(context, parameters) {
  override fun doWork(): Result {
    val control = Control { isStopped }
    val callbacks = object : ComponentCallbacks2 {
      override fun onTrimMemory(level: Int) {
        if (level >= ComponentCallbacks2.TRIM_MEMORY_BACKGROUND) control.memoryIsShort()
      }

      override fun onLowMemory() = control.memoryIsShort()

      override fun onConfigurationChanged(changed: Configuration) = Unit
    }
    applicationContext.registerComponentCallbacks(callbacks)
    try {
      openGraft(applicationContext).use { graft ->
        for (training in listOf(PictureTraining(applicationContext), NoteTraining(applicationContext))) {
          if (!training.train(graft, control)) return Result.retry()
        }
      }
      return Result.success()
    } catch (noGpu: GraftException.NotFound) {
      Log.w("graft", noGpu.message, noGpu)
      return Result.failure() // no Vulkan device, or a model is missing: later will not be better
    } catch (failure: GraftException) {
      Log.e("graft", failure.message, failure)
      return Result.retry()
    } finally {
      applicationContext.unregisterComponentCallbacks(callbacks)
    }
  }

  companion object {
    fun enqueue(app: Context) {
      val request = OneTimeWorkRequestBuilder<TrainWorker>()
        .setConstraints(Constraints.Builder().setRequiresCharging(true).setRequiresDeviceIdle(true).build())
        .build()
      // One at a time: it would be refused the folder of a run that goes on. What comes meanwhile waits.
      WorkManager.getInstance(app).enqueueUniqueWork("train", ExistingWorkPolicy.APPEND_OR_REPLACE, request)
    }
  }
}
