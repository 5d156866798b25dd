import Foundation
import Graft

struct Failure: Error, CustomStringConvertible {
  let description: String
}

func check(_ condition: Bool, _ what: String, line: Int = #line) throws {
  if !condition { throw Failure(description: "line \(line): \(what)") }
}

func equal<T: Equatable>(_ a: T, _ b: T, _ what: String, line: Int = #line) throws {
  if a != b { throw Failure(description: "line \(line): \(what): \(a) and \(b)") }
}

/// The kind of the error, whose sentence has `part` in it.
func refused(_ kind: GraftError.Kind, _ part: String, line: Int = #line, _ body: () throws -> Void) throws {
  do {
    try body()
  } catch let error as GraftError {
    try equal(error.kind, kind, "the kind of \"\(error.message)\"", line: line)
    return try check(part.isEmpty || error.message.contains(part), "\"\(error.message)\" does not say \"\(part)\"", line: line)
  }
  throw Failure(description: "line \(line): nothing was refused (\(part))")
}

/// What the oracle wrote.
func read<T>(_ name: String) throws -> [T] {
  try Data(contentsOf: data.appendingPathComponent(name)).withUnsafeBytes { Array($0.bindMemory(to: T.self)) }
}

func file(_ name: String) -> URL { data.appendingPathComponent(name) }

/// A path in the data's folder with nothing behind it.
func fresh(_ name: String) -> URL {
  let path = file("swift-\(name)")
  try? FileManager.default.removeItem(at: path)
  return path
}

func context() throws -> Context {
  var options = Context.Options()
  options.device = try String(contentsOf: file("device.txt"), encoding: .utf8)
  return try Context(options)
}

func deviceless() throws -> Context {
  var options = Context.Options()
  options.device = "none"
  return try Context(options)
}

let inputs = 5, classes = 3, samples = 4, steps = 12

/// Of one step of the oracle's training.
func batch(_ step: Int) throws -> ([Float], [Int32]) {
  let x: [Float] = try read("batches.f32")
  let labels: [Int32] = try read("labels.i32")
  return (
    Array(x[step * samples * inputs..<(step + 1) * samples * inputs]), Array(labels[step * samples..<(step + 1) * samples])
  )
}

func trainerOptions() -> Trainer.Options {
  var options = Trainer.Options()
  options.learningRate = 0.05
  options.batch = samples
  options.seed = 3
  return options
}

/// Toggled between tasks.
final class Flag: @unchecked Sendable {
  private let lock = NSLock()
  private var value = false
  var isSet: Bool { lock.withLock { value } }
  func set() { lock.withLock { value = true } }
}
