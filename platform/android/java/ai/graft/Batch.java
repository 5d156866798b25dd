package ai.graft;

import androidx.annotation.NonNull;
import java.util.ArrayList;
import java.util.List;

/**
 * Samples of one step: the model's inputs in order, and the target. Each is a float[], an int[], or a direct buffer in
 * native order, whose bytes from position to limit are read without a copy on the way. The arrays are not copied here:
 * they may be filled again for the next step.
 */
public final class Batch {
  private final int samples;
  private final List<Object> inputs = new ArrayList<>();
  private Object target;

  public Batch(int samples) {
    this.samples = samples;
  }

  /** One input, samples times its size per sample. */
  @NonNull
  public Batch input(@NonNull Object data) {
    inputs.add(data);
    return this;
  }

  /** Labels as ints for cross entropy, else floats. Left out where the loss has no target. */
  @NonNull
  public Batch target(@NonNull Object data) {
    target = data;
    return this;
  }

  int samples() {
    return samples;
  }

  /** The inputs and then the target, as `parts` (of one sample) says that they must be. */
  Block[] blocks(TensorInfo[] parts) {
    boolean alone = target == null && inputs.size() == parts.length;
    int wanted = alone ? parts.length : parts.length - 1;
    if (inputs.size() != wanted) {
      throw new GraftException.InvalidArgument(
          "The model has " + wanted + " inputs; " + inputs.size() + " were given.");
    }
    if (samples <= 0) throw new GraftException.InvalidArgument("There must be at least one sample.");
    Block[] blocks = new Block[wanted + 1];  // the last stays null where there is no target
    for (int i = 0; i < parts.length; i++) {
      blocks[i] = Block.of(i < wanted ? inputs.get(i) : target, parts[i].name);
      blocks[i].check(parts[i], samples);
    }
    return blocks;
  }

  static Block[] inputs(Block[] blocks) {
    return java.util.Arrays.copyOf(blocks, blocks.length - 1);
  }

  static Block target(Block[] blocks) {
    return blocks[blocks.length - 1];
  }
}
