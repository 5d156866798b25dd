package ai.graft;

/** Which tokens' vectors stand for a text; in the order of graft_pooling. DEFAULT: as the model's file says, else the mean. */
public enum Pooling { DEFAULT, MEAN, LAST, CLS }
