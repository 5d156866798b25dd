import Foundation
import Graft

private func dataSet(_ context: Context) throws -> DataSet {
  let x: [Float] = try read("batches.f32"), labels: [Int32] = try read("labels.i32")
  return try DataSet(
    context, [Field("x", .float32, [inputs]), Field("label", .int32, [], isLabel: true)], [x, labels])
}

func evaluates() async throws {
  let context = try context()
  let base = try Model(context, file: file("mlp.graft")), trained = try Model(context, file: file("trained.graft"))
  let set = try dataSet(context)
  var asked = Evaluation.Options()
  asked.metrics = ["f1", "accuracy"]
  asked.confusion = true
  asked.outcomes = true
  let before = try base.evaluation(set, asked), now = try trained.evaluation(set, asked)
  let compared = try now.compare(with: before)
  var numbers = [now.totals.loss, now.totals.accuracy]
  for metric in now.metrics { numbers += [metric.value] + metric.byClass }
  numbers += now.confusion.flatMap { $0 }.map { Double($0) }
  numbers += [compared.onlyOld, compared.onlyNew].map { Double($0) }
  numbers += [Double(compared.changed.count), Double(compared.lost.count), compared.pValue]
  try equal(numbers, try read("evaluation.f64"), "the evaluation")
  try equal(compared.classes.reduce(0) { $0 + $1.rows }, compared.rows, "rows of classes")
  try check(Evaluation.metricNames.contains("f1"), "names of metrics")

  let out = fresh("gate.graft")
  var gate = GateOptions("accuracy>=0.2")
  gate.margin = 1
  try check(try trained.gate(set, gate, old: base, saveTo: out).passed, "the gate")
  try check(FileManager.default.fileExists(atPath: out.path), "what passed was not saved")
  let held = try trained.gate(set, GateOptions("accuracy>=0.99"))
  try check(!held.passed && held.reason.contains("accuracy") && held.before == nil, held.reason)
  try FileManager.default.removeItem(at: out)

  var training = trainerOptions()
  training.predictions = true
  training.schedule = .plateau
  let trainer = try trained.trainer(training)
  let made = try trainer.evaluation(set, asked)
  try equal(made.metrics[0].value, now.metrics[0].value, "f1 of a trainer")
  var watched = WatchOptions()
  watched.best = "f1"
  watched.plateau = "loss"
  watched.patience = 0
  try check(try trainer.observe(made, watched).best, "the first is the best")
  let verdict = try trainer.observe(made, watched)
  try check(!verdict.best && verdict.slower && verdict.learningRate < 0.05, "the same again")
}

func sendsDeltas() async throws {
  let context = try context()
  let base = try Model(context, file: file("mlp.graft")), updated = try Model(context, file: file("trained.graft"))
  var options = Delta.Options()
  options.samples = 48
  options.coding = .int8
  options.clipNorm = 0.5
  let delta = try Delta(from: base, to: updated, options)
  try check(try delta.data() == Data(contentsOf: file("delta.bin")), "the delta's bytes are others")
  let info = try delta.info()
  try check(info.coding == .int8 && info.samples == 48 && info.clients == 1, "what it says of itself")
  let again = try Delta(context, data: try delta.data())
  let name = try again.tensors()[0].name
  try equal(try again.numbers(name), try delta.numbers(name), "numbers")
  let sent = fresh("sent")
  try delta.save(sent)
  let received = try Delta(context, file: sent)
  try FileManager.default.removeItem(at: sent)
  options = Delta.Options()
  options.samples = 16
  let average = try Delta(averageOf: [received, try Delta(from: base, to: updated, options)], in: context)
  try average.apply(to: base, rate: 0.5)
  let out = fresh("federated.graft")
  try base.save(out)
  try check(try Data(contentsOf: out) == Data(contentsOf: file("federated.graft")), "the averaged file is another")
  try FileManager.default.removeItem(at: out)
  try refused(.invalidArgument, "") { try average.apply(to: updated) }
  try refused(.corrupt, "") { _ = try Delta(context, data: try delta.data().dropLast(9)) }
  options.coding = .fixed
  options.fixedBits = 16
  let fixed = try Delta(from: try Model(context, file: file("mlp.graft")), to: updated, options)
  let first = try fixed.withIntegers(name) { integers in
    integers[0] &+= 7
    return integers[0]
  }
  try equal(try fixed.withIntegers(name) { $0[0] }, first, "an integer in place")
  try check(try Delta.privacy(context, noise: 1, share: 0.1, rounds: 10, delta: 1e-5) > 0, "privacy")
}

func plans() async throws {
  let context = try context()
  let model = try Model(context, file: file("mlp.graft"))
  var training = Trainer.Options()
  training.batch = 4
  let plan = try model.plan(training: training, curve: true)
  var numbers: [Int64] = []
  for n in plan.nodes {
    numbers += [Int64(n.name.utf8.count), Int64(n.flops), Int64(n.bytes), Int64(n.dispatches)]
  }
  for v in plan.values { numbers += [Int64(v.offset), Int64(v.bytes), Int64(v.first), Int64(v.last)] }
  for p in plan.curve { numbers += [Int64(p.bytes), Int64(p.recomputed)] }
  for l in try model.layers(sizes: ["batch": 4]) { numbers += [Int64(l.parameters), Int64(l.bytes), Int64(l.flops)] }
  try equal(numbers, try read("plan.i64"), "the plan")
  try equal(plan.forecast.total, try model.forecast(training).total, "its forecast")
  try check(try !model.plan(.init(sizes: ["batch": 4]), caps: "adreno-7xx").nodes.isEmpty, "a phone's plan")
  try equal(try model.findDamage().count, 0, "damage")
  let verdicts = try model.verify(sizes: ["batch": 2])
  try check(!verdicts.isEmpty && verdicts.allSatisfy(\.passed), "verdicts on nodes")
  try check(try Device.all().contains { $0.name == context.deviceName }, "the device")
  try refused(.invalidArgument, "") { _ = try context.knownKernels() }
}
