// Options of parameters by their names.
import CGraft

/// Options of the parameters whose name matches: '*' stands for any characters, '?' for one.
public struct ParameterGroup: Sendable {
  public var pattern: String
  public var learningRateScale: Double
  /// nil: the trainer's.
  public var weightDecay: Double?

  public init(_ pattern: String, learningRateScale: Double = 1, weightDecay: Double? = nil) {
    self.pattern = pattern
    self.learningRateScale = learningRateScale
    self.weightDecay = weightDecay
  }
}

func parameterGroups(_ groups: [ParameterGroup], _ arena: Arena) -> (UnsafePointer<graft_parameter_group>?, Int) {
  let all = groups.map {
    graft_parameter_group(
      pattern: arena.string($0.pattern), learning_rate_scale: $0.learningRateScale,
      weight_decay: $0.weightDecay ?? -1)
  }
  return (arena.array(all), all.count)
}
