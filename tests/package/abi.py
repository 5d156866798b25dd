"""Programs that were compiled with the headers of another version run with this library: their structs are shorter than
the library's (it is newer than they are), or longer. usage: abi.py LIBRARY HEADERS TOOL WORK; exit status 77: skipped."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

LIBRARY, HEADERS, TOOL, WORK = map(pathlib.Path, sys.argv[1:5])
PROGRAM = pathlib.Path(__file__).parent / "abi.c"
STRUCT = re.compile(r"typedef struct (\w+) \{[ ]*\n(\s*size_t struct_size;.*?)\n?\} \1;", re.DOTALL)
# Of structs that the program fills or reads in full there must be fields to cut: these have what it uses first.
EXPECTED = {"graft_context_options", "graft_model_options", "graft_session_options", "graft_memory",
            "graft_trainer_options", "graft_checkpoint_options", "graft_checkpoint_info", "graft_metrics"}


def changed(text, change):
    """The header with change(name, fields) in place of each sized struct's fields, and the names of these structs."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    names = set()

    def replace(match):
        names.add(match[1])
        fields = [field.strip() for field in match[2].split(";") if field.strip()]
        return "typedef struct %s {\n  %s;\n} %s;" % (match[1], ";\n  ".join(change(fields)), match[1])

    return STRUCT.sub(replace, text), names


def cut(fields):
    last = fields[-1]
    if "," in last and "(" not in last:  # several names in one declaration
        return fields[:-1] + [last.rsplit(",", 1)[0]]
    return fields[:-1]


def grow(fields):
    return fields + ["unsigned long long of_the_next_version"]


def compiled(name, change, flags=()):
    folder = WORK / name
    shutil.copytree(HEADERS / "graft", folder / "graft")
    met = set()
    for header in (folder / "graft").glob("*.h"):
        text = header.read_text()
        if change is not None:
            text, names = changed(text, change)
            met |= names
        header.write_text(text)
    if change is not None and not EXPECTED <= met:
        sys.exit(f"These structs were not found in the headers: {sorted(EXPECTED - met)}.")
    program = folder / "abi"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", *flags, f"-I{folder}", str(PROGRAM), str(LIBRARY), "-o",
                    str(program)], check=True)
    return program


def output(program, model):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(LIBRARY.parent))
    done = subprocess.run([str(program), str(model), str(program.parent / "kept")], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode == 77:
        print(done.stderr)
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{program} failed ({done.returncode}): {done.stderr}")
    return done.stdout


shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir(parents=True)
model = WORK / "lenet.graft"
for arguments in (["--example", "lenet", "-o", str(WORK / "lenet.onnx")], [str(WORK / "lenet.onnx"), "-o", str(model)]):
    subprocess.run([str(TOOL), "convert", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
today = output(compiled("today", None), model)
for name, change, flags in (("older", cut, ()), ("newer", grow, ("-DGROWN",))):
    got = output(compiled(name, change, flags), model)
    if got != today:
        sys.exit(f"With {name} headers the program prints\n{got}instead of\n{today}")
print(today, end="")
