import Foundation
import Graft

func writesSeveralTexts() async throws {
  let model = try Model(try context(), file: file("letters.graft"))
  var options = Generator.Options()
  options.context = 40
  options.cache = .float16
  options.sequences = 2
  var sampling = Generator.Sampling()
  sampling.maxTokens = 8
  sampling.temperature = 1.5
  sampling.seed = 11
  sampling.logitBias = [2: 3, 4: -.infinity]
  sampling.mostProbable = 2
  sampling.logProbabilities = true
  sampling.grammar = "root ::= [a-f]+"
  let generator = try model.generator(options)
  var pieces = "", tokens: [Int32] = []
  let first = try generator.submit(
    "abc", sampling, onText: { pieces += $0; return true }, onToken: { token, _ in tokens.append(token); return true })
  _ = try generator.submit(try model.tokenizer().encode("abd"), sampling)
  let dropped = try generator.submit("p", sampling, onText: { _ in true })
  try generator.drop(dropped)
  try refused(.notFound, "") { try generator.drop(dropped) }
  while try generator.step() != 0 {}
  var texts = "", sure: [Float] = []
  while let one = try generator.finished() {
    let text = try one.result.get()
    if one.id == first { try equal([text.text, "\(text.tokens)"], [pieces, "\(tokens)"], "what callbacks were given") }
    texts += text.text + "\n"
    sure += text.logProbabilities + text.mostProbable.flatMap { $0.map(\.logProbability) }
  }
  try equal(texts, try String(contentsOf: file("several.txt"), encoding: .utf8), "the texts")
  try equal(sure, try read("several.f32"), "their logarithms")
  sampling.jsonSchema = "{}"
  try refused(.invalidArgument, "") { _ = try generator.submit("abc", sampling) }
}

func learnsFromATeacher() async throws {
  let context = try context()
  let model = try Model(context, file: file("letters.graft"))
  var asked = DataSet.Options(for: model)
  asked.length = 12
  let set = try DataSet(context, spec: "text:" + file("letters.txt").path, asked)
  var training = Trainer.Options()
  training.learningRate = 0.01
  training.batch = 2
  training.seed = 3
  training.data = set
  training.teacher = try Model(context, file: file("teacher.graft"))
  training.distillWeight = 0.75
  let trainer = try model.trainer(training)
  training.teacher = nil
  var order = Loader.Options()
  order.batch = 2
  order.seed = 7
  order.epochs = 9
  let loader = try Loader(set, order)
  let losses: [Double] = try read("taught.f64")
  for loss in losses { try equal(try trainer.step(from: loader)!.loss, loss, "a loss") }
  try trainer.store()
  let out = fresh("taught.graft")
  try model.save(out)
  try check(try Data(contentsOf: out) == Data(contentsOf: file("taught.graft")), "the file is another")
  try FileManager.default.removeItem(at: out)
}

func embedsTexts() async throws {
  let model = try Model(try context(), file: file("letters.graft"))
  var options = Embedder.Options()
  options.pooling = .mean
  options.normalize = true
  options.length = 16
  let embedder = try model.embedder(options)
  let (vectors, counts) = try embedder.embedCounting(["abc", "ponm"])
  try equal(vectors.flatMap { $0 }, try read("vectors.f32"), "the vectors")
  try equal([embedder.width, embedder.length], [vectors[0].count, 16], "its sizes")
  let tokens = try model.tokenizer().encode("abc")
  try equal(counts[0], tokens.count, "tokens")
  try equal(try embedder.embed([tokens]), [vectors[0]], "of tokens")
  try check(try embedder.memory().total > 0, "memory")
  try refused(.invalidArgument, "") { _ = try embedder.embed([String(repeating: "a", count: 40)]) }

  var asked = Importance.Options()
  asked.context = 16
  let importance = try model.importance(asked)
  try equal(try importance.add(String(repeating: "c", count: 40)), 2, "chunks")
  while try importance.step() != 0 {}
  try equal(importance.matrices.flatMap(\.sums), try read("importance.f64"), "the sums")
  let progress = try importance.progress()
  try equal([progress.chunks, progress.waiting, UInt64(progress.context)], [2, 0, 16], "how far it is")
}

func takesBytesAndGivesBatches() async throws {
  let context = try context()
  let model = try Model(context, file: file("mlp.graft"))
  let raw = (0..<samples * inputs).map { UInt8($0 % 7) }
  let same = raw.map { 0.5 * Float($0) - 1 }
  let (_, labels) = try batch(0)
  let loss = try await model.trainer(trainerOptions()).step([same], labels).loss
  var training = trainerOptions()
  training.inputs["x"] = InputFormat(.uint8, scale: [0.5], offset: [-1])
  training.groups = [ParameterGroup("fc1.*", learningRateScale: 0.5)]
  let trainer = try model.trainer(training)
  try equal(trainer.sample[0].elementType, .uint8, "what a sample is")
  try equal(try await trainer.step([Data(raw)], labels).loss, loss, "the loss of bytes")
  try refused(.invalidArgument, "uint8") { try trainer.step([same], labels) }

  let fields = [Field("x", .float32, [inputs]), Field("label", .int32, [], isLabel: true)]
  let set = try DataSet(context, fields, [same, labels])
  try equal(set.fields.map(\.name), ["x", "label"], "fields")
  var order = Loader.Options()
  order.batch = 3
  order.inOrder = true
  order.epochs = 1
  let loader = try Loader(set, order)
  let first = try loader.next()!
  try equal(first.fields[0], same.prefix(3 * inputs).withUnsafeBytes { Data($0) }, "a batch")
  try check(try loader.next()!.isLastOfEpoch, "the last")
  try check(try loader.next() == nil, "the end")
  try equal(try model.dimension(of: "x", axis: 0), "batch", "a dimension")
  try equal(model.signatures.count, 0, "signatures")
  try model.setMetadata("app", "mine")
  try equal(model.metadata["app"], "mine", "metadata")

  let letters = try Model(context, file: file("letters.graft"))
  let adapters = try Data(contentsOf: file("adapters.graft"))
  try letters.loadAdapters(adapters)
  let out = fresh("again.graft")
  try letters.saveAdapters(out)
  try check(try Data(contentsOf: out) == adapters, "adapters from memory")
  try letters.loadAdapters([(file("adapters.graft"), 0.5), (out, 0.25)])
  do {
    let generator = try letters.generator()
    try generator.swapAdapters(adapters)
  }
  try letters.mergeAdapters()
  var chat = ChatOptions()
  chat.format = "chatml"
  chat.complete = true
  let said = try letters.tokenizer().render([ChatMessage("user", "abc")], chat)
  try check(said.contains("user\nabc") && !said.contains("assistant"), said)
}
