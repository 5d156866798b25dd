#!/usr/bin/env python3
"""Compares the C interface with an earlier one, by abidiff: abi_diff.py OLD [NEW]

OLD and NEW are folders with the headers graft/*.h, or revisions of this repository (a release's tag); NEW is the source tree
by default. Nothing of graft is built: the declarations become empty functions of a small library with debug information.
What may change is not reported: new functions, and new fields at the end of structs, which carry their size. Exit status 0:
programs of OLD run with NEW; 1: they do not, and abidiff's report says why; 77: abidiff is not installed (abigail-tools).
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = "runtime/include"
# A prototype: what is exported, up to its semicolon.
PROTOTYPE = re.compile(r"(GRAFT_API [^;{}]*\))\s*;")
# Structs with a size in them grow at their end.
SUPPRESSED = "[suppress_type]\n  type_kind = struct\n  has_data_member_inserted_at = end\n"


def headers(of, work):
    """The folder that holds graft/*.h of a folder or a revision."""
    if (pathlib.Path(of) / "graft/graft.h").is_file():
        return pathlib.Path(of)
    archive = subprocess.run(["git", "-C", ROOT, "archive", of, INCLUDE], capture_output=True)
    if archive.returncode != 0:
        raise SystemExit(f"abi_diff.py: {of} is neither a folder with graft/graft.h nor a revision of this repository.")
    work.mkdir()
    subprocess.run(["tar", "-x", "-C", work], input=archive.stdout, check=True)
    return work / INCLUDE


def library(include, work):
    """A shared library with the functions that the headers declare, and the number of these."""
    shutil.copytree(include, work / "include")
    count = 0
    names = sorted(path.name for path in (include / "graft").glob("*.h") if path.name != "vulkan.h")  # needs Vulkan's headers
    for name in names:
        path = work / "include/graft" / name
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)
        text, found = PROTOTYPE.subn(r"\1 { __builtin_trap(); }", text)
        count += found
        path.write_text(text)
    (work / "all.c").write_text("".join(f"#include <graft/{name}>\n" for name in names))
    subprocess.run(["cc", "-std=c99", "-g", "-O0", "-w", "-fPIC", "-shared", "-fno-eliminate-unused-debug-types", "-I", work / "include",
                    work / "all.c", "-Wl,-soname,libgraft.so", "-o", work / "libgraft.so"], check=True)
    return work / "libgraft.so", count


def main(old, new=ROOT / INCLUDE):
    if shutil.which("abidiff") is None:
        print("Skipped: abidiff is not installed (Debian: abigail-tools).")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        libraries = []
        for name, of in (("old", old), ("new", new)):
            include = headers(of, work / f"{name}_revision")
            (work / name).mkdir()
            libraries.append(library(include, work / name))
        (work / "suppressed").write_text(SUPPRESSED)
        command = ["abidiff", "--suppressions", work / "suppressed", "--no-added-syms"]
        result = subprocess.run([*command, libraries[0][0], libraries[1][0]], capture_output=True, text=True)
    if result.returncode & 3:
        raise SystemExit(f"abi_diff.py: abidiff failed: {result.stderr}")
    print(f"{libraries[0][1]} functions before, {libraries[1][1]} now.")
    if result.returncode:
        print(result.stdout)
        return 1
    print("Programs that were compiled with the old headers run with the new library.")
    return 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
