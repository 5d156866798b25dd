// The Swift classes beside what the C++ API gives on the same device: swift_binding DATA, a folder that bindings_oracle
// filled. Prints each test's name and fails with the first failure's sentence.
import Foundation
import Graft

let data = URL(fileURLWithPath: CommandLine.arguments[1], isDirectory: true)
let tests: [(String, () async throws -> Void)] = [
  ("run: outputs and gradients of the C++ API", runsToTheBytesOfTheCppApi),
  ("run: beside the app, cancelled, resized, bytes for numbers", runsBesideTheApp),
  ("run: a Vulkan that is linked in", usesAVulkanThatIsLinkedIn),
  ("run: refusals", refusals),
  ("train: the file of the C++ API", trainsToTheFileOfTheCppApi),
  ("train: disturbed and paused, the same file", aDisturbedRunEndsWithTheSameFile),
  ("train: killed, sealed and resumed", resumesFromASealedFolder),
  ("train: data sets, parameters, snapshots", trainsFromDataSets),
  ("generate: the text of the C++ API", generatesTheTextOfTheCppApi),
  ("generate: adapters", takesAdapters),
  ("generate: pieces, and loops that are left", givesPieces),
  ("more: several texts at once", writesSeveralTexts),
  ("more: a teacher", learnsFromATeacher),
  ("more: vectors and importance", embedsTexts),
  ("more: bytes, batches, options", takesBytesAndGivesBatches),
  ("more: evaluations and gates", evaluates),
  ("more: deltas", sendsDeltas),
  ("more: plans and devices", plans),
  ("lifetime: any order, no growth", dropsInAnyOrder),
]
for (name, test) in tests {
  do {
    try await test()
    print("ok      \(name)")
  } catch {
    print("FAILED  \(name): \(error)")
    exit(1)
  }
}
