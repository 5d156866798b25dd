"""Builds the package's wheel by CMake, as PEP 517 asks for it: pip install ./platform/python

Needs no network: what graft is built with (tools/dev/install.sh), pybind11 (Debian's pybind11-dev, or pip's pybind11 with
--no-build-isolation) and Python's headers must be installed.
GRAFT_BUILD: a folder where graft is built already, whose package is packed instead of building another.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.dirname(os.path.dirname(HERE))


def _version():
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(graft VERSION (\S+)", file.read()).group(1)


def _run(*command):
    # pip takes what is printed for the backend's own; it shows both where a build fails.
    subprocess.run(command, check=True, stdout=sys.stderr)


def _built(folder):
    """The folder of a build that has the package."""
    ready = os.environ.get("GRAFT_BUILD")
    if ready:
        return ready
    found = []
    try:
        import pybind11

        found = [f"-Dpybind11_DIR={pybind11.get_cmake_dir()}"]
    except ImportError:
        pass  # CMake finds pybind11-dev, or says what is missing
    _run("cmake", "-S", SOURCE, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGRAFT_PYTHON=ON",
         "-DGRAFT_STATIC=OFF", "-DGRAFT_JVM=OFF", "-DGRAFT_BUILD_TESTS=OFF", f"-DPython3_EXECUTABLE={sys.executable}", *found)
    _run("cmake", "--build", folder, "--target", "graft_python")
    return folder


def _files(stage):
    """name in the wheel -> path, of what was installed below `stage`: the package, and the libraries into it."""
    found = {}
    for folder, _, names in os.walk(stage):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.basename(folder) == "graft" and name.endswith((".py", ".typed", ".so")):
                found[f"graft/{name}"] = path
            elif re.fullmatch(r"libgraft(_convert)?\.so\.\d+\.\d+", name):  # as the modules name them
                found[f"graft/{name}"] = path
    return found


def _digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = _version()
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"
    info = f"graft-{version}.dist-info"
    with tempfile.TemporaryDirectory(prefix="graft_wheel_") as work:
        build = _built(os.path.join(work, "build"))
        stage = os.path.join(work, "stage")
        for component in ("python", "runtime", "convert"):
            _run("cmake", "--install", build, "--prefix", stage, "--component", component, "--strip")
        contents = {}
        for name, path in _files(stage).items():
            with open(path, "rb") as file:
                contents[name] = file.read()
    if "graft/__init__.py" not in contents or "graft/libgraft.so." + ".".join(version.split(".")[:2]) not in contents:
        raise RuntimeError(f"The build in {build} has no Python package: configure it with -DGRAFT_PYTHON=ON.")
    contents[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: graft\nVersion: {version}\n"
        "Summary: Runs and fine-tunes neural networks as Vulkan compute shaders\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nRequires-Dist: numpy\n").encode()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: graft\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in contents.items())
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"graft-{version}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel), "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in contents.items():
            out.writestr(name, data)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    raise RuntimeError("The package is built from graft's source tree: pip install ./platform/python")
