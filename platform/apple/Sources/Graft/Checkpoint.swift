// A run kept in a folder, and resumed exactly.
import CGraft
import Foundation

/// Authenticated encryption under a key that stays with the app; `AESGCM` is one. Called from graft's own threads,
/// several at once; must not call graft.
public protocol Cipher: Sendable {
  /// Bytes by which sealing lengthens: nonce and tag; 1 to 64.
  var overhead: Int { get }
  /// Fills `out` with plain.count + overhead bytes, under a new nonce each time.
  func seal(
    _ plain: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer) throws
  /// Fills `out`; throws where it was not sealed under this key with these associated bytes.
  func open(
    _ sealed: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer) throws
}

final class CipherBox {
  let cipher: any Cipher
  init(_ cipher: any Cipher) { self.cipher = cipher }
}

/// The cipher as C calls it, for one call that `box` outlives.
func withCipher<R>(_ box: CipherBox?, _ body: (UnsafePointer<graft_cipher>?) throws -> R) rethrows -> R {
  guard let box else { return try body(nil) }
  var c = graft_cipher()
  c.struct_size = MemoryLayout<graft_cipher>.stride
  c.overhead = box.cipher.overhead < 0 ? 0 : box.cipher.overhead
  c.user = Unmanaged.passUnretained(box).toOpaque()
  c.seal = { user, associated, associatedBytes, plain, bytes, out in
    let cipher = Unmanaged<CipherBox>.fromOpaque(user!).takeUnretainedValue().cipher
    do {
      try cipher.seal(
        .init(start: plain, count: bytes), associated: .init(start: associated, count: associatedBytes),
        into: .init(start: out, count: bytes + cipher.overhead))
      return 0
    } catch { return 1 }
  }
  c.open = { user, associated, associatedBytes, sealed, bytes, out in
    let cipher = Unmanaged<CipherBox>.fromOpaque(user!).takeUnretainedValue().cipher
    do {
      try cipher.open(
        .init(start: sealed, count: bytes), associated: .init(start: associated, count: associatedBytes),
        into: .init(start: out, count: bytes - cipher.overhead))
      return 0
    } catch { return 1 }
  }
  return try withExtendedLifetime(box) { try body(&c) }
}

/// Where and how often a run is kept.
public struct CheckpointOptions: Sendable {
  /// Made where missing; one trainer at a time writes to it.
  public var folder: URL
  /// Steps between snapshots; 0: only `saveCheckpoint`.
  public var every: UInt64 = 0
  /// Steps are durable at each k-th; 1: each, before `step` returns. `journalMilliseconds`, where not 0, instead.
  public var journalEvery: UInt64 = 1
  public var journalMilliseconds: UInt64 = 0
  /// Newest snapshots to keep; tagged ones always stay.
  public var keep = 4
  /// Go on from what the folder holds; otherwise it must hold no snapshot.
  public var resume = false
  /// With `resume`: the snapshot to go back to, by number or tag; nil: the newest.
  public var from: String?
  /// With `resume`: go on although options differ.
  public var withChanges = false
  /// With `resume` and a keyed loader: the data lack records that no step before `from` has used; later snapshots are erased.
  public var forget = false
  /// Where a step that is taken again differs from the journal: go on from the snapshot.
  public var continueOnMismatch = false
  /// Whatever tells the data apart: a resume with another is refused.
  public var data: String?
  /// Of the app, kept with each snapshot.
  public var metadata: [String: String] = [:]
  /// Of everything in the folder.
  public var cipher: (any Cipher)?
  public var allowNonFinite = false
  /// Of `Trainer.step(from:)`: its place is kept with each snapshot and brought back.
  public var loader: Loader?

  public init(_ folder: URL) { self.folder = folder }

  func use<R>(_ box: CipherBox?, _ body: (inout graft_checkpoint_options) throws -> R) throws -> R {
    try Arena.use { arena in
      try withCipher(box) { cipher in
        var o = graft_checkpoint_options()
        o.struct_size = MemoryLayout<graft_checkpoint_options>.stride
        graft_checkpoint_options_init(&o)
        o.folder = arena.string(folder.path)
        o.every = every
        o.journal_every = journalEvery
        o.journal_ms = journalMilliseconds
        o.keep = try unsigned(keep, "keep")
        o.resume = resume ? 1 : 0
        o.from = arena.string(from)
        o.with_changes = withChanges ? 1 : 0
        o.forget = forget ? 1 : 0
        o.continue_on_mismatch = continueOnMismatch ? 1 : 0
        o.data = arena.string(data)
        let pairs = metadata.sorted { $0.key < $1.key }.map {
          graft_pair(key: arena.string($0.key), value: arena.string($0.value))
        }
        o.metadata = arena.array(pairs)
        o.metadata_count = pairs.count
        o.cipher = cipher
        o.allow_non_finite = allowNonFinite ? 1 : 0
        o.loader = loader?.pointer
        return try body(&o)
      }
    }
  }
}

/// Where a run went on.
public struct CheckpointInfo: Sendable {
  /// Optimizer steps done.
  public let step: UInt64
  /// Of the step in progress: see `Trainer.microStep`.
  public let samplesDone: UInt64
  /// Steps that the journal has after these: give the same batches, and they are compared.
  public let journalled: UInt64

  init(_ i: graft_checkpoint_info) {
    step = i.step
    samplesDone = i.samples_done
    journalled = i.journalled
  }
}

#if canImport(CryptoKit)
import CryptoKit

/// AES-GCM with a random nonce for each block, by CryptoKit.
public struct AESGCM: Cipher {
  private let key: SymmetricKey

  /// Keep the key in the keychain.
  public init(_ key: SymmetricKey) { self.key = key }

  /// 12 bytes of nonce, 16 of tag.
  public var overhead: Int { 28 }

  public func seal(
    _ plain: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer
  ) throws {
    let sealed = try AES.GCM.seal(Data(plain), using: key, authenticating: Data(associated)).combined!
    out.copyBytes(from: sealed)
  }

  public func open(
    _ sealed: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer
  ) throws {
    out.copyBytes(from: try AES.GCM.open(.init(combined: Data(sealed)), using: key, authenticating: Data(associated)))
  }
}
#endif
