// Element types, shapes, and what the app's numbers look like to graft.
import CGraft
import Foundation

public enum ElementType: UInt32, Sendable {
  case float32 = 0
  case int32 = 1
  /// A 32-bit word that is 0 or 1.
  case bool32 = 2
  /// Of samples that an `InputFormat` says; they are given as `Data`.
  case uint8 = 3
  case int8 = 4
  case float16 = 5
  case bfloat16 = 6

  var bytes: Int {
    switch self {
    case .uint8, .int8: return 1
    case .float16, .bfloat16: return 2
    default: return 4
    }
  }
}

/// Numbers that cross the interface as they are. UInt32 stands for booleans.
public protocol Scalar: Sendable {
  static var elementType: ElementType { get }
}
extension Float: Scalar { public static var elementType: ElementType { .float32 } }
extension Int32: Scalar { public static var elementType: ElementType { .int32 } }
extension UInt32: Scalar { public static var elementType: ElementType { .bool32 } }

/// Contents of tensors, row-major: arrays of scalars, or bytes in the type that the model asks for.
public protocol TensorContents: Sendable {
  /// nil: bytes, which may be of any type.
  var elementType: ElementType? { get }
  func withContents<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R
}
extension Array: TensorContents where Element: Scalar {
  public var elementType: ElementType? { Element.elementType }
  public func withContents<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try withUnsafeBytes(body)
  }
}
extension Data: TensorContents {
  public var elementType: ElementType? { nil }
  public func withContents<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
    try withUnsafeBytes(body)
  }
}

/// Name, element type and shape of a tensor.
public struct TensorInfo: Sendable, Equatable, CustomStringConvertible {
  public let name: String
  public let elementType: ElementType
  /// -1 for a named dimension that is not bound.
  public let shape: [Int]

  init(_ info: graft_tensor_info) {
    name = String(cString: info.name)
    elementType = ElementType(rawValue: UInt32(info.dtype.rawValue)) ?? .float32
    shape = withUnsafeBytes(of: info.dims) { dims in
      dims.bindMemory(to: Int64.self).prefix(Int(info.rank)).map { Int($0) }
    }
  }

  var bytes: Int { shape.reduce(elementType.bytes, *) }
  public var description: String { "\(name) \(elementType) \(shape)" }
}

/// The elements behind a pointer of graft's, copied.
func copied<T: Scalar>(_ data: UnsafeRawPointer?, _ bytes: Int, _ info: graft_tensor_info) throws -> [T] {
  try check(T.self, info)
  guard let data, bytes > 0 else { return [] }
  return [T](unsafeUninitializedCapacity: bytes / 4) { buffer, count in
    memcpy(buffer.baseAddress!, data, bytes)
    count = bytes / 4
  }
}

func check<T: Scalar>(_: T.Type, _ info: graft_tensor_info) throws {
  let tensor = TensorInfo(info)
  if tensor.elementType != T.elementType {
    throw GraftError(.invalidArgument, "\"\(tensor.name)\" is of \(tensor.elementType), not of \(T.elementType).")
  }
}

/// Pointers to the contents of all, for one call.
func withPointers<R>(
  _ all: [any TensorContents], _ body: ([UnsafeRawBufferPointer]) throws -> R
) rethrows -> R {
  func descend(_ done: [UnsafeRawBufferPointer]) throws -> R {
    if done.count == all.count { return try body(done) }
    return try all[done.count].withContents { try descend(done + [$0]) }
  }
  // The compiler cannot see that descend() throws what body throws and nothing else.
  func rethrowing(_ descend: ([UnsafeRawBufferPointer]) throws -> R) rethrows -> R { try descend([]) }
  return try rethrowing(descend)
}
