// The folder that a run is kept in.
import CGraft
import Foundation

/// One snapshot of a run.
public struct Snapshot: Sendable {
  public let number: UInt64
  /// Optimizer steps done.
  public let step: UInt64
  /// Of the last step.
  public let loss: Double
  public let made: Date
  /// Of the state, decoded; of all that it needs in storage; of what no other snapshot needs.
  public let bytes, storedBytes, ownBytes: UInt64
  public let tags: [String]
  /// Training goes on from here.
  public let isHead: Bool

  init(_ s: graft_snapshot) {
    number = s.number
    step = s.step
    loss = s.loss
    made = Date(timeIntervalSince1970: Double(s.made_ms) / 1000)
    bytes = s.bytes
    storedBytes = s.stored_bytes
    ownBytes = s.own_bytes
    tags = s.tags.map { String(cString: $0).split(separator: "\n").map(String.init) } ?? []
    isHead = s.is_head != 0
  }
}

/// One tensor, or another part of the state, in two snapshots.
public struct StreamDifference: Sendable {
  public enum Kind: UInt32, Sendable { case same, changed, onlyInFirst, onlyInSecond }
  public let name: String
  public let worker: Int
  public let kind: Kind
  public let bytesInFirst, bytesInSecond: UInt64
  /// At most: whole chunks are compared.
  public let changedBytes: UInt64
}

/// The snapshots of a run's folder. It needs no device. A snapshot is named by its number in decimal or a tag; nil: the
/// one that training goes on from.
public final class SnapshotStore: @unchecked Sendable {
  private let context: Context
  private let cipher: CipherBox?
  private let pointer: OpaquePointer

  /// `writable`: to tag, prune and branch; no trainer may have the folder open then.
  public init(_ context: Context, folder: URL, writable: Bool = false, cipher: (any Cipher)? = nil) throws {
    self.context = context
    let box = cipher.map(CipherBox.init)
    self.cipher = box
    var made: OpaquePointer?
    try context.call {
      Arena.use { arena in
        withCipher(box) { cipher in
          var o = graft_store_options()
          o.struct_size = MemoryLayout<graft_store_options>.stride
          o.writable = writable ? 1 : 0
          o.cipher = cipher
          return graft_store_open(context.pointer, arena.string(folder.path), &o, &made)
        }
      }
    }
    pointer = made!
  }

  /// The oldest first.
  public func snapshots() throws -> [Snapshot] {
    try context.whole {
      try (0..<graft_store_count(pointer)).map { index in try snapshot { graft_store_snapshot(pointer, index, &$0) } }
    }
  }

  public func snapshot(_ name: String? = nil) throws -> Snapshot {
    try context.whole { try snapshot { s in Arena.use { graft_store_find(pointer, $0.string(name), &s) } } }
  }

  private func snapshot(_ read: (inout graft_snapshot) -> graft_status) throws -> Snapshot {
    var s = graft_snapshot()
    s.struct_size = MemoryLayout<graft_snapshot>.stride
    try context.call { read(&s) }
    return Snapshot(s)
  }

  /// What the app said in `CheckpointOptions.metadata`; nil: no such key.
  public func metadata(_ name: String? = nil, _ key: String) throws -> String? {
    try context.whole {
      var value: UnsafePointer<CChar>?
      do {
        try context.call { Arena.use { graft_store_metadata(pointer, $0.string(name), $0.string(key), &value) } }
      } catch let error as GraftError where error.kind == .notFound {
        return nil
      }
      return value.map { String(cString: $0) }
    }
  }

  /// How two snapshots differ; nothing is decoded.
  public func differences(_ first: String?, _ second: String?) throws -> [StreamDifference] {
    try context.whole {
      var streams: UnsafePointer<graft_stream_difference>?
      var count = 0
      try context.call {
        Arena.use { graft_store_diff(pointer, $0.string(first), $0.string(second), &streams, &count) }
      }
      return UnsafeBufferPointer(start: streams, count: count).map { (s: graft_stream_difference) in
        StreamDifference(
          name: String(cString: s.name), worker: Int(s.worker),
          kind: .init(rawValue: UInt32(s.difference.rawValue)) ?? .same, bytesInFirst: s.bytes_in_first,
          bytesInSecond: s.bytes_in_second, changedBytes: s.changed_bytes)
      }
    }
  }

  /// Of a snapshot's parameters, running statistics and optimizer state: the same for the same bits.
  public func hash(_ name: String? = nil) throws -> String {
    try context.whole {
      var value: UnsafePointer<CChar>?
      try context.call { Arena.use { graft_store_hash(pointer, $0.string(name), &value) } }
      return value.map { String(cString: $0) } ?? ""
    }
  }

  /// Decodes and compares everything: the problems, none where all is well.
  public func verify() throws -> [String] {
    try context.whole {
      var problems: UnsafePointer<CChar>?
      do {
        try context.call { graft_store_verify(pointer, nil, &problems) }
      } catch let error as GraftError where error.kind == .corrupt && problems != nil {
        return String(cString: problems!).split(separator: "\n").map(String.init)
      }
      return []
    }
  }

  /// Puts the parameters and running statistics of a snapshot into the model that was trained; how many tensors.
  @discardableResult
  public func restore(_ name: String? = nil, into model: Model) throws -> Int {
    var tensors = 0
    try context.call { Arena.use { graft_store_restore(pointer, $0.string(name), model.pointer, &tensors) } }
    return tensors
  }

  /// A tag keeps a snapshot from being pruned.
  public func tag(_ name: String?, _ tag: String) throws {
    try context.call { Arena.use { graft_store_tag(pointer, $0.string(name), $0.string(tag)) } }
  }

  public func untag(_ name: String?, _ tag: String) throws {
    try context.call { Arena.use { graft_store_untag(pointer, $0.string(name), $0.string(tag)) } }
  }

  /// Deletes all but the newest `keep` snapshots, those with a tag and the one that training goes on from.
  @discardableResult
  public func prune(keep: Int) throws -> (removed: Int, freedBytes: UInt64) {
    var removed = 0
    var freed: UInt64 = 0
    let newest = Int(try unsigned(keep, "keep") as UInt32)
    try context.call { graft_store_prune(pointer, newest, &removed, &freed) }
    return (removed, freed)
  }

  /// A resume goes on from this snapshot; later ones stay.
  public func branch(_ name: String) throws {
    try context.call { Arena.use { graft_store_branch(pointer, $0.string(name)) } }
  }

  deinit { context.whole { graft_store_destroy(pointer) } }
}
