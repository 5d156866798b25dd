"""graft for Conan 2: conan create tools/package/conan (from the root of the source tree)."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy


class Graft(ConanFile):
    name = "graft"
    version = "0.1.0"
    license = "Apache-2.0"
    description = "Runs and fine-tunes neural networks as Vulkan compute shaders"
    topics = ("neural-networks", "training", "vulkan")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "training": [True, False], "text": [True, False],
               "ops": [None, "ANY"], "without": [None, "ANY"]}
    default_options = {"shared": False, "fPIC": True, "training": True, "text": True, "ops": None, "without": None}
    implements = ["auto_shared_fpic"]

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..")
        for pattern in ("CMakeLists.txt", "LICENSE", "NOTICE", "CHANGELOG.md", "platform/*", "runtime/*", "schema/*",
                        "shaders/*", "tools/cmake/*", "tools/docs/*"):
            copy(self, pattern, root, self.export_sources_folder, excludes="build*")

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("zlib/[>=1.2.11 <2]")
        self.requires("zstd/[>=1.5 <1.6]")
        self.requires("flatbuffers/[>=2.0.8 <25]")
        self.requires("xxhash/[>=0.8 <0.9]")
        self.requires("vulkan-headers/[>=1.3.239]")

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.22]")
        self.tool_requires("glslang/[>=11]")
        self.tool_requires("flatbuffers/<host_version>")

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        variables = toolchain.cache_variables
        variables["GRAFT_SHARED"] = bool(self.options.shared)
        variables["GRAFT_TRAINING"] = bool(self.options.training)
        variables["GRAFT_TEXT"] = bool(self.options.text)
        if self.options.ops:
            variables["GRAFT_OPS"] = str(self.options.ops)
        if self.options.without:  # "all", or names of features with spaces between
            variables["GRAFT_WITHOUT"] = str(self.options.without)
        for name in ("GRAFT_BUILD_TOOLS", "GRAFT_BUILD_TESTS", "GRAFT_PYTHON", "GRAFT_JVM"):
            variables[name] = "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in ("LICENSE", "NOTICE"):
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        self.cpp_info.libs = ["graft"]
        self.cpp_info.set_property("cmake_file_name", "graft")
        self.cpp_info.set_property("cmake_target_name", "graft::graft_shared" if self.options.shared else "graft::graft")
        self.cpp_info.set_property("pkg_config_name", "graft")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread", "dl", "m"]
