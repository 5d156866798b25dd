package ai.graft;

import androidx.annotation.NonNull;
import java.util.Collections;
import java.util.List;

/** One tensor of a sample. */
public final class Field extends Options {
  /** What a part of a sample is for; in the order of graft_field.is_label. */
  public enum Role { INPUT, TARGET, WEIGHT }

  @NonNull public final String name;
  @NonNull public final Dtype type;
  /** Of one sample: without the batch. */
  @NonNull public final long[] shape;
  /** Inputs stand before targets, and these before a weight, one F32 of 0 or more. */
  @NonNull public final Role role;
  /** What the numbers of a label stand for; empty where nobody says. */
  @NonNull public final List<String> classes;

  public Field(@NonNull String name, @NonNull Dtype type, @NonNull Role role, @NonNull long... shape) {
    this(name, type, role, shape, Collections.emptyList());
  }

  private Field(String name, Dtype type, Role role, long[] shape, List<String> classes) {
    this.name = name;
    this.type = type;
    this.role = role;
    this.shape = shape.clone();
    this.classes = classes;
  }

  Field(In in, List<String> classes) {
    name = in.text();
    type = Dtype.values()[in.count()];
    shape = in.longs();
    role = Role.values()[in.count()];
    this.classes = classes;
  }

  @Override
  void pack(Out out) {
    out.text(name).number(type.ordinal()).array(shape).number(role.ordinal());
  }

  TensorInfo info() {
    return new TensorInfo(name, type, shape, new String[0]);
  }
}
