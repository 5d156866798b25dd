// What a model gives on a data set, how two models differ, and what a run makes of it.
import CGraft
import Foundation

/// What a model gave on a data set: `Model.evaluation` and `Trainer.evaluation`. Tasks and threads: see `Context`.
public final class Evaluation: @unchecked Sendable {
  /// What is asked for.
  public struct Options: Sendable {
    /// Beside the loss: `Evaluation.metricNames` has them.
    public var metrics: [String] = []
    /// The confusion matrix, of a loss of labels.
    public var confusion = false
    /// What is said of each sample is kept, for `compare`.
    public var outcomes = false
    public init() {}

    func use<R>(
      _ training: UnsafePointer<graft_trainer_options>?, _ body: (inout graft_evaluation_options) -> R
    ) -> R {
      Arena.use { arena in
        var o = graft_evaluation_options()
        o.struct_size = MemoryLayout<graft_evaluation_options>.stride
        o.metrics = metrics.isEmpty ? nil : arena.string(metrics.joined(separator: ","))
        o.confusion = confusion ? 1 : 0
        o.outcomes = outcomes ? 1 : 0
        o.training = training
        return body(&o)
      }
    }
  }

  /// Means over all samples; NaN where one has no meaning.
  public struct Totals: Sendable {
    public let samples: UInt64
    public let loss, accuracy, top5, perplexity: Double
  }

  /// One metric.
  public struct Metric: Sendable {
    public let name: String
    /// NaN where it is not defined.
    public let value: Double
    /// Of precision, recall, f1, iou and auroc; NaN for classes that do not occur.
    public let byClass: [Double]
  }

  /// One class in a comparison.
  public struct ClassChange: Sendable {
    public let label: Int32
    public let rows, oldRight, newRight: UInt64
  }

  /// How two models differ on the same data. A row is one label or number of a sample.
  public struct Comparison: Sendable {
    public let samples, rows: UInt64
    /// Of a regression, samples that one is closer to count as right for it alone.
    public let bothRight, onlyOld, onlyNew, neither: UInt64
    /// McNemar's test, of a regression a sign test; of the binomial distribution, or of chi-squared.
    public let pValue: Double
    public let isExact: Bool
    /// Samples of which another class is predicted, those with a row that only the old one has right, and the other way
    /// round.
    public let changed, lost, gained: [UInt64]
    public let classes: [ClassChange]
  }

  private let context: Context
  let pointer: OpaquePointer

  init(_ context: Context, _ make: (inout OpaquePointer?) throws -> graft_status) throws {
    self.context = context
    var made: OpaquePointer?
    try context.call { try make(&made) }
    pointer = made!
  }

  /// The names of metrics that there are, for sentences.
  public static var metricNames: String { String(cString: graft_metric_names()) }

  public var totals: Totals {
    context.whole {
      var t = graft_totals()
      t.struct_size = MemoryLayout<graft_totals>.stride
      _ = graft_evaluation_totals(pointer, &t)
      return Totals(
        samples: t.samples, loss: t.loss, accuracy: t.accuracy, top5: t.top5, perplexity: t.perplexity)
    }
  }

  /// In the order asked for.
  public var metrics: [Metric] {
    context.whole {
      (0..<graft_evaluation_count(pointer)).compactMap { index in
        var m = graft_metric_value()
        m.struct_size = MemoryLayout<graft_metric_value>.stride
        guard graft_evaluation_metric(pointer, index, &m) == GRAFT_OK else { return nil }
        return Metric(
          name: String(cString: m.name), value: m.value,
          byClass: Array(UnsafeBufferPointer(start: m.by_class, count: m.by_class == nil ? 0 : m.class_count)))
      }
    }
  }

  /// Rows are what samples are, columns what they were taken for; empty unless asked for.
  public var confusion: [[UInt64]] {
    context.whole {
      var counts: UnsafePointer<UInt64>?
      var classes = 0
      guard graft_evaluation_confusion(pointer, &counts, &classes) == GRAFT_OK, let counts else { return [] }
      return (0..<classes).map { Array(UnsafeBufferPointer(start: counts + $0 * classes, count: classes)) }
    }
  }

  /// What the labels stand for, as the data or else the model says; empty where nobody says.
  public var classes: [String] { context.whole { texts { graft_evaluation_class(pointer, $0) } } }

  /// How this one differs from an older one of the same data; both made with `outcomes`.
  public func compare(with before: Evaluation) throws -> Comparison {
    try context.whole {
      var c = graft_comparison()
      c.struct_size = MemoryLayout<graft_comparison>.stride
      try context.call { graft_evaluations_compare(before.pointer, pointer, &c) }
      return Comparison(
        samples: c.samples, rows: c.rows, bothRight: c.both_right, onlyOld: c.only_old, onlyNew: c.only_new,
        neither: c.neither, pValue: c.p_value, isExact: c.exact != 0,
        changed: Array(UnsafeBufferPointer(start: c.changed, count: c.changed_count)),
        lost: Array(UnsafeBufferPointer(start: c.lost, count: c.lost_count)),
        gained: Array(UnsafeBufferPointer(start: c.gained, count: c.gained_count)),
        classes: UnsafeBufferPointer(start: c.classes, count: c.class_count).map { (k: graft_class_change) in
          ClassChange(label: k.label, rows: k.rows, oldRight: k.old_right, newRight: k.new_right)
        })
    }
  }

  deinit { context.whole { graft_evaluation_destroy(pointer) } }
}

/// What evaluations are watched for; each metric is "loss", "accuracy" or one that the evaluation was asked for.
public struct WatchOptions: Sendable {
  /// With the plateau schedule: the rate falls by `factor` where this gets no better for `patience` evaluations.
  public var plateau: String?
  public var patience: UInt64 = 10
  public var factor = 0.1
  /// The verdict is to stop where this gets no better for `stopPatience` evaluations in a row.
  public var earlyStop: String?
  public var stopPatience: UInt64 = 1
  /// By how much better counts.
  public var minDelta = 0.0
  /// The verdict says whether this is the best so far.
  public var best: String?
  public init() {}
}

/// What became of an evaluation.
public struct Verdict: Sendable {
  public let stop, best: Bool
  /// The learning rate fell.
  public let slower: Bool
  public let learningRate: Double
}

/// What new weights are held against.
public struct GateOptions: Sendable {
  /// "accuracy>=0.9,loss<=0.5": all must hold.
  public var conditions: String
  /// By how much each of these metrics may be worse than the old model's.
  public var margin = 0.0
  /// The loss, the batch, sizes, the precision.
  public var training = Trainer.Options()

  public init(_ conditions: String) { self.conditions = conditions }
}

/// What the gate found.
public struct GateResult: Sendable {
  public let passed: Bool
  /// A sentence where it did not pass, else "".
  public let reason: String
  /// The first metric of the new model, and of the old one; nil without one.
  public let now: Double
  public let before: Double?
  /// McNemar's test, of a regression a sign test; 1 without an old model.
  public let pValue: Double
  /// Samples of which another class is predicted, those that only the old model has right, and the other way round.
  public let changed, lost, gained: [UInt64]
}

extension Model {
  /// Of these weights, on all samples of a set that has no loader; `training`: the loss, the batch, sizes, the precision.
  public func evaluation(
    _ data: DataSet, _ options: Evaluation.Options = .init(), training: Trainer.Options = .init()
  ) throws -> Evaluation {
    try Evaluation(context) { made in
      try training.use { raw in
        withUnsafePointer(to: raw) { raw in
          options.use(raw) { graft_evaluate_model(pointer, data.pointer, &$0, &made) }
        }
      }
    }
  }

  /// Whether this model may replace an old one. With a file it is then saved: there where it passed, else beside it with
  /// ".rejected" before the ending. Not while a loader reads the data.
  public func gate(_ data: DataSet, _ options: GateOptions, old: Model? = nil, saveTo file: URL? = nil) throws -> GateResult {
    try context.whole {
      var r = graft_gate_result()
      r.struct_size = MemoryLayout<graft_gate_result>.stride
      try context.call {
        try options.training.use { raw in
          withUnsafePointer(to: raw) { raw in
            Arena.use { arena in
              var o = graft_gate_options()
              o.struct_size = MemoryLayout<graft_gate_options>.stride
              o.conditions = arena.string(options.conditions)
              o.margin = options.margin
              o.training = raw
              return graft_gate(pointer, old?.pointer, data.pointer, &o, arena.string(file?.path), &r)
            }
          }
        }
      }
      return GateResult(
        passed: r.passed != 0, reason: String(cString: r.reason), now: r.now, before: r.before.isNaN ? nil : r.before,
        pValue: r.p_value, changed: Array(UnsafeBufferPointer(start: r.changed, count: r.changed_count)),
        lost: Array(UnsafeBufferPointer(start: r.lost, count: r.lost_count)),
        gained: Array(UnsafeBufferPointer(start: r.gained, count: r.gained_count)))
    }
  }
}

extension Trainer {
  /// Of the weights as they are now, or of their running means. More than the loss and the accuracy needs
  /// `Options.predictions`.
  public func evaluation(_ data: DataSet, _ options: Evaluation.Options = .init()) throws -> Evaluation {
    try Evaluation(model.context) { made in
      options.use(nil) { graft_evaluate_trainer(pointer, data.pointer, &$0, &made) }
    }
  }

  /// Notes an evaluation of the weights as they are now, which becomes part of the run's state. Between two steps.
  public func observe(_ evaluation: Evaluation, _ options: WatchOptions) throws -> Verdict {
    var v = graft_verdict()
    v.struct_size = MemoryLayout<graft_verdict>.stride
    try model.context.call {
      Arena.use { arena in
        var o = graft_watch_options()
        o.struct_size = MemoryLayout<graft_watch_options>.stride
        graft_watch_options_init(&o)
        o.plateau = arena.string(options.plateau)
        o.patience = options.patience
        o.factor = options.factor
        o.early_stop = arena.string(options.earlyStop)
        o.stop_patience = options.stopPatience
        o.min_delta = options.minDelta
        o.best = arena.string(options.best)
        return graft_trainer_observe(pointer, evaluation.pointer, &o, &v)
      }
    }
    return Verdict(stop: v.stop != 0, best: v.best != 0, slower: v.slower != 0, learningRate: v.learning_rate)
  }
}
