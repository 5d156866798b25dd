import Foundation
import Graft

func trainsToTheFileOfTheCppApi() async throws {
  let context = try context()
  let model = try Model(context, file: file("mlp.graft"))
  let wanted: [Int64] = try read("forecast.i64")
  let forecast = try model.forecast(trainerOptions())
  try equal([Int64(forecast.total), Int64(forecast.flops)], wanted, "the forecast")
  let losses: [Double] = try read("losses.f64")
  let trainer = try model.trainer(trainerOptions())
  try equal(trainer.sample.map(\.description), ["x float32 [5]", "label int32 []"].map { $0 }, "a sample")
  func blocks(_ x: [Float], _ labels: [Int32]) throws -> Metrics { try trainer.step(x, labels) }
  let reported = Flag()
  try context.onProgress { stage, _, _ in if stage == .samples { reported.set() } }
  for step in 0..<steps {
    let (x, labels) = try batch(step)
    var metrics: Metrics?
    switch step % 3 {
    case 0: metrics = try blocks(x, labels)
    case 1: metrics = try await trainer.step(x, labels)
    default: while metrics == nil { metrics = try trainer.microStep([x], labels) }
    }
    try equal(metrics!.loss, losses[step], "the loss of step \(step)")
    try equal(metrics!.step, UInt64(step + 1), "its number")
    try check(metrics!.accuracy != nil, "its accuracy")
  }
  try context.onProgress(nil)
  try check(reported.isSet, "no progress was reported")
  let (x, labels) = try batch(0)
  try equal(try trainer.evaluate(x, labels).step, UInt64(steps), "the step of an evaluation")
  try trainer.store()
  let out = fresh("trained.graft")
  try model.save(out)
  try check(try Data(contentsOf: out) == Data(contentsOf: file("trained.graft")), "the trained file is another")
  try FileManager.default.removeItem(at: out)
}

func aDisturbedRunEndsWithTheSameFile() async throws {
  let context = try context()
  let model = try Model(context, file: file("mlp.graft"))
  let trainer = try model.trainer(trainerOptions())
  let done = Flag()
  let other = Task.detached {
    var i = 0
    while !done.isSet {
      try context.setPace(slice: Double(i % 2 * 8), duty: i % 3 == 0 ? 0.5 : 1)
      context.cancel()
      i += 1
      try await Task.sleep(nanoseconds: 200_000)
    }
  }
  var cancelled = 0
  for step in 0..<steps {
    let (x, labels) = try batch(step)
    while true {
      do {
        try await trainer.step(x, labels)
        break
      } catch let error as GraftError where error.kind == .cancelled {
        cancelled += 1
      }
    }
    if step % 5 == 1 { try trainer.pause() }
  }
  done.set()
  try await other.value
  context.uncancel()
  try trainer.store()
  let out = fresh("disturbed.graft")
  try model.save(out)
  try check(try Data(contentsOf: out) == Data(contentsOf: file("trained.graft")), "after \(cancelled) cancels: another file")
  try FileManager.default.removeItem(at: out)
}

/// A toy that shows whether bytes are given and checked rightly: every byte is turned, and a sum stands behind them.
struct Toy: Cipher {
  let key: UInt8
  var overhead: Int { 8 }

  private func sum(_ plain: UnsafeRawBufferPointer, _ associated: UnsafeRawBufferPointer) -> UInt64 {
    (Array(plain) + Array(associated)).reduce(UInt64(key)) { ($0 ^ UInt64($1)) &* 0x1_0000_01b3 }
  }

  func seal(
    _ plain: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer
  ) throws {
    for i in 0..<plain.count { out[i] = plain[i] ^ key }
    out.storeBytes(of: sum(plain, associated), toByteOffset: plain.count, as: UInt64.self)
  }

  func open(
    _ sealed: UnsafeRawBufferPointer, associated: UnsafeRawBufferPointer, into out: UnsafeMutableRawBufferPointer
  ) throws {
    for i in 0..<out.count { out[i] = sealed[i] ^ key }
    let found = sealed.loadUnaligned(fromByteOffset: out.count, as: UInt64.self)
    if found != sum(UnsafeRawBufferPointer(out), associated) { throw Failure(description: "another key") }
  }
}

func resumesFromASealedFolder() async throws {
  let context = try context()
  let folder = fresh("run")
  var options = trainerOptions()
  options.checkpoints = true
  var kept = CheckpointOptions(folder)
  kept.every = 3
  kept.cipher = Toy(key: 99)
  kept.metadata = ["app": "swift"]
  do {
    let trainer = try Model(context, file: file("mlp.graft")).trainer(options)
    try trainer.openCheckpoint(kept)
    for step in 0..<5 {
      let (x, labels) = try batch(step)
      try await trainer.step(x, labels)
      try trainer.setCheckpointData(Data([UInt8(step)]))
    }
    try trainer.saveCheckpoint(tag: "five")
    for step in 5..<7 {
      let (x, labels) = try batch(step)
      try await trainer.step(x, labels)
    }
  }
  let model = try Model(context, file: file("mlp.graft"))
  let trainer = try model.trainer(options)
  kept.resume = true
  kept.cipher = Toy(key: 98)
  do {
    let other = try model.trainer(options)
    try refused(.invalidArgument, "The key is not the one") { try other.openCheckpoint(kept) }
  }
  kept.cipher = Toy(key: 99)
  kept.from = "five"
  let info = try trainer.openCheckpoint(kept)
  try equal(info.step, 5, "the step")
  try equal(try trainer.checkpointData(), Data([4]), "the app's bytes")
  for step in 5..<steps {
    let (x, labels) = try batch(step)
    try await trainer.step(x, labels)
  }
  try trainer.closeCheckpoint()
  try trainer.store()
  let out = fresh("resumed.graft")
  try model.save(out)
  try check(try Data(contentsOf: out) == Data(contentsOf: file("trained.graft")), "the resumed file is another")
  let warm = try model.trainer(options)
  try warm.warmStart(folder, snapshot: "five", cipher: Toy(key: 99))

  let store = try SnapshotStore(try deviceless(), folder: folder, writable: true, cipher: Toy(key: 99))
  let snapshots = try store.snapshots()
  try check(snapshots.contains { $0.tags == ["five"] && $0.step == 5 }, "the tag among \(snapshots)")
  try equal(try store.verify(), [], "problems")
  try store.tag(nil, "last")
  try store.untag("last", "last")
  try refused(.notFound, "last") { _ = try store.snapshot("last") }
  try check(try store.prune(keep: 1).removed >= 1, "nothing was pruned")
  try refused(.invalidArgument, "keep is -1") { try store.prune(keep: -1) }
  try FileManager.default.removeItem(at: out)
  try FileManager.default.removeItem(at: folder)
}

func trainsFromDataSets() async throws {
  let context = try context()
  let x: [Float] = try read("batches.f32"), labels: [Int32] = try read("labels.i32")
  let fields = [Field("x", .float32, [inputs]), Field("label", .int32, [], isLabel: true)]
  var files: [Data] = []
  for kind in ["memory", "function"] {
    let model = try Model(context, file: file("mlp.graft"))
    let set =
      kind == "memory"
      ? try DataSet(context, fields, [x, labels])
      : try DataSet(context, fields, samples: UInt64(labels.count)) { index, places in
        let i = Int(index)
        x[i * inputs..<(i + 1) * inputs].withUnsafeBytes { places[0].copyMemory(from: $0) }
        places[1].storeBytes(of: labels[i], as: Int32.self)
        return true
      }
    try equal(set.samples, UInt64(samples * steps), "the samples")
    var options = trainerOptions()
    options.data = set
    options.groups = [ParameterGroup("*.bias", learningRateScale: 2, weightDecay: 0)]
    let trainer = try model.trainer(options)
    do {
      var order = Loader.Options()
      order.batch = samples
      order.seed = 5
      order.epochs = 2
      let loader = try Loader(set, order)
      var count = 0
      while let metrics = try trainer.step(from: loader) {
        count += 1
        try equal(metrics.step, UInt64(count), "the step")
        if count == steps { try trainer.setLearningRate(0.01) }
      }
      try equal(count, 2 * steps, "the steps of two epochs")
    }
    try equal(try trainer.learningRate(), 0.01, "the learning rate")
    try check(try trainer.evaluate(set).loss < 1.2, "the loss")
    let weights: [Float] = try trainer.read("fc1.weight")
    try trainer.write("fc1.weight", weights.map { $0 * 0.5 })
    try equal(try trainer.read("fc1.weight"), weights.map { $0 * 0.5 }, "what was written")
    try trainer.setBudget(64 << 20)
    try trainer.store()
    try equal(try model.read("fc1.weight"), weights.map { $0 * 0.5 }, "what was stored")
    try model.setMetadata("made.by", "swift")
    try equal(model.metadata["made.by"], "swift", "the metadata")
    let out = fresh("set.graft")
    try model.save(out)
    files.append(try Data(contentsOf: out))
    try FileManager.default.removeItem(at: out)
  }
  try check(files[0] == files[1], "two kinds of data give two files")
  try refused(.invalidArgument, "a sample has 20") { _ = try DataSet(context, fields, [Array(x.dropLast()), labels]) }
  try refused(.invalidArgument, "fields") { _ = try DataSet(context, [], []) }
}
