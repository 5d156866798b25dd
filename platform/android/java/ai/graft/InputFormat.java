package ai.graft;

import androidx.annotation.NonNull;

/**
 * How an F32 input is given: bytes of images, or halves, which the device turns into numbers. Pixels of 0 to 255 that PyTorch
 * normalises by mean and std have scale 1 / (255 * std) and offset -mean / std.
 */
public final class InputFormat extends Options {
  @NonNull public final Element element;
  /** [N, H, W, C] where the model takes [N, C, H, W]. */
  public boolean channelsLast;
  /** The model gets x * scale + offset: none, one number, or one for each channel, at most four. */
  @NonNull public float[] scale = {};
  @NonNull public float[] offset = {};

  public InputFormat(@NonNull Element element) {
    this.element = element;
  }

  /** Behind its name. */
  @Override
  void pack(Out out) {
    out.choice("element", element).flag(channelsLast).array(scale).array(offset);
  }
}
