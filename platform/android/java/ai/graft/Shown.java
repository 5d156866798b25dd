package ai.graft;

import java.lang.reflect.Array;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;

/** Values and options, whose text is the name of the class and the public fields: "Layer(name=fc1, op=linear, ...)". */
abstract class Shown {
  private static final int MOST = 16;  // elements of an array

  @Override
  public String toString() {
    StringBuilder text = new StringBuilder(getClass().getSimpleName()).append('(');
    String before = "";
    for (Field field : getClass().getFields()) {
      if (Modifier.isStatic(field.getModifiers())) continue;
      text.append(before).append(field.getName()).append('=');
      before = ", ";
      try {
        append(text, field.get(this));
      } catch (IllegalAccessException e) {  // they are public
        text.append('?');
      }
    }
    return text.append(')').toString();
  }

  private static void append(StringBuilder text, Object value) {
    if (value == null || !value.getClass().isArray()) {
      text.append(value);
      return;
    }
    int count = Array.getLength(value);
    text.append('[');
    for (int i = 0; i < Math.min(count, MOST); i++) {
      if (i > 0) text.append(", ");
      append(text, Array.get(value, i));
    }
    text.append(count > MOST ? ", ... " + count + " in all]" : "]");
  }
}
