import Foundation
import Graft

func runsToTheBytesOfTheCppApi() async throws {
  let model = try Model(try context(), file: file("mlp.graft"), check: .atOnce)
  try equal(model.inputs.map(\.description), ["x float32 [-1, 5]"], "the inputs")
  try equal(model.outputs.first?.name, "y", "the output")
  var options = Session.Options(sizes: ["batch": samples])
  options.of = "y"
  options.wrt = ["fc1.weight", "x"]
  let session = try model.session(options)
  let x = try batch(0).0
  let cotangent: [Float] = try read("cotangent.f32")
  try session.setInput("x", x)
  try session.setInput("cotangent", cotangent)
  func blocks() throws { try session.run() }  // where nothing awaits, the call blocks
  try blocks()
  try equal(try session.output("y"), try read("y.f32"), "the output")
  try equal(try session.output("grad:fc1.weight"), try read("grad_fc1.f32"), "a parameter's gradient")
  try equal(try session.output("grad:x"), try read("grad_x.f32"), "the input's gradient")
  try session.withOutput("y") { bytes, info in
    try equal(info.shape, [samples, classes], "the shape")
    try equal(bytes.count, samples * classes * 4, "the bytes")
  }
  try check(try session.memory().total > 0, "memory")

  var split = Gradients.Options(of: "y", wrt: ["fc1.weight"], sizes: ["batch": samples])
  split.microBatch = 2
  let gradients = try Gradients(model, split, inputs: ["x": x, "cotangent": cotangent])
  try equal(try gradients("fc1.weight"), try read("split_fc1.f32"), "gradients in pieces")

  // From memory and from an open file, with a little in front.
  let bytes = try Data(contentsOf: file("mlp.graft"))
  let outer = fresh("inside")
  try (Data(repeating: 7, count: 16) + bytes).write(to: outer)
  let handle = try FileHandle(forReadingFrom: outer)
  for copy in [
    try Model(model.context, data: bytes),
    try Model(model.context, descriptor: handle.fileDescriptor, offset: 16, bytes: UInt64(bytes.count)),
  ] {
    let session = try copy.session(.init(sizes: ["batch": samples]))
    try session.setInput("x", x.withUnsafeBytes { Data($0) })
    try await session.run()
    try equal(try session.output("y"), try read("y.f32"), "the output of a model inside of something")
  }
  try FileManager.default.removeItem(at: outer)
}

func runsBesideTheApp() async throws {
  let context = try context()
  let model = try Model(context, file: file("mlp.graft"))
  var options = Session.Options(sizes: ["batch": samples])
  options.resizable = true
  let session = try model.session(options)
  let x = try batch(0).0, y: [Float] = try read("y.f32")
  try session.setInput("x", x)
  try await session.run()
  try equal(try session.output("y"), y, "the output of a run that was awaited")

  let many = try await withThrowingTaskGroup(of: [Float].self) { group in
    for _ in 0..<8 {
      group.addTask {
        let session = try model.session(.init(sizes: ["batch": samples]))
        try session.setInput("x", x)
        try await session.run()
        return try session.output("y")
      }
    }
    return try await group.reduce(into: []) { $0.append($1) }
  }
  try equal(many, Array(repeating: y, count: 8), "sessions in tasks")

  try session.resize(["batch": 1])
  try session.setInput("x", Array(x.prefix(inputs)))
  try await session.run()
  let first = try session.output("y")
  try equal(first.count, classes, "the outputs of one sample")
  try check(zip(first, y).allSatisfy { abs($0 - $1) < 1e-5 }, "one sample alone: \(first)")
  try refused(.invalidArgument, "5") { try session.resize(["batch": 5]) }
  try session.pause()
  try session.resume()

  // Bytes that the device turns into numbers.
  var bytes = Session.Options(sizes: ["batch": 1])
  bytes.formats = ["x": InputFormat(.uint8, scale: [0.5], offset: [-1])]
  let packed = try model.session(bytes)
  try packed.setInput("x", Data([0, 1, 2, 3, 4]))
  try await packed.run()
  let plain = try model.session(.init(sizes: ["batch": 1]))
  try plain.setInput("x", [-1, -0.5, 0, 0.5, 1] as [Float])
  try await plain.run()
  try equal(try packed.output("y"), try plain.output("y"), "bytes and their numbers")

  // Another number of classes.
  let wider = try Model(context, file: file("mlp.graft"))
  try wider.resizeHead(classes: 5, seed: 3)
  try equal(wider.outputs[0].shape.last, 5, "classes")

  // A task that is cancelled before it begins, and calls on a thread beside the app's.
  let task = Task {
    withUnsafeCurrentTask { $0?.cancel() }
    try await session.run()
  }
  do {
    try await task.value
    throw Failure(description: "a cancelled task ran")
  } catch is CancellationError {}
  let output = try await context.perform {
    try plain.run()
    return try plain.output("y")
  }
  try equal(output, try packed.output("y"), "a run in perform")
}

func usesAVulkanThatIsLinkedIn() async throws {
  var options = Context.Options()
  options.device = try String(contentsOf: file("device.txt"), encoding: .utf8)
  options.vulkanLibrary = "no such library"
  try refused(.notFound, "no such library") { _ = try Context(options) }
  guard let library = dlopen("libvulkan.so.1", RTLD_NOW), let entry = dlsym(library, "vkGetInstanceProcAddr") else {
    throw Failure(description: "there is no loader")
  }
  options.vulkanGetInstanceProcAddr = unsafeBitCast(entry, to: (@convention(c) () -> Void).self)
  try check(!(try Context(options)).deviceName.isEmpty, "no name")
}

func refusals() async throws {
  try refused(.notFound, "nowhere") { _ = try Model(try deviceless(), file: file("nowhere.graft")) }
  try refused(.corrupt, "") { _ = try Model(try deviceless(), data: Data(repeating: 1, count: 64)) }
  let model = try Model(try context(), file: file("mlp.graft"))
  try refused(.invalidArgument, "batch") { _ = try model.session() }
  let session = try model.session(.init(sizes: ["batch": samples]))
  try refused(.invalidArgument, "float32, not of int32") { try session.setInput("x", [1] as [Int32]) }
  try refused(.invalidArgument, "x") { try session.setInput("x", [1, 2] as [Float]) }
  try refused(.notFound, "z") { try session.setInput("z", [1] as [Float]) }
  try session.setInput("x", [Float](repeating: 1, count: samples * inputs))
  try await session.run()
  try refused(.invalidArgument, "float32, not of int32") { _ = try session.output("y", as: Int32.self) }
  var options = trainerOptions()
  options.batch = -1
  try refused(.invalidArgument, "The batch is -1") { _ = try model.trainer(options) }
  options.batch = 4
  options.learningRate = 0
  try refused(.invalidArgument, "The learning rate is 0") { _ = try model.trainer(options) }
  let trainer = try model.trainer(trainerOptions())
  let (x, labels) = try batch(0)
  try refused(.invalidArgument, "there are 4 samples") { try trainer.step(x, Array(labels.prefix(3))) }
  try refused(.invalidArgument, "a sample has 20") { try trainer.step(Array(x.dropLast()), labels) }
  try refused(.invalidArgument, "not of float32") { try trainer.step(x, [Float](repeating: 0, count: 4)) }
  try refused(.invalidArgument, "The model takes 1".lowercased()) { try trainer.step([x, x], labels) }
  try refused(.invalidArgument, "9") { try trainer.step(x, [0, 9, 0, 0] as [Int32]) }
  try refused(.unsupported, "") { _ = try model.generator() }
  try refused(.notFound, "tokenizer") { _ = try model.tokenizer() }
  try refused(.invalidArgument, "slice") { try model.context.setPace(slice: -1) }
}
