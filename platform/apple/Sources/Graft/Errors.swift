// What calls answer.
import CGraft
import Foundation

/// A call that failed: what kind of failure, and one sentence about it.
public struct GraftError: Error, LocalizedError, CustomStringConvertible, Sendable {
  /// In the words of graft_status.
  public enum Kind: UInt32, Sendable {
    case invalidArgument = 1
    case notFound, ioError, corrupt, unsupported, outOfMemory, deviceError, deviceLost, timeout, cancelled, `internal`
  }
  public let kind: Kind
  public let message: String

  public init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }

  init(_ status: graft_status, _ message: String) {
    self.init(Kind(rawValue: UInt32(status.rawValue)) ?? .internal, message)
  }

  public var description: String { message }
  public var errorDescription: String? { message }
}

/// C strings, and arrays of what C calls trivial, that live as long as one call.
final class Arena {
  private var blocks: [UnsafeMutableRawPointer] = []

  static func use<R>(_ body: (Arena) throws -> R) rethrows -> R {
    let arena = Arena()
    return try withExtendedLifetime(arena) { try body(arena) }
  }

  func string(_ text: String?) -> UnsafePointer<CChar>? {
    guard let text else { return nil }
    let copy = strdup(text)!
    blocks.append(copy)
    return UnsafePointer(copy)
  }

  func strings(_ texts: [String]) -> UnsafePointer<UnsafePointer<CChar>?>? { array(texts.map { string($0) }) }

  /// nil where there is none.
  func array<T>(_ elements: [T]) -> UnsafePointer<T>? {
    if elements.isEmpty { return nil }
    let copy = UnsafeMutableRawPointer.allocate(
      byteCount: elements.count * MemoryLayout<T>.stride, alignment: 16)
    blocks.append(copy)
    let typed = copy.bindMemory(to: T.self, capacity: elements.count)
    typed.initialize(from: elements, count: elements.count)
    return UnsafePointer(typed)
  }

  deinit { for block in blocks { free(block) } }
}

/// Sizes as C takes them; what is negative is refused here, for a conversion would end the process.
func unsigned<T: FixedWidthInteger & UnsignedInteger>(_ value: Int, _ name: String) throws -> T {
  guard let converted = T(exactly: value) else {
    throw GraftError(.invalidArgument, "\(name) is \(value), which is out of range.")
  }
  return converted
}
