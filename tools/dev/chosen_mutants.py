#!/usr/bin/env python3
"""Runs tests against faults that were chosen by hand, and says which of them no test notices.

  python3 tools/dev/chosen_mutants.py --scratch build/chosen            # all of chosen_mutants.txt
  python3 tools/dev/chosen_mutants.py --scratch build/chosen --only 3,17 --tests "train:kept_rules cli/resume"
  python3 tools/dev/chosen_mutants.py --scratch build/chosen --report   # prints the table of what is known

It copies the tree, puts all faults into the copy, and builds it once. The variable GRAFT_MUTANT switches one fault on.
Results are lines in SCRATCH/table.tsv; a fault that stands there is not tried again. tools/dev/mutate.py makes random
faults instead; it has no list of them to keep.
"""
import argparse
import collections
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SLOW = "no end within"
HEADER = '''#pragma once
#include <cstdlib>
inline bool graft_mutant(int number) {
  static const int active = std::getenv("GRAFT_MUTANT") ? std::atoi(std::getenv("GRAFT_MUTANT")) : 0;
  return number == active;
}
'''


@dataclasses.dataclass
class Mutant:
    file: str
    tests: list
    what: str = ""
    before: list = dataclasses.field(default_factory=list)
    after: list = dataclasses.field(default_factory=list)
    number: int = 0

    def area(self):
        return "/".join(self.file.split("/")[:2])


def read_mutants(path):
    found = []
    for line in path.read_text().splitlines():
        mark, text = line[:2], line[2:]
        if mark == "@ ":
            file, tests = text.split(" | ")
            found.append(Mutant(file, tests.split(), number=len(found) + 1))
        elif mark == "= ":
            found[-1].what = text
        elif mark in ("- ", "+ "):
            (found[-1].before if mark == "- " else found[-1].after).append(text)
        elif line and mark != "# ":
            sys.exit(f"{path} has a line that is none of an entry: {line}")
    return found


def write(path, data):
    """Only if it differs, so that little is built again."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy_tree(tree, mutants):
    """The tracked files as they are now, committed or not, with all faults in them."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    texts = {name: (ROOT / name).read_text() for name in {m.file for m in mutants}}
    for m in mutants:
        before, after = "\n".join(m.before), "\n".join(m.after)
        if texts[m.file].count(before) != 1:
            sys.exit(f"{m.file} has these lines {texts[m.file].count(before)} times, not once (\"{m.what}\"):\n{before}")
        texts[m.file] = texts[m.file].replace(before, after.replace("MUTANT", f"graft_mutant({m.number})"))
    for name in names:
        text = texts.get(name)
        write(tree / name, ('#include "graft_mutant.h"\n' + text).encode() if text else (ROOT / name).read_bytes())
    write(tree / "graft_mutant.h", HEADER.encode())


def programs(mutants):
    return sorted({test.split(":")[0] + "_test" for m in mutants for test in m.tests if not test.startswith("cli/")}) + ["graft_cli"]


def build(tree, targets, jobs):
    with (tree.parent / "build.log").open("w") as log:
        if not (tree / "build/dev/build.ninja").exists():
            launchers = [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX")]
            has_ccache = subprocess.run(["which", "ccache"], capture_output=True).returncode == 0
            subprocess.run(["cmake", "--preset", "dev", *(launchers if has_ccache else [])], cwd=tree, stdout=log, check=True)
        command = ["cmake", "--build", str(tree / "build/dev"), "--target", *targets, f"-j{jobs}"]
        if subprocess.run(command, stdout=log, stderr=log).returncode != 0:
            sys.exit(f"The build fails: {tree.parent / 'build.log'}")


def command_of(tree, test):
    if test.startswith("cli/"):
        name, _, part = test[4:].partition(":")
        return [sys.executable, "-B", str(tree / f"tests/cli/{name}_test.py"), str(tree / "build/dev/tools/graft/graft"), "-f",
                *(["-k", part] if part else [])]
    program, stem = test.split(":", 1)
    stem, _, part = stem.partition(":")
    return [str(tree / f"build/dev/tests/{program}_test"), f"--gtest_filter={part}" if part else f"--from={stem}_test.cpp"]


def run(tree, test, number, limit):
    """None if the test passes; else the name of the first test that fails."""
    environment = {**os.environ, "GRAFT_MUTANT": str(number), "GTEST_FAIL_FAST": "1", "GTEST_BRIEF": "1", "GRAFT_TEST_VALIDATION": "0"}
    process = subprocess.Popen(command_of(tree, test), cwd=tree / "build/dev/tests", env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"{SLOW} {limit} s"
    if re.search(r"\] 0 tests from|^Ran 0 tests", output, re.M):
        return "no such test"
    if process.returncode in (0, 77):
        return None
    named = re.search(r"\[  FAILED  \] ([\w./]+)|^(?:FAIL|ERROR): (\w+)", output, re.M)
    return (named[1] or named[2]) if named else f"exit status {process.returncode}"


def known(table):
    lines = table.read_text().splitlines() if table.exists() else []
    return {(row[1], row[2]): row for row in (line.split("\t") for line in lines)}  # the newest line counts


def report(mutants, rows):
    counts = collections.defaultdict(collections.Counter)
    for m in mutants:
        row = rows.get((m.file, m.what))
        counts[m.area()][row[3] if row else "not judged"] += 1
    print(f"{'area':20} mutants killed survived not judged")
    for area, n in counts.items():
        print(f"{area:20} {sum(n.values()):7} {n['killed']:6} {n['survived']:8} {n['not judged']:10}")
    for m in mutants:
        row = rows.get((m.file, m.what))
        if row and row[3] == "survived":
            print(f"survived: {m.number} {m.file}: {m.what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="a folder for the copy, its build and the results")
    parser.add_argument("--only", type=lambda text: [int(n) for n in text.split(",")], help="numbers of entries, also if they are known")
    parser.add_argument("--again", action="store_true", help="those that no test killed")
    parser.add_argument("--tests", type=str.split, help="these instead of the entries' own")
    parser.add_argument("--limit", type=int, default=90, help="seconds for one test; without a fault it must pass in these (90)")
    parser.add_argument("--jobs", type=int, default=2, help="of the build (2)")
    parser.add_argument("--no-build", action="store_true", help="run what is built")
    parser.add_argument("--report", action="store_true", help="only print the table")
    args = parser.parse_args()
    mutants, scratch = read_mutants(pathlib.Path(__file__).with_suffix(".txt")), args.scratch.resolve()
    table, tree = scratch / "table.tsv", scratch / "tree"
    scratch.mkdir(parents=True, exist_ok=True)
    if args.report:
        return report(mutants, known(table))
    if not args.no_build:
        copy_tree(tree, mutants)
        build(tree, programs(mutants), args.jobs)
    good = {}  # tests that pass without a fault
    for m in mutants:
        row = known(table).get((m.file, m.what))
        if m.number not in args.only if args.only else row and not (args.again and row[3] != "killed"):
            continue
        start, by, tests, judges = time.time(), None, args.tests or m.tests, []
        for test in tests:
            if test not in good:
                good[test] = run(tree, test, 0, args.limit)
                if good[test]:
                    print(f"{test} fails without a fault ({good[test]}) and is left out.", flush=True)
                start = time.time()
            if good[test]:
                continue
            by = run(tree, test, m.number, args.limit)
            if by and by.startswith(SLOW) and run(tree, test, 0, args.limit):
                by = None  # the machine is busy: it does not end without the fault either
                continue
            judges.append(test)
            if by:
                break
        outcome = ("killed", f"{test} {by}") if by else ("survived" if judges else "not judged", " ".join(judges))
        with table.open("a") as out:
            out.write("\t".join([str(m.number), m.file, m.what, *outcome, f"{time.time() - start:.1f} s"]) + "\n")
        print(m.number, m.file, m.what, *outcome, f"{time.time() - start:.1f} s", sep="  ", flush=True)
    report(mutants, known(table))


if __name__ == "__main__":
    main()
