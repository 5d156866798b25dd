package ai.graft;

/** How the device keeps intermediate results and frozen weights; in the order of graft_precision. */
public enum Precision { F32, F16, BF16 }
