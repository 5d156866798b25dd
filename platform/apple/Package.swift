// swift-tools-version:5.9
// graft for Swift. On Apple's systems over graft.xcframework, which build_xcframework.sh puts beside this file; on Linux
// over the installed library (graft.pc).
import PackageDescription

#if os(Linux)
let native = Target.systemLibrary(name: "CGraft", path: "Sources/CGraft", pkgConfig: "graft")
#else
let native = Target.binaryTarget(name: "CGraft", path: "graft.xcframework")
#endif

let package = Package(
  name: "graft",
  platforms: [.iOS(.v15), .macOS(.v12)],
  products: [.library(name: "Graft", targets: ["Graft"])],
  targets: [
    native,
    .target(
      name: "Graft", dependencies: ["CGraft"],
      // What the static library in the framework needs of the system.
      linkerSettings: [
        .linkedLibrary("c++", .when(platforms: [.macOS, .iOS])),
        .linkedLibrary("z", .when(platforms: [.macOS, .iOS])),
      ]),
  ]
)
