#!/usr/bin/env python3
"""Mutates kernels, planner, checkpoints, passes and the ONNX importer, and says which mutants no test notices.

  python3 tools/dev/mutate.py --scratch build/mutants --count 300 --seed 1 [--folder runtime/plan]
  python3 tools/dev/mutate.py --scratch build/mutants --again survived     # after writing tests; --report: figures alone

All mutants of C++ stand in one build of a copy of the tree, each behind a condition that the variable GRAFT_MUTANT makes
true; a mutated shader is compiled alone and read from a folder in place of the built one. A first run of the tests
notes which test reaches which mutant, so that a mutant costs only those tests, the quickest first.
Results are lines of JSON in SCRATCH/results.jsonl: stop and start as you like. The tree itself is only read.
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time

import mutants

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARES = {"shaders": 100, "runtime/plan": 60, "runtime/checkpoint": 50, "runtime/passes": 50, "tools/convert/onnx": 40}
LEFT_OUT = {
    r"shaders/(bench|selftest)/": "only measure, or are the test themselves",
    r"matmul_(naive|tiled)|conv_naive": "are what `graft bench ops` compares with; no plan has them",
    r"shaders/.*coopmat": "needs matrix units, which the test devices lack",
    r"onnx/examples/": "makes example files",
    r"shaders/\w+\.cpp": "packs and unpacks SPIR-V: a fault there stops every kernel",
}
# Programs and their files that are traced first; None: all. The rest takes too long for what it adds.
TRACED = {
    "unit": None, "checkpoint": ["codec", "store", "hostile", "reader", "compaction", "cipher", "crash", "rules", "example"],
    "ops": None, "conformance": None, "train": ["training_graph", "options", "frozen_precision", "streaming"],
}
KERNELS = 8  # compiled for one mutant, those with the quickest tests: a header may be part of a hundred
SECONDS = 15  # the quickest tests that reach a mutant and together take this long are run against it

HEADER = '''#pragma once
#include <bitset>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
namespace graft::mutation {
inline std::bitset<100000> reached;
inline std::set<std::string> kernels;
inline const bool traced = std::getenv("GRAFT_MUTANT_TRACE") != nullptr;
inline const unsigned active = std::getenv("GRAFT_MUTANT") ? std::atoi(std::getenv("GRAFT_MUTANT")) : 0;
inline bool on(unsigned k) {
  if (traced) reached[k] = true;
  return k == active;
}
template <unsigned K, class T> const T& min(const T& a, const T& b) { return (b < a) != on(K) ? b : a; }
template <unsigned K, class T> const T& max(const T& a, const T& b) { return (a < b) != on(K) ? b : a; }
}  // namespace graft::mutation
'''
LISTENER = '''#include "mutation.h"
namespace {
struct Trace : testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    std::FILE* file = std::fopen(std::getenv("GRAFT_MUTANT_TRACE"), "a");
    std::fprintf(file, "%s.%s %lld", test.test_suite_name(), test.name(), (long long)test.result()->elapsed_time());
    if (!test.result()->Passed() || test.result()->Skipped()) graft::mutation::reached.reset(), graft::mutation::kernels.clear();
    for (std::size_t k = 0; k < 100000; ++k) if (graft::mutation::reached[k]) std::fprintf(file, " %zu", k);
    for (const std::string& name : graft::mutation::kernels) std::fprintf(file, " %s", name.c_str());
    std::fprintf(file, "\\n");
    std::fclose(file);
    graft::mutation::reached.reset();
    graft::mutation::kernels.clear();
  }
};
}  // namespace
'''
SHADER_HOOK = '''  static const std::map<std::string_view, std::vector<std::uint32_t>> kMutated = [] {
    std::map<std::string_view, std::vector<std::uint32_t>> all;
    const char* folder = std::getenv("GRAFT_MUTANT_SHADERS");
    for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(KernelId::count_) && folder; ++i) {
      const std::string_view name = kernel_info(static_cast<KernelId>(i)).name;
      std::FILE* file = std::fopen((std::string(folder) + "/" + std::string(name) + ".spv").c_str(), "rb");
      if (file == nullptr) continue;
      std::vector<std::uint32_t> words(1 << 22);
      words.resize(std::fread(words.data(), 4, words.size(), file));
      all[name] = std::move(words);
      std::fclose(file);
    }
    return all;
  }();
  if (const auto mutated = kMutated.find(name); mutated != kMutated.end()) return mutated->second;
'''


def run(command, **options):
    return subprocess.run(command, text=True, capture_output=True, **options)


def sources(folder):
    for path in sorted((ROOT / folder).rglob("*")):
        name = str(path.relative_to(ROOT))
        if path.suffix in (".cpp", ".comp", ".glsl") and not any(re.search(p, name) for p in LEFT_OUT):
            yield name


class Mutation:
    def __init__(self, scratch, programs, seconds):
        self.programs, self.seconds = programs, seconds
        self.scratch, self.tree = scratch, (scratch / "tree").resolve()
        self.build, self.results_file, self.list_file = self.tree / "build/dev", scratch / "results.jsonl", scratch / "mutants.jsonl"

    # -- choosing and building -------------------------------------------------------------------------------------

    def choose(self, count, seed, folders):
        """Mutants of distinct places, numbered; for each folder twice its share of spare ones follow, for those that do not compile."""
        rng, chosen = random.Random(seed), []
        total = sum(SHARES[f] for f in folders)
        for folder in folders:
            found = [(name, m) for name in sources(folder)
                     for m in mutants.File((ROOT / name).read_text(), not name.endswith(".cpp")).mutants(rng)]
            rng.shuffle(found)
            wanted, taken = round(count * SHARES[folder] / total), collections.defaultdict(list)
            for name, m in found:
                if len([1 for c in chosen if c["folder"] == folder]) >= 1.6 * wanted + 5:
                    break
                if any(m.start < b and a < m.end for a, b in taken[name]):
                    continue
                taken[name].append((m.start, m.end))
                line = (ROOT / name).read_text()[:m.start].count("\n") + 1
                chosen.append({"id": len(chosen) + 1, "folder": folder, "wanted": wanted, "file": name, "line": line, **vars(m)})
        self.list_file.write_text("\n".join(json.dumps(m) for m in chosen))

    def load(self):
        self.mutants = [json.loads(line) for line in self.list_file.read_text().splitlines()]
        self.done = {}
        if self.results_file.exists():
            self.done = {r["id"]: r for r in map(json.loads, self.results_file.read_text().splitlines())}

    def note(self, mutant, outcome, **more):
        self.done[mutant["id"]] = {"id": mutant["id"], "outcome": outcome, **more}
        with self.results_file.open("a") as out:
            out.write(json.dumps(self.done[mutant["id"]]) + "\n")
        print(f"{mutant['file']}:{mutant['line']} `{one_line(mutant['before'])}` -> `{one_line(mutant['after'])}`: {outcome}",
              more.get("test", ""), f"{more.get('seconds', 0):.1f} s", flush=True)

    def write_tree(self):
        """A copy of HEAD in which mutants, kernels and tests have their switches."""
        self.tree.mkdir(parents=True, exist_ok=True)
        subprocess.run(f"git archive {(self.scratch / 'head').read_text()} | tar x -C {shlex.quote(str(self.tree))}", shell=True, cwd=ROOT, check=True)
        (self.tree / "mutation.h").write_text(HEADER)
        self.edit("shaders/kernel_code.cpp", "  if (!built()) return {};", SHADER_HOOK + "  if (!built()) return {};")
        self.edit("shaders/kernel_code.cpp", "#include <memory>", "#include <cstdio>\n#include <cstdlib>\n#include <map>\n#include <memory>")
        self.edit("shaders/kernel_code.cpp", "#include <new>", '#include <new>\n#include <string>\n#include <vector>\n#include "shaders/kernels.gen.h"')
        self.edit("runtime/kernels/kernel_cache.cpp", '#include "runtime/kernels/kernel_cache.h"',
                  '#include "mutation.h"\n#include "runtime/kernels/kernel_cache.h"')
        self.edit("runtime/kernels/kernel_cache.cpp", "for (const PlanKernel& kernel : kernels) result", """for (const PlanKernel& kernel : kernels)
    if (mutation::traced) mutation::kernels.insert(std::string(shaders::kernel_info(kernel.id).name));
  for (const PlanKernel& kernel : kernels) result""")

    def edit(self, name, before, after):
        text = (self.tree / name).read_text()
        assert before in text, f"{name} has changed: {before}"
        (self.tree / name).write_text(text.replace(before, after))

    def write_mutants(self):
        by_file = collections.defaultdict(list)
        for m in self.mutants:
            if m["file"].endswith(".cpp"):
                by_file[m["file"]] += [m] if self.done.get(m["id"], {}).get("outcome") != "no mutant" else []
        for name, some in by_file.items():
            text = run(["git", "show", f"{(self.scratch / 'head').read_text()}:{name}"], cwd=ROOT).stdout
            for m in sorted(some, key=lambda m: -m["start"]):
                text = text[:m["start"]] + switched(m) + text[m["end"]:]
            write(self.tree / name, '#include "mutation.h"\n#line 1\n' + text)

    def sync_tests(self):
        """The tests as they are now, committed or not."""
        for path in (ROOT / "tests").rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                text = path.read_bytes()
                if path.name == "test_main.cpp":
                    text = text.replace(b"\nnamespace {\n", b"\n" + LISTENER.encode() + b"namespace {\n", 1).replace(
                        b"InitGoogleTest(&argc, argv);", b"InitGoogleTest(&argc, argv);\n  if (graft::mutation::traced) "
                        b"testing::UnitTest::GetInstance()->listeners().Append(new Trace);")
                write(self.tree / path.relative_to(ROOT), text)

    def make(self):
        """Builds; mutants in whose lines the compiler finds errors are none."""
        self.sync_tests()
        if not (self.build / "build.ninja").exists():
            subprocess.run(["cmake", "--preset", "dev"], cwd=self.tree, check=True, stdout=subprocess.DEVNULL)
        self.write_mutants()
        for _ in range(8):
            built = run(["ninja", "-k", "0", "-j2", "-C", str(self.build), *[f"{p}_test" for p in self.programs]])
            (self.scratch / "build.log").write_text(built.stdout)
            if built.returncode == 0:
                return
            bad = set(re.findall(r"/((?:runtime|tools)/[\w/]+\.cpp):(\d+):\d+:", " ".join(
                line for line in built.stdout.splitlines() if "error" in line or "required from here" in line)))
            bad = {(name, int(line)) for name, line in bad}
            wrong = [m for m in self.mutants if m["id"] not in self.done and
                     any((m["file"], line) in bad for line in range(m["line"], m["line"] + 1 + m["before"].count("\n")))]
            if not wrong:
                sys.exit(f"The build fails: {self.scratch / 'build.log'}")
            for m in wrong:
                self.note(m, "no mutant", why="does not compile")
            self.write_mutants()
        sys.exit("The build still fails.")

    # -- running ---------------------------------------------------------------------------------------------------

    def environment(self, **more):
        # Conformance by the reference alone: mutants of importers need no device.
        data = os.environ.get("GRAFT_TEST_DATA", str(ROOT.parent / "shared/data"))
        return {**os.environ, "GRAFT_TEST_DATA": data, "GRAFT_CASES_REFERENCE": "1", "GRAFT_TEST_VALIDATION": "0", "GTEST_FAIL_FAST": "1", "GTEST_BRIEF": "1", **more}

    @functools.lru_cache(None)
    def names(self, program, file=None):
        suite, names = "", []
        listing = run([str(self.build / f"tests/{program}_test"), "--gtest_list_tests", *([f"--from={file}_test.cpp"] if file else [])])
        for line in listing.stdout.splitlines():
            name = line.split("#")[0].strip()
            if line.startswith(" "):
                names.append(suite + name)
            else:
                suite = name
        return names

    def untraced(self, family):
        """Tests of a family of ops that have not been traced; where they are: --programs without ops."""
        traced = {t[2] for tests in self.reaching.values() for t in tests}
        return [(300, "ops", name) for name in self.names("ops", family) if name not in traced] if (
            self.tree / f"tests/ops/{family}_test.cpp").exists() and "ops" not in self.programs else []

    def trace(self, program):
        """Runs a program's tests without mutants, those that are new: which reach which, in what time."""
        file = self.scratch / f"{program}.trace"
        known = {line.split()[0] for line in file.read_text().splitlines()} if file.exists() else set()
        for part in TRACED[program] or [None]:
            fresh = [name for name in self.names(program, part) if name not in known]
            for i in range(0, len(fresh), 400):
                run([str(self.build / f"tests/{program}_test"), "--gtest_filter=" + ":".join(fresh[i:i + 400])], cwd=self.build / "tests",
                    env=self.environment(GRAFT_MUTANT_TRACE=str(file), GTEST_FAIL_FAST="0"))

    def load_traces(self):
        self.reaching = collections.defaultdict(list)  # of a mutant's id or a kernel's name: (ms, program, test)
        for program in TRACED:
            if (self.scratch / f"{program}.trace").exists():
                for line in (self.scratch / f"{program}.trace").read_text().splitlines():
                    test, ms, *what = line.split()
                    for w in what:
                        self.reaching[w].append((int(ms), program, test))

    def tests(self, keys, more=()):
        """Groups of (program, tests, normal seconds), the quickest tests first."""
        spent, groups = 0, []
        for ms, program, test in [*sorted({t for key in keys for t in self.reaching[key]}), *more]:
            spent += ms / 1000
            if spent > self.seconds and groups:
                break
            same = [g for g in groups if g[0] == program and g[2] + ms / 1000 < 3 and len(g[1]) < 400]
            if same:
                same[-1][1].append(test)
                same[-1][2] += ms / 1000
            else:
                groups.append([program, [test], ms / 1000])
        return groups

    def judge(self, mutant, keys, environment, more=()):
        start = time.time()
        groups = self.tests(keys, more)
        for program, names, seconds in groups:
            process = subprocess.Popen([str(self.build / f"tests/{program}_test"), "--gtest_filter=" + ":".join(names)],
                                       cwd=self.build / "tests", env=self.environment(**environment), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                                       preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
                                                           resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))))
            try:
                output, _ = process.communicate(timeout=20 + 10 * seconds)
                failed = re.search(r"\[  FAILED  \] ([^\s,]+)", output)
                if process.returncode != 0:
                    return self.note(mutant, "killed", test=f"{program}: {failed.group(1) if failed else one_line(output[-80:])}",
                                     seconds=time.time() - start)
            except subprocess.TimeoutExpired:
                return self.note(mutant, "killed", test=f"{program}: time", seconds=time.time() - start)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        self.note(mutant, "survived" if groups else "not reached", seconds=time.time() - start, tests=sum(len(g[1]) for g in groups))

    def users(self, name, known={}):
        """Shaders that a file of shaders is part of."""
        if not known:
            includes = {str(p.relative_to(self.tree)): set(re.findall(r'#include "([^"]+)"', p.read_text()))
                        for p in (self.tree / "shaders").rglob("*") if p.is_file()}
            for shader in (s for s in includes if s.endswith(".comp")):
                todo, seen = [shader], {shader}
                while todo:
                    todo += [i for i in includes.get(todo.pop(), ()) if i not in seen and not seen.add(i)]
                for s in seen:
                    known.setdefault(s, set()).add(shader)
            self.commands = {}
            for line in run(["ninja", "-C", str(self.build), "-t", "commands", "graft_shaders"]).stdout.splitlines():
                match = re.search(r"(\S*glslang\S* -V .*?) --depfile \S+ -o \S*?(\w+)\.spv (\S+)", line)
                if match:
                    self.commands.setdefault(str(pathlib.Path(match[3]).relative_to(self.tree)), []).append((match[2], match[1], match[3]))
        return known.get(name, set())

    def judge_shader(self, mutant):
        overlay, folder, plain = self.scratch / "overlay", self.scratch / "spirv", self.scratch / "plain"
        for some in (folder, plain):
            some.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        shutil.copytree(self.tree / "shaders", overlay / "shaders", dirs_exist_ok=True)
        text = (self.tree / mutant["file"]).read_text()
        (overlay / mutant["file"]).write_text(text[:mutant["start"]] + mutant["after"] + text[mutant["end"]:])
        users = self.users(mutant["file"])  # first: it knows the commands
        kernels = [k for shader in users for k in self.commands.get(shader, [])]
        kernels.sort(key=lambda k: (min(self.reaching[k[0]], default=(10**6,)), k[0]))
        changed = []
        for name, command, path in kernels[:KERNELS]:
            for into, root in ((plain / f"{name}.spv", self.tree), (folder / f"{name}.spv", overlay)):
                made = [word.replace(str(self.tree), str(root)) for word in [*shlex.split(command), "-o", str(into), path]]
                if not into.exists() and run(made).returncode != 0:
                    return self.note(mutant, "no mutant", why="does not compile")
            if (folder / f"{name}.spv").read_bytes() == (plain / f"{name}.spv").read_bytes():
                (folder / f"{name}.spv").unlink()
            else:
                changed.append(name)
        if kernels and not changed:
            return self.note(mutant, "no mutant", why="the same SPIR-V")
        family = self.untraced(mutant["file"].split("/")[1])
        self.judge(mutant, changed, {"GRAFT_MUTANT_SHADERS": str(folder)}, family)

    def run(self, folders, wanted):
        for folder in folders:
            some = [m for m in self.mutants if m["folder"] == folder]
            for m in some:
                counted = [d for d in some if self.done.get(d["id"], {}).get("outcome") not in (None, "no mutant")]
                if m["id"] not in self.done and len(counted) >= m["wanted"] or not wanted(self.done.get(m["id"])):
                    continue
                if m["file"].endswith(".cpp"):
                    self.judge(m, [str(m["id"])], {"GRAFT_MUTANT": str(m["id"])})
                else:
                    self.judge_shader(m)

    def report(self):
        print(f"\n{'folder':22} mutants killed survived not reached score   (seconds a mutant)")
        for folder in SHARES:
            some = [self.done[m["id"]] for m in self.mutants if m["folder"] == folder and m["id"] in self.done]
            n = collections.Counter(r["outcome"] for r in some)
            all_ = n["killed"] + n["survived"] + n["not reached"]
            if all_:
                seconds = sum(r.get("seconds", 0) for r in some) / all_
                print(f"{folder:22} {all_:7} {n['killed']:6} {n['survived']:8} {n['not reached']:11} {n['killed'] / all_:5.0%}   ({seconds:.1f})")
        for m in self.mutants:
            result = self.done.get(m["id"], {})
            if result.get("outcome") in ("survived", "not reached"):
                print(f"{m['file']}:{m['line']} `{one_line(m['before'])}` -> `{one_line(m['after'])}` ({result['outcome']}, {m['id']})")


def switched(m):
    """C++ that is the mutant where it is switched on, on as many lines as before."""
    on = f"graft::mutation::on({m['id']})"
    after = re.sub(r"\s*\n\s*", " ", m["after"])
    if m["what"] in ("std::min", "std::max"):
        extreme = m["what"].replace("std", "graft::mutation")
        return re.sub(r"^std::m\w+(<?)", lambda x: f"{extreme}<{m['id']}u" + (", " if x[1] else ">"), m["before"])
    if m["statement"]:
        if m["what"] == "removed":
            return f"{{ if (!{on}) {{ {m['before']} }} }}"
        return f"{{ if ({on}) {{ {after} }} else {{ {m['before']} }} }}" if m["what"] != "return" else f"{{ if ({on}) {{ {after} }} {m['before']} }}"
    if m["what"] == "!":
        return f"({on} != {m['before']})"
    if m["what"] == "swap":
        (a, b), (c, d) = m["before"].split(", "), m["after"].split(", ")
        return f"({on} ? {c} : {a}), ({on} ? {d} : {b})"
    return f"({on} ? ({after}) : ({m['before']}))"


def write(path, text):
    """Only where it differs, so that ninja builds little."""
    text = text.encode() if isinstance(text, str) else text
    if not path.exists() or path.read_bytes() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)


def one_line(text):
    return re.sub(r"\s+", " ", text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=pathlib.Path, required=True, help="a folder for the copy, its build and the results")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", action="append", choices=list(SHARES))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests for one mutant")
    parser.add_argument("--programs", type=lambda text: text.split(","), default=list(TRACED), help="of tests, without _test; all")
    parser.add_argument("--again", choices=["survived"], help="those that survived, with the tests as they are now")
    parser.add_argument("--no-build", action="store_true", help="with the programs and traces that are there (after a rebase, whose "
                        "tests do not fit the copy: else take a new SCRATCH)")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    args = parser.parse_args()
    work = Mutation(args.scratch.resolve(), args.programs, args.seconds)
    if not work.list_file.exists():
        if run(["git", "status", "--porcelain", "--", *SHARES], cwd=ROOT).stdout:
            sys.exit("The folders to mutate have uncommitted changes.")
        work.scratch.mkdir(parents=True, exist_ok=True)
        work.choose(args.count, args.seed, args.folder or list(SHARES))
        (work.scratch / "head").write_text(run(["git", "rev-parse", "HEAD"], cwd=ROOT).stdout.strip())
    work.load()
    if not args.report:
        if not (work.tree / "mutation.h").exists():
            work.write_tree()
        if not args.no_build:
            work.make()
            for program in args.programs:
                work.trace(program)
        work.load_traces()
        os.nice(15)  # the many runs are for idle cores
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, signal.default_int_handler)
        try:
            work.run(args.folder or list(SHARES), lambda result: result is None if not args.again else result and result["outcome"] in ("survived", "not reached"))
        except KeyboardInterrupt:
            pass
    work.report()


if __name__ == "__main__":
    main()
