package ai.graft;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What options hold in lists, maps and other objects, as JNI reads it. */
final class Lists {
  private static final String[] NONE = {};

  String[] dimensions = NONE;
  double[] sizes = {};
  /** Of a session. */
  String[] wrt = NONE;
  String[] fetched = NONE;
  /** Of a trainer, separated by commas. */
  String fetch;
  String freeze;
  String adamwFor;
  String[] formats = NONE;
  int[] elements = {};
  int[] channelsLast = {};
  double[] scales = {};
  int[] scaleCounts = {};
  double[] offsets = {};
  int[] offsetCounts = {};
  String[] patterns = NONE;
  double[] rateScales = {};
  double[] decays = {};
  String[] stop = NONE;
  int[] biased = {};
  double[] biases = {};
  /** Native objects; 0: none. */
  long data;
  long teacher;

  Lists(Map<String, Long> bindings) {
    dimensions = Names.of(bindings);
    sizes = new double[dimensions.length];
    int i = 0;
    for (long size : bindings.values()) sizes[i++] = size;
  }

  /** Inside the gate. */
  static Lists of(TrainerOptions options, Owner model) {
    Lists lists = new Lists(options.bindings);
    lists.fetch = joined(options.fetch);
    lists.freeze = joined(options.freeze);
    lists.adamwFor = joined(options.adamwFor);
    lists.take(options.inputs);
    int groups = options.groups.size();
    lists.patterns = new String[groups];
    lists.rateScales = new double[groups];
    lists.decays = new double[groups];
    for (int i = 0; i < groups; i++) {
      ParameterGroup group = options.groups.get(i);
      lists.patterns[i] = group.pattern;
      lists.rateScales[i] = group.learningRateScale;
      lists.decays[i] = group.weightDecay;
    }
    if (options.data != null) lists.data = options.data.own.given(model);
    if (options.teacher != null) lists.teacher = options.teacher.own.given(model);
    return lists;
  }

  static Lists of(Session.Options options) {
    Lists lists = new Lists(options.bindings);
    lists.wrt = Names.of(options.wrt);
    lists.fetched = Names.of(options.fetch);
    lists.take(options.formats);
    return lists;
  }

  static Lists of(Generator.Sampling sampling) {
    Lists lists = new Lists(java.util.Collections.emptyMap());
    lists.stop = Names.of(sampling.stop);
    lists.biased = new int[sampling.logitBias.size()];
    lists.biases = new double[sampling.logitBias.size()];
    int i = 0;
    for (Map.Entry<Integer, Float> bias : sampling.logitBias.entrySet()) {
      lists.biased[i] = bias.getKey();
      lists.biases[i++] = bias.getValue();
    }
    return lists;
  }

  private static String joined(List<String> names) {
    return names.isEmpty() ? null : String.join(",", names);
  }

  private void take(Map<String, InputFormat> inputs) {
    int count = inputs.size();
    formats = Names.of(inputs);
    elements = new int[count];
    channelsLast = new int[count];
    scaleCounts = new int[count];
    offsetCounts = new int[count];
    List<Float> allScales = new ArrayList<>();
    List<Float> allOffsets = new ArrayList<>();
    int i = 0;
    for (InputFormat format : inputs.values()) {
      elements[i] = format.element.ordinal();
      channelsLast[i] = format.channelsLast ? 1 : 0;
      scaleCounts[i] = format.scale.length;
      offsetCounts[i++] = format.offset.length;
      for (float scale : format.scale) allScales.add(scale);
      for (float offset : format.offset) allOffsets.add(offset);
    }
    scales = allScales.stream().mapToDouble(Float::doubleValue).toArray();
    offsets = allOffsets.stream().mapToDouble(Float::doubleValue).toArray();
  }
}
