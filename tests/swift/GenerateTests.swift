import Foundation
import Graft

private func sampling() -> Generator.Sampling {
  var sampling = Generator.Sampling()
  sampling.maxTokens = 12
  sampling.temperature = 1.5
  sampling.seed = 11
  return sampling
}

func generatesTheTextOfTheCppApi() async throws {
  let model = try Model(try context(), file: file("letters.graft"))
  let wanted = try String(contentsOf: file("text.txt"), encoding: .utf8)
  let generator = try model.generator()
  var pieces = "", tokens: [Int32] = [], vocabulary = 0
  let generated = try generator.generate(
    "abc", sampling(), onText: { pieces += $0; return true },
    onToken: { token, logits in
      tokens.append(token)
      vocabulary = logits.count
      return true
    })
  try equal(generated.text, wanted, "the text")
  try equal(pieces, wanted, "its pieces")
  try equal(tokens, generated.tokens, "its tokens")
  try equal(generated.reason, .maxTokens, "why it ended")
  let tokenizer = try model.tokenizer()
  try equal(vocabulary, tokenizer.count, "the scores of a token")
  let prompt = try tokenizer.encode("abc")
  try equal(try generator.generate(prompt, sampling()).text, wanted, "after tokens")
  try check(try generator.last().cachedTokens > 0, "the prompt was computed again")
  try equal(try tokenizer.decode(generated.tokens, continued: true), wanted, "the tokens as text")
  try check(tokenizer.find("no such token") == nil, "a token that there is not")
  var stopped = sampling()
  let part = String(wanted.dropFirst(4).prefix(2))
  stopped.stop = [part]
  let end = wanted.range(of: part)!.lowerBound
  try equal(try generator.generate("abc", stopped).text, String(wanted[..<end]), "until a stop")
  try generator.pause()
  try equal(try generator.generate("abc", sampling()).text, wanted, "after a pause")
  // A callback that calls graft is told so.
  try check(
    try generator.generate("abc", sampling(), onText: { _ in (try? generator.pause()) == nil }).text == wanted,
    "a callback could call graft")
}

func takesAdapters() async throws {
  let context = try context()
  let plain = try Model(context, file: file("letters.graft"))
  try refused(.invalidArgument, "without adapters") { try plain.generator().swapAdapters(nil) }
  let base = try plain.generator().generate("abc", sampling()).text
  let adapted = try Model(context, file: file("letters.graft"))
  try adapted.loadAdapters(file("adapters.graft"))
  let out = fresh("adapters.graft")
  try adapted.saveAdapters(out)
  try check(try Data(contentsOf: out) == Data(contentsOf: file("adapters.graft")), "saved adapters are others")
  do {
    let generator = try adapted.generator()
    try refused(.invalidArgument, "a generator") { try adapted.mergeAdapters() }
    try generator.swapAdapters(out)
    try generator.swapAdapters(nil)
    try equal(try generator.generate("abc", sampling()).text, base, "without adapters")
  }
  try adapted.mergeAdapters()
  try refused(.invalidArgument, "adapters") { try adapted.saveAdapters(out) }
  try adapted.addAdapters("r=2,targets=*", seed: 4)
  try FileManager.default.removeItem(at: out)
}

func givesPieces() async throws {
  let model = try Model(try context(), file: file("letters.graft"))
  let wanted = try String(contentsOf: file("text.txt"), encoding: .utf8)
  let generator = try model.generator()
  var text = ""
  for try await piece in generator.pieces("abc", sampling()) { text += piece }
  try equal(text, wanted, "the pieces")
  var long = sampling()
  long.maxTokens = 1000
  for try await _ in generator.pieces("abc", long) { break }
  try equal(try generator.generate("abc", sampling()).text, wanted, "after a loop that was left")
  var none = sampling()
  none.maxTokens = -1
  do {
    for try await _ in generator.pieces("abc", none) {}
    throw Failure(description: "maxTokens of -1 went through")
  } catch let error as GraftError {
    try equal(error.kind, .invalidArgument, error.message)
  }
}

private func residentKilobytes() throws -> Int {
  let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
  let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") }
  return Int(line?.split(whereSeparator: { !$0.isNumber }).first ?? "0") ?? 0
}

func dropsInAnyOrder() async throws {
  // What was made keeps what it was made from.
  var session: Session?
  do { session = try Model(try context(), file: file("mlp.graft")).session(.init(sizes: ["batch": samples])) }
  try session?.setInput("x", try batch(0).0)
  try await session?.run()
  try equal(try session!.output("y"), try read("y.f32"), "the output of what alone is left")
  session = nil

  var before = 0
  for round in 0..<2000 {
    if round == 500 { before = try residentKilobytes() }
    let context = try deviceless()
    let model = try Model(context, file: file("mlp.graft"))
    _ = try model.forecast(trainerOptions())
  }
  let growth = try residentKilobytes() - before
  try check(growth < 4096, "1500 contexts and models left \(growth) KiB behind")
}
