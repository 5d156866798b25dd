"""Where the bytes of the shared library go, by folder: sizes.py BUILD, of a build with lld (preset small with -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=OFF). Links once more,
with a map. What the linker itself makes (unwind tables of all, relocations, symbols) is one line."""

import collections
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
commands = subprocess.run(["ninja", "-C", str(build), "-t", "commands", "runtime/libgraft.so"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.splitlines()
link = next(line for line in reversed(commands) if " -shared " in line and "libgraft.so" in line)
link = link[link.index("&& ") + 3:link.rindex(" && ")]
sizes = collections.Counter()
with tempfile.TemporaryDirectory() as folder:
    words = shlex.split(link)
    words[words.index("-o") + 1] = f"{folder}/lib.so"
    subprocess.run([*words, f"-Wl,-Map={folder}/map", "-Wl,--strip-all"], cwd=build, check=True)
    total = pathlib.Path(f"{folder}/lib.so").stat().st_size
    for line in pathlib.Path(f"{folder}/map").read_text(errors="replace").splitlines():
        # VMA, LMA, size, alignment, and one level in "file:(section)".
        row = re.match(r"\s*[0-9a-f]+\s+[0-9a-f]+\s+([0-9a-f]+)\s+\d+ {9}(\S.*):\((\.[^)]*)\)", line)
        if row is None or row[3].startswith((".bss", ".debug")):
            continue
        unit = re.search(r"(graft\w*)\.dir/(?:\w+\.unity/([a-z_]+)_\d+\.cpp|(.*?)/)?", row[2])
        name = "linker" if unit is None else "shaders" if unit[1] == "graft_shaders" else \
            ("platform/" if unit[1] == "graft_platform" else "runtime/") + (unit[2] or unit[3] or "?").split("/")[0]
        sizes[name if name != "runtime/__" else "runtime/ops"] += int(row[1], 16)
sizes["linker"] += total - sum(sizes.values())
for name, size in sizes.most_common():
    print(f"{size:9,}  {name}")
print(f"{total:9,}  in all, stripped")
