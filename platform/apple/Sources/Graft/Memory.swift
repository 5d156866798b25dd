// Bytes, known before anything runs.
import CGraft

/// Bytes by class of memory.
public struct Memory: Sendable {
  public let weights, parameters, gradients, optimizer, activations, workspace, staging, stepState, total: UInt64

  init(_ m: graft_memory) {
    weights = m.weights
    parameters = m.parameters
    gradients = m.gradients
    optimizer = m.optimizer
    activations = m.activations
    workspace = m.workspace
    staging = m.staging
    stepState = m.step_state
    total = m.total
  }

  static func of(_ context: Context, _ read: (inout graft_memory) -> graft_status) throws -> Memory {
    var m = graft_memory()
    m.struct_size = MemoryLayout<graft_memory>.stride
    try context.call { read(&m) }
    return Memory(m)
  }
}

/// What a trainer would take and do, known without making it.
public struct Forecast: Sendable {
  public let weights, parameters, gradients, optimizer, activations, workspace, staging, stepState: UInt64
  /// Device and staging memory in bytes: what making the trainer allocates.
  public let total: UInt64
  /// Of one micro-batch, forward and backward; those of results that are computed again to keep to the budget.
  public let flops, extraFlops: UInt64
  /// Samples on the device at once.
  public let microBatch: Int
  /// Results that are computed again.
  public let recomputed: Int
  /// What was chosen to keep to the budget and why, a sentence a line.
  public let explanation: String

  init(_ f: graft_forecast) {
    weights = f.weights
    parameters = f.parameters
    gradients = f.gradients
    optimizer = f.optimizer
    activations = f.activations
    workspace = f.workspace
    staging = f.staging
    stepState = f.step_state
    total = f.total
    flops = f.flops
    extraFlops = f.extra_flops
    microBatch = Int(f.micro_batch)
    recomputed = Int(f.recomputed)
    explanation = f.explanation.map { String(cString: $0) } ?? ""
  }
}
