// A device, and how calls reach it.
import CGraft
import Foundation

public enum LogLevel: UInt32, Sendable { case debug, info, warning, error }

/// What products of f32 values may become, in the words of torch.set_float32_matmul_precision.
public enum MatmulPrecision: UInt32, Sendable { case highest, high, medium }

/// Of the device's work among that of all programs, where the driver lets programs choose.
public enum Priority: UInt32, Sendable { case medium, low, high }

/// How values on the way and weights that are not trained are kept on the device.
public enum Precision: UInt32, Sendable { case float32, float16, bfloat16 }

/// When a file's weights are compared with its checksums.
public enum WeightCheck: UInt32, Sendable { case onUse, atOnce, never }

/// What a call is at, and what is counted there.
public enum Stage: UInt32, Sendable { case kernels, samples, prompt, answer, plan }

/// A device. Any thread and any task may use a context and what was made from it: one call runs at a time, others wait.
/// Contexts are independent of each other. Whatever was made from a context keeps it.
///
/// Calls block for as long as the device works. `Session.run()`, `Trainer.step()` and `Generator.pieces()` have forms
/// that suspend instead; `perform` makes one of any other call.
public final class Context: @unchecked Sendable {
  /// What is not set has graft's default.
  public struct Options: Sendable {
    /// Index or part of the name of the Vulkan device; nil: the best; "none": none, such a context forecasts.
    public var device: String?
    /// Loader or driver instead of the system's: MoltenVK's own library, say.
    public var vulkanLibrary: String?
    /// vkGetInstanceProcAddr of a Vulkan that is linked in, as MoltenVK may be on iOS; no library is looked for then.
    public var vulkanGetInstanceProcAddr: (@convention(c) () -> Void)?
    /// File for compiled pipelines; nil: none. `cache` does that and more.
    public var pipelineCache: String?
    /// A folder where graft remembers compiled pipelines and which kernels gave right answers on this device.
    public var cache: URL?
    /// With `cache`: kernels are used without a test; what is remembered of them still counts.
    public var skipsSelfTest = false
    /// May be called from graft's own threads; must not call graft.
    public var log: (@Sendable (LogLevel, String) -> Void)?
    public var logLevel = LogLevel.info
    public var matmulPrecision = MatmulPrecision.highest
    public var priority = Priority.medium
    public init() {}
  }

  private final class Log: Sendable {
    let write: @Sendable (LogLevel, String) -> Void
    init(_ write: @escaping @Sendable (LogLevel, String) -> Void) { self.write = write }
  }
  private final class Progress: Sendable {
    let report: @Sendable (Stage, UInt64, UInt64) -> Void
    init(_ report: @escaping @Sendable (Stage, UInt64, UInt64) -> Void) { self.report = report }
  }

  let pointer: OpaquePointer
  /// Held from a call to what it gave back, which is valid until the next call. A callback comes on the thread that
  /// holds it, and is told by graft that it must not call.
  private let lock = NSRecursiveLock()
  private let log: Log?
  private var progress: Progress?
  private let queue = DispatchQueue(label: "ai.graft.context")

  public init(_ options: Options = Options()) throws {
    log = options.log.map(Log.init)
    let keptLog = log
    var created: OpaquePointer?
    let status = Arena.use { arena -> graft_status in
      var o = graft_context_options()
      o.struct_size = MemoryLayout<graft_context_options>.stride
      graft_context_options_init(&o)
      o.device = arena.string(options.device)
      o.vulkan_library = arena.string(options.vulkanLibrary)
      o.pipeline_cache = arena.string(options.pipelineCache)
      if let keptLog {
        o.log_user = Unmanaged.passUnretained(keptLog).toOpaque()
        o.log = { user, level, message in
          let log = Unmanaged<Log>.fromOpaque(user!).takeUnretainedValue()
          log.write(LogLevel(rawValue: UInt32(level.rawValue)) ?? .info, String(cString: message!))
        }
      }
      o.log_level = graft_log_level(rawValue: .init(options.logLevel.rawValue))
      o.matmul_precision = graft_matmul_precision(rawValue: .init(options.matmulPrecision.rawValue))
      o.priority = graft_priority(rawValue: .init(options.priority.rawValue))
      o.vulkan_get_instance_proc_addr = options.vulkanGetInstanceProcAddr
      return graft_context_create(&o, &created)
    }
    guard let created else { throw GraftError(.outOfMemory, "There is no memory for a context.") }
    if status != GRAFT_OK {
      defer { graft_context_destroy(created) }
      throw GraftError(status, String(cString: graft_message(created)))
    }
    pointer = created
    if let cache = options.cache { try openCache(cache, options.skipsSelfTest) }
  }

  /// "0.1.0", of the library that is linked.
  public static var version: String { String(cString: graft_version()) }

  /// The device's name, as its driver gives it.
  public var deviceName: String { String(cString: graft_device_name(pointer)) }

  private func openCache(_ folder: URL, _ skipsSelfTest: Bool) throws {
    try call {
      folder.withUnsafeFileSystemRepresentation { path in
        var o = graft_cache_options()
        o.struct_size = MemoryLayout<graft_cache_options>.stride
        o.folder = path
        o.skip_self_test = skipsSelfTest ? 1 : 0
        return graft_context_open_cache(pointer, &o)
      }
    }
  }

  /// From any thread: the call in progress on this context, or else the next one that looks, fails with `.cancelled`
  /// before its next submission to the device. Exactly one call ends for it. Nothing has changed then; the same may be
  /// asked for again.
  public func cancel() { graft_cancel(pointer) }

  /// Withdraws a `cancel` that no call has ended for; from any thread.
  public func uncancel() { _ = graft_uncancel(pointer) }

  /// How much of the device calls take, from any thread and at any time. `slice`: milliseconds that it works at most
  /// before others get a turn, 0.5 to 60000, 0 for about 100. `duty`: the share of time in which it works, 0.01 to 1.
  /// No bit depends on it.
  public func setPace(slice: Double, duty: Double = 1) throws {
    if graft_set_pace(pointer, slice, duty) != GRAFT_OK {
      throw GraftError(.invalidArgument, "A slice is 0 or from 0.5 to 60000 ms, a duty from 0.01 to 1.")
    }
  }

  /// Told how far a call is, on that call's thread: so many of so many, or of 0 where it is not known. It must not call
  /// graft but for `cancel`. nil: nobody is told.
  public func onProgress(_ report: (@Sendable (Stage, UInt64, UInt64) -> Void)?) throws {
    let kept = report.map(Progress.init)
    try call {
      guard let kept else { return graft_set_progress(pointer, nil, nil) }
      return graft_set_progress(pointer, { user, stage, done, total in
        let progress = Unmanaged<Progress>.fromOpaque(user!).takeUnretainedValue()
        progress.report(Stage(rawValue: UInt32(stage.rawValue)) ?? .kernels, done, total)
      }, Unmanaged.passUnretained(kept).toOpaque())
    }
    progress = kept
  }

  /// Runs blocking calls on a thread beside the app's, in the order they are asked for. A task that is cancelled
  /// cancels the call that is under way on this context.
  public func perform<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
    try await cancellable {
      try await withCheckedThrowingContinuation { continuation in
        self.queue.async { continuation.resume(with: Result(catching: body)) }
      }
    }
  }

  /// CancellationError where the task was cancelled and the call therefore ended.
  func cancellable<T: Sendable>(_ body: @Sendable () async throws -> T) async throws -> T {
    try Task.checkCancellation()
    defer { if Task.isCancelled { uncancel() } }  // of a cancel that came when the call was done
    do {
      return try await withTaskCancellationHandler(operation: body) { self.cancel() }
    } catch let error as GraftError where error.kind == .cancelled && Task.isCancelled {
      throw CancellationError()
    }
  }

  /// A call that graft answers with a status.
  func call(_ body: () throws -> graft_status) throws {
    lock.lock()
    defer { lock.unlock() }
    let status = try body()
    if status != GRAFT_OK { throw GraftError(status, String(cString: graft_message(pointer))) }
  }

  /// Several calls, or one and what it gave back, before anybody else's.
  func whole<R>(_ body: () throws -> R) rethrows -> R {
    lock.lock()
    defer { lock.unlock() }
    return try body()
  }

  deinit { graft_context_destroy(pointer) }
}

/// What a session, trainer or generator was told of a call that it did not wait for.
final class Pending: @unchecked Sendable {
  private let continuation: CheckedContinuation<Void, any Error>
  private let keeps: [Any]

  /// `keeps`: what must live until the call is over.
  init(_ continuation: CheckedContinuation<Void, any Error>, keeps: [Any]) {
    self.continuation = continuation
    self.keeps = keeps
  }

  /// For graft_done.
  static let done: @convention(c) (UnsafeMutableRawPointer?, graft_status, UnsafePointer<CChar>?) -> Void = {
    user, status, message in
    let pending = Unmanaged<Pending>.fromOpaque(user!).takeRetainedValue()
    if status == GRAFT_OK {
      pending.continuation.resume()
    } else {
      pending.continuation.resume(throwing: GraftError(status, message.map { String(cString: $0) } ?? ""))
    }
  }

  /// Begins a call with the user pointer for `done`; where it does not begin, `done` is not told.
  static func begin(
    _ context: Context, keeps: [Any], _ body: @Sendable (UnsafeMutableRawPointer) -> graft_status
  ) async throws {
    nonisolated(unsafe) let kept = keeps
    try await context.cancellable {
      try await withCheckedThrowingContinuation { continuation in
        let pending = Unmanaged.passRetained(Pending(continuation, keeps: kept))
        do {
          try context.call { body(pending.toOpaque()) }
        } catch {
          pending.release()
          continuation.resume(throwing: error)
        }
      }
    }
  }
}
