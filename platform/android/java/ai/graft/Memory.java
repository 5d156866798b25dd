package ai.graft;

/** Bytes of device and staging memory by class, known before anything runs. */
public final class Memory extends Shown {
  public final long weights;
  public final long parameters;
  public final long gradients;
  public final long optimizer;
  public final long activations;
  public final long workspace;
  public final long staging;
  public final long stepState;
  public final long total;

  /** In the order of graft_memory. */
  Memory(long[] bytes) {
    weights = bytes[0];
    parameters = bytes[1];
    gradients = bytes[2];
    optimizer = bytes[3];
    activations = bytes[4];
    workspace = bytes[5];
    staging = bytes[6];
    stepState = bytes[7];
    total = bytes[8];
  }
}
