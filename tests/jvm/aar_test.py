"""Packs an AAR of this machine's libraries and looks at it as Android's build tools would.

Usage: aar_test.py PACKAGE_SH GRAFT_JAR LIBGRAFT LIBGRAFT_JNI JAVA TESTS_JAR DATA
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

ANDROID = "{http://schemas.android.com/apk/res/android}"


def segments(elf):
    """(type, alignment) of each program header of a 64-bit little-endian ELF file."""
    assert elf[:6] == b"\x7fELF\x02\x01", "a 64-bit little-endian ELF file"
    start, = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, = struct.unpack_from("<I", elf, start + i * size)
        align, = struct.unpack_from("<Q", elf, start + i * size + 48)
        yield kind, align


def main():
    package, jar, libgraft, libjni, java, tests_jar, data = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        libraries = os.path.join(folder, "x86_64")
        os.mkdir(libraries)
        for library in (libgraft, libjni):
            shutil.copy(library, os.path.join(libraries, os.path.basename(library).split(".so")[0] + ".so"))
        out = os.path.join(folder, "graft.aar")
        subprocess.run(["sh", package, out, jar, "x86_64=" + libraries], check=True, stdout=subprocess.DEVNULL)
        with zipfile.ZipFile(out) as aar:
            assert aar.testzip() is None
            names = set(aar.namelist())
            for name in ("AndroidManifest.xml", "classes.jar", "R.txt", "proguard.txt", "jni/x86_64/libgraft.so",
                         "jni/x86_64/libgraft_jni.so", "prefab/prefab.json", "prefab/modules/graft/module.json",
                         "prefab/modules/graft/include/graft/graft.h", "prefab/modules/graft/include/graft/graft.hpp",
                         "prefab/modules/graft/libs/android.x86_64/abi.json",
                         "prefab/modules/graft/libs/android.x86_64/libgraft.so",
                         "META-INF/com/android/build/gradle/aar-metadata.properties"):
                assert name in names, name + " is missing"
            assert json.loads(aar.read("prefab/prefab.json"))["schema_version"] == 2
            abi = json.loads(aar.read("prefab/modules/graft/libs/android.x86_64/abi.json"))
            assert (abi["abi"], abi["api"], abi["stl"]) == ("x86_64", 26, "none"), abi
            manifest = xml.etree.ElementTree.fromstring(aar.read("AndroidManifest.xml"))
            assert manifest.get("package") == "ai.graft"
            assert manifest.find("uses-sdk").get(ANDROID + "minSdkVersion") == "26"
            for name in ("jni/x86_64/libgraft.so", "jni/x86_64/libgraft_jni.so"):
                loads = [align for kind, align in segments(aar.read(name)) if kind == 1]
                assert loads and all(align >= 16384 for align in loads), (name, loads)
            aar.extract("classes.jar", folder)
        exported = subprocess.run(["nm", "-D", "--defined-only", libjni], check=True, stdout=subprocess.PIPE, text=True)
        for line in exported.stdout.splitlines():
            name = line.split()[2]
            assert name == "JNI_OnLoad" or name.startswith("Java_ai_graft_Jni_"), name + " is exported"
        # Android 8.0 runs what javac calls release 8: class files of version 52. The packed classes run a test.
        classes = os.path.join(folder, "classes.jar")
        with zipfile.ZipFile(classes) as packed:
            files = [name for name in packed.namelist() if name.endswith(".class")]
            assert files and all(name.startswith("ai/graft/") for name in files), files
            for name in files:
                version, = struct.unpack_from(">H", packed.read(name), 6)
                assert version == 52, (name, version)
        subprocess.run([java, "-Djava.library.path=" + os.path.dirname(libjni), "-cp", classes + os.pathsep + tests_jar,
                        "ai.graft.Tests", data, "RunTests.describesTheModel"], check=True)


if __name__ == "__main__":
    main()
