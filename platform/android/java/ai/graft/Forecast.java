package ai.graft;

import androidx.annotation.NonNull;

/** What a trainer would take and do, known without making it. */
public final class Forecast extends Shown {
  @NonNull public final Memory memory;
  /** Of one micro-batch, forward and backward, extraFlops included. */
  public final long flops;
  /** Of results that are computed again to keep to the budget. */
  public final long extraFlops;
  /** Samples on the device at once. */
  public final int microBatch;
  /** Results that are computed again. */
  public final int recomputed;
  /** What was chosen to keep to the budget and why, a sentence a line; "" without a budget. */
  @NonNull public final String explanation;

  /** Called from JNI; `numbers` are graft_forecast's, in its order. */
  Forecast(long[] numbers, String explanation) {
    memory = new Memory(numbers);
    flops = numbers[9];
    extraFlops = numbers[10];
    microBatch = (int) numbers[11];
    recomputed = (int) numbers[12];
    this.explanation = explanation;
  }
}
