// What a model does and takes, before anything runs; whether files, kernels and devices are sound.
import CGraft
import Foundation

/// A node of a model's graph.
public struct Layer: Sendable {
  public let name, op: String
  /// Of its first output, with names of dimensions, as in "[batch, 10]".
  public let shape: String
  /// Elements that are trained; bytes of weights; forward, with the sizes.
  public let parameters, bytes, flops: UInt64
}

/// What a session or a trainer would do.
public struct Plan: Sendable {
  /// What runs; fused nodes as one.
  public struct Node: Sendable {
    public let name, op: String
    /// It serves a forward node; it repeats one.
    public let isBackward, isRecomputed: Bool
    /// Bytes read and written, of workspace, and of results that are in memory while it runs.
    public let flops, bytes, scratchBytes, liveBytes: UInt64
    public let dispatches: Int
  }

  /// A value, and where in memory it lies while which nodes run.
  public struct Value: Sendable {
    public let name: String
    /// "weights", "activations", ... as the members of `Memory`.
    public let memoryClass: String
    /// In memory of its kind.
    public let offset, bytes: UInt64
    /// The node that needs it first and last; the number of nodes where it is kept to the end.
    public let first, last: Int
    /// It outlives the forward pass for the backward pass.
    public let isSaved: Bool
  }

  /// One choice between memory and work: some results are computed again in the backward pass.
  public struct Point: Sendable {
    /// Of the whole run, at least; and read and written.
    public let bytes, extraFlops, extraBytes: UInt64
    public let recomputed: Int
  }

  public let forecast: Forecast
  /// In the order in which they run.
  public let nodes: [Node]
  public let values: [Value]
  /// By falling memory, where it was asked for.
  public let curve: [Point]

  init(_ plan: OpaquePointer, curve wanted: Bool) {
    var f = graft_forecast()
    f.struct_size = MemoryLayout<graft_forecast>.stride
    _ = graft_plan_forecast(plan, &f)
    forecast = Forecast(f)
    nodes = (0..<graft_plan_node_count(plan)).compactMap { index in
      var n = graft_plan_node()
      n.struct_size = MemoryLayout<graft_plan_node>.stride
      guard graft_plan_node_at(plan, index, &n) == GRAFT_OK else { return nil }
      return Node(
        name: String(cString: n.name), op: String(cString: n.op), isBackward: n.backward != 0,
        isRecomputed: n.recomputed != 0, flops: n.flops, bytes: n.bytes, scratchBytes: n.scratch_bytes,
        liveBytes: n.live_bytes, dispatches: Int(n.dispatches))
    }
    values = (0..<graft_plan_value_count(plan)).compactMap { index in
      var v = graft_plan_value()
      v.struct_size = MemoryLayout<graft_plan_value>.stride
      guard graft_plan_value_at(plan, index, &v) == GRAFT_OK else { return nil }
      return Value(
        name: String(cString: v.name), memoryClass: String(cString: v.memory_class), offset: v.offset, bytes: v.bytes,
        first: Int(v.first), last: Int(v.last), isSaved: v.saved != 0)
    }
    var points: UnsafePointer<graft_plan_point>?
    var count = 0
    if wanted { _ = graft_plan_curve(plan, &points, &count) }
    curve = UnsafeBufferPointer(start: points, count: count).map { (p: graft_plan_point) in
      Point(bytes: p.bytes, extraFlops: p.extra_flops, extraBytes: p.extra_bytes, recomputed: Int(p.recomputed))
    }
  }
}

/// Bytes of a weight that are not what the file's checksums say.
public struct Damage: Sendable {
  public let weight: String
  /// In the file.
  public let firstByte, lastByte: UInt64
}

/// What became of one node that was compared with double precision.
public struct NodeVerdict: Sendable {
  public let node, op: String
  /// Largest difference over the outputs' root mean square, and of gradients; nil: the op has none.
  public let forward: Double
  public let gradient: Double?
  /// Why it could not be compared; "" where it was.
  public let failure: String
  public let passed: Bool
}

extension Model {
  /// In the order of the graph; dimensions without a size have the model's own, else 1.
  public func layers(sizes: [String: Int] = [:]) throws -> [Layer] {
    try context.whole {
      var all: UnsafePointer<graft_layer>?
      var count = 0
      try context.call {
        Arena.use { arena in
          let (list, size) = bindings(sizes, arena)
          return graft_model_layers(pointer, list, size, &all, &count)
        }
      }
      return UnsafeBufferPointer(start: all, count: count).map { (l: graft_layer) in
        Layer(
          name: String(cString: l.name), op: String(cString: l.op), shape: String(cString: l.shape),
          parameters: l.parameters, bytes: l.bytes, flops: l.flops)
      }
    }
  }

  /// What a session would do on the context's device, or on one of another kind (`caps`, as in "adreno-7xx").
  public func plan(_ options: Session.Options = .init(), caps: String? = nil) throws -> Plan {
    try plan(caps, false) { (o: inout graft_plan_options, arena: Arena, body: (inout graft_plan_options) -> graft_status) in
      var session = options.filled(arena)
      return withUnsafePointer(to: &session) {
        o.session = $0
        return body(&o)
      }
    }
  }

  /// What a trainer would do; `curve`: also memory against work.
  public func plan(training: Trainer.Options, caps: String? = nil, curve: Bool = false) throws -> Plan {
    try plan(caps, curve) { (o: inout graft_plan_options, _: Arena, body: (inout graft_plan_options) -> graft_status) in
      try training.use { raw in
        withUnsafePointer(to: raw) {
          o.training = $0
          return body(&o)
        }
      }
    }
  }

  private func plan(
    _ caps: String?, _ curve: Bool,
    _ with: (inout graft_plan_options, Arena, (inout graft_plan_options) -> graft_status) throws -> graft_status
  ) throws -> Plan {
    try context.whole {
      var made: OpaquePointer?
      try context.call {
        try Arena.use { arena in
          var o = graft_plan_options()
          o.struct_size = MemoryLayout<graft_plan_options>.stride
          graft_plan_options_init(&o)
          o.caps = arena.string(caps)
          o.curve = curve ? 1 : 0
          return try with(&o, arena) { graft_plan_create(pointer, &$0, &made) }
        }
      }
      defer { graft_plan_destroy(made) }
      return Plan(made!, curve: curve)
    }
  }

  /// Reads all weights of the file; what is not as its checksums say. It needs no device.
  public func findDamage() throws -> [Damage] {
    try context.whole {
      var found: UnsafePointer<graft_damage>?
      var count = 0
      try context.call { graft_model_find_damage(pointer, &found, &count) }
      return UnsafeBufferPointer(start: found, count: count).map { (d: graft_damage) in
        Damage(weight: String(cString: d.weight), firstByte: d.first_byte, lastByte: d.last_byte)
      }
    }
  }

  /// Runs the model in double precision on random inputs, and each node on the device, forward and backward.
  public func verify(sizes: [String: Int] = [:], seed: UInt64 = 1, tolerance: Double = 1e-4) throws -> [NodeVerdict] {
    final class Verdicts { var all: [NodeVerdict] = [] }
    let verdicts = Verdicts()
    do {
      try context.call {
        Arena.use { arena in
          var o = graft_verify_options()
          o.struct_size = MemoryLayout<graft_verify_options>.stride
          graft_verify_options_init(&o)
          (o.bindings, o.binding_count) = bindings(sizes, arena)
          o.seed = seed
          o.tolerance = tolerance
          return graft_model_verify(
            pointer, &o,
            { user, verdict in
              let v: graft_node_verdict = verdict!.pointee
              Unmanaged<Verdicts>.fromOpaque(user!).takeUnretainedValue().all.append(
                NodeVerdict(
                  node: String(cString: v.node), op: String(cString: v.op), forward: v.forward,
                  gradient: v.gradient < 0 ? nil : v.gradient, failure: String(cString: v.failure),
                  passed: v.passed != 0))
              return 0
            }, Unmanaged.passUnretained(verdicts).toOpaque(), nil, nil)
        }
      }
    } catch let error as GraftError where error.kind == .deviceError && !verdicts.all.isEmpty {
      // Some differ: the verdicts say which.
    }
    return withExtendedLifetime(verdicts) { verdicts.all }
  }
}

/// What a kernel did with a known answer.
public struct KernelVerdict: Sendable {
  /// `untested`: no probe uses it on this device.
  public enum Kind: UInt32, Sendable { case passed, failed, untested }
  public let kernel: String
  public let kind: Kind
  /// What was wrong, "" where nothing was.
  public let why: String
}

/// A device that can run graft.
public struct Device: Sendable {
  public enum Kind: UInt32, Sendable { case other, integrated, discrete, virtual, cpu }

  /// A fault of a driver that graft works around.
  public struct Quirk: Sendable {
    public let name, action, reason, link: String
  }

  public let name, driver, driverInfo: String
  public let kind: Kind
  public let vendorID, deviceID: UInt32
  /// Of Vulkan: major, minor, patch.
  public let apiVersion: [UInt32]
  /// Bytes of all heaps of the device, and of the one that plans live in.
  public let memory, largestHeap: UInt64
  /// Shared with the host.
  public let hasUnifiedMemory, hasTimestamps: Bool
  public let features: [String: Bool]
  /// Of workgroups by axis.
  public let limits: [String: [UInt64]]
  /// "matrices of f16 16x16x16"
  public let matrices: [String]
  public let quirks: [Quirk]

  /// The devices that can run graft, in the loader's order; none of them is opened. `vulkanLibrary`: instead of the
  /// system's.
  public static func all(vulkanLibrary: String? = nil) throws -> [Device] {
    try Arena.use { arena in
      var o = graft_context_options()
      o.struct_size = MemoryLayout<graft_context_options>.stride
      graft_context_options_init(&o)
      o.vulkan_library = arena.string(vulkanLibrary)
      var found: OpaquePointer?
      let status = graft_devices_find(&o, &found)
      guard let found else { throw GraftError(.outOfMemory, "There is no memory for a list of devices.") }
      defer { graft_devices_destroy(found) }
      if status != GRAFT_OK { throw GraftError(status, String(cString: graft_devices_message(found))) }
      return (0..<graft_devices_count(found)).compactMap { Device(found, $0) }
    }
  }

  private init?(_ devices: OpaquePointer, _ index: Int) {
    var i = graft_device_info()
    i.struct_size = MemoryLayout<graft_device_info>.stride
    guard graft_devices_info(devices, index, &i) == GRAFT_OK else { return nil }
    name = String(cString: i.name)
    driver = String(cString: i.driver)
    driverInfo = String(cString: i.driver_info)
    kind = Kind(rawValue: UInt32(i.type.rawValue)) ?? .other
    vendorID = i.vendor_id
    deviceID = i.device_id
    apiVersion = [i.api_version.0, i.api_version.1, i.api_version.2]
    memory = i.memory
    largestHeap = i.largest_heap
    hasUnifiedMemory = i.unified_memory != 0
    hasTimestamps = i.timestamps != 0
    var features: [String: Bool] = [:], limits: [String: [UInt64]] = [:], matrices: [String] = []
    var f = graft_device_fact()
    f.struct_size = MemoryLayout<graft_device_fact>.stride
    var at = 0
    while graft_devices_fact(devices, index, at, &f) == GRAFT_OK {
      let name = String(cString: f.name)
      if let text = f.text {
        matrices.append(String(cString: text))
      } else if f.is_feature != 0 {
        features[name] = f.values.0 != 0
      } else {
        limits[name] = Array([f.values.0, f.values.1, f.values.2].prefix(Int(f.value_count)))
      }
      at += 1
    }
    self.features = features
    self.limits = limits
    self.matrices = matrices
    var quirks: [Quirk] = []
    var q = graft_device_quirk()
    q.struct_size = MemoryLayout<graft_device_quirk>.stride
    while graft_devices_quirk(devices, index, quirks.count, &q) == GRAFT_OK {
      quirks.append(
        Quirk(
          name: String(cString: q.name), action: String(cString: q.action), reason: String(cString: q.reason),
          link: String(cString: q.link)))
    }
    self.quirks = quirks
  }
}

extension Context {
  /// Runs every kernel that this device may choose against a known answer; a minute on software Vulkan.
  public func selfTest() throws -> [KernelVerdict] { try kernels { graft_context_self_test(pointer, $0, $1) } }

  /// What a context with a cache knows of them so far, without a test.
  public func knownKernels() throws -> [KernelVerdict] {
    try kernels { graft_context_known_kernels(pointer, $0, $1) }
  }

  private func kernels(
    _ body: (graft_kernel_report?, UnsafeMutableRawPointer?) -> graft_status
  ) throws -> [KernelVerdict] {
    final class Verdicts { var all: [KernelVerdict] = [] }
    let verdicts = Verdicts()
    try call {
      body(
        { user, kernel, verdict, why in
          Unmanaged<Verdicts>.fromOpaque(user!).takeUnretainedValue().all.append(
            KernelVerdict(
              kernel: String(cString: kernel!), kind: .init(rawValue: UInt32(verdict.rawValue)) ?? .untested,
              why: String(cString: why!)))
        }, Unmanaged.passUnretained(verdicts).toOpaque())
    }
    return withExtendedLifetime(verdicts) { verdicts.all }
  }
}
