"""Packs graft's wheel: the package, the libraries and the command line. It builds graft only if no build is given.

usage: build_wheel.py [--build FOLDER | --library LIBRARY [--converter LIBRARY] --cli PROGRAM] [--platform-tag TAG] OUT
pip install ./platform/python does the same by PEP 517; GRAFT_BUILD is then --build, and GRAFT_PLATFORM_TAG --platform-tag.
The wheel is for every Python from 3.8 on, since ctypes calls the library.
"""

import argparse
import base64
import glob
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCE = os.path.dirname(os.path.dirname(HERE))


def _version():
    with open(os.path.join(SOURCE, "CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(graft VERSION (\S+)", file.read()).group(1)


def _program():
    """Where the wheel has the command line: pip puts it beside the environment's python, so that it needs no Python to start."""
    return f"graft-{_version()}.data/scripts/graft"


def _info():
    return f"graft-{_version()}.dist-info"


def _run(*command):
    # pip takes what is printed for the backend's own; it shows both where a build fails.
    subprocess.run(command, check=True, stdout=sys.stderr)


def _sources(folder):
    """name in the package -> path: what is written by hand, and what the generator writes into `folder`."""
    _run(sys.executable, "-B", f"{SOURCE}/tools/interface/generate.py", f"{SOURCE}/runtime/include/graft", folder)
    paths = [*glob.glob(f"{HERE}/graft/*.py"), f"{HERE}/graft/py.typed", *glob.glob(f"{folder}/python/*.py")]
    return {f"graft/{os.path.basename(path)}": path for path in paths}


def _binaries(build, stage):
    """The libraries under the names that the package looks for, and the program, of a folder where graft is built."""
    for component in ("runtime", "convert", "tools"):
        _run("cmake", "--install", build, "--prefix", stage, "--component", component, "--strip")
    short = ".".join(_version().split(".")[:2])
    found = {f"graft/{os.path.basename(path)}": path
             for path in glob.glob(f"{stage}/**/libgraft*.so.{short}", recursive=True) if "gloo" not in path}
    programs = glob.glob(f"{stage}/**/bin/graft", recursive=True)
    licences = {os.path.basename(path): path for path in glob.glob(f"{stage}/**/licences/*", recursive=True)}
    return {**found, **({_program(): programs[0]} if programs else {}),
            **{f"{_info()}/licences/{name}": path for name, path in licences.items()}}


def _given(library, converter, cli):
    short = ".".join(_version().split(".")[:2])
    found = {f"graft/libgraft.so.{short}": library, _program(): cli}
    return {**found, **({f"graft/libgraft_convert.so.{short}": converter} if converter else {})}


def _metadata():
    return (f"Metadata-Version: 2.1\nName: graft\nVersion: {_version()}\n"
            "Summary: Runs and fine-tunes neural networks as Vulkan compute shaders\n"
            "License: Apache-2.0\nRequires-Python: >=3.8\nRequires-Dist: numpy\n").encode()


def _digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def pack(binaries, out, platform_tag=None):
    """Writes the wheel into the folder `out` and returns its name."""
    tag = f"py3-none-{platform_tag or re.sub('[-.]', '_', sysconfig.get_platform())}"
    info = _info()
    with tempfile.TemporaryDirectory(prefix="graft_wheel_") as work:
        contents = {}
        for name, path in sorted({**_sources(work), **binaries, f"{info}/LICENSE": f"{SOURCE}/LICENSE"}.items()):
            with open(path, "rb") as file:
                contents[name] = file.read()
    contents[f"{info}/METADATA"] = _metadata()
    contents[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: graft\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in contents.items())
    contents[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    wheel = f"graft-{_version()}-{tag}.whl"
    with zipfile.ZipFile(os.path.join(out, wheel), "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in contents.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name == _program() or ".so" in name else 0o100644) << 16
            file.writestr(entry, data)
    return wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory(prefix="graft_build_") as work:
        build = os.environ.get("GRAFT_BUILD")
        if not build:
            build = os.path.join(work, "build")
            _run("cmake", "-S", SOURCE, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGRAFT_STATIC=OFF", "-DGRAFT_JVM=OFF",
                 "-DGRAFT_BUILD_TESTS=OFF")
            _run("cmake", "--build", build)
        return pack(_binaries(build, os.path.join(work, "stage")), wheel_directory, os.environ.get("GRAFT_PLATFORM_TAG"))


def build_sdist(sdist_directory, config_settings=None):
    """The package without libraries, with what was generated: it uses a graft that the system or GRAFT_LIBRARY has."""
    name = f"graft-{_version()}"
    with tempfile.TemporaryDirectory(prefix="graft_sdist_") as work, tarfile.open(os.path.join(sdist_directory, f"{name}.tar.gz"), "w:gz") as out:
        with open(os.path.join(work, "PKG-INFO"), "wb") as file:
            file.write(_metadata())
        for inside, path in {**_sources(work), "PKG-INFO": file.name, "LICENSE": f"{SOURCE}/LICENSE"}.items():
            out.add(path, f"{name}/{inside}")
    return f"{name}.tar.gz"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", help="a folder where graft is built")
    arguments.add_argument("--library", help="libgraft, instead of a build")
    arguments.add_argument("--converter", help="libgraft_convert")
    arguments.add_argument("--cli", help="the program graft")
    arguments.add_argument("--platform-tag", help="such as manylinux_2_31_x86_64; by default this machine's")
    arguments.add_argument("out", help="the folder that the wheel is written into")
    asked = arguments.parse_args()
    if bool(asked.library) != bool(asked.cli) or not asked.build and not asked.library:
        arguments.error("Give --build, or --library and --cli.")
    with tempfile.TemporaryDirectory(prefix="graft_stage_") as stage:
        binaries = _given(asked.library, asked.converter, asked.cli) if asked.library else _binaries(asked.build, stage)
        print(pack(binaries, asked.out, asked.platform_tag))


if __name__ == "__main__":
    main()
