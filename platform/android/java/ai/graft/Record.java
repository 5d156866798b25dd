package ai.graft;

/** What a struct of C holds: numbers, fractions and texts, each kind read in the order in which JNI put them. */
final class Record {
  private final long[] numbers;
  private final double[] reals;
  private final String[] texts;
  private int number;
  private int real;
  private int text;

  /** Called from JNI. */
  Record(long[] numbers, double[] reals, String[] texts) {
    this.numbers = numbers;
    this.reals = reals;
    this.texts = texts;
  }

  long number() {
    return numbers[number++];
  }

  int count() {
    return (int) number();
  }

  boolean flag() {
    return number() != 0;
  }

  double real() {
    return reals[real++];
  }

  String text() {
    return texts[text++];
  }

  /** All numbers that are left. */
  long[] rest() {
    long[] out = java.util.Arrays.copyOfRange(numbers, number, numbers.length);
    number = numbers.length;
    return out;
  }

  double[] restOfReals() {
    return java.util.Arrays.copyOfRange(reals, real, reals.length);
  }

  boolean hasText() {
    return text < texts.length;
  }
}
