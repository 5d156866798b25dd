"""What the C interface has, each binding has, or says why not: every function of runtime/include/graft/*.h, every member
of its structs and every constant of its enums is looked for in platform/android and apple, and every function in platform/python,
where structs and enums are generated. left_out.txt lists what is left out on purpose, with the reason; an entry that leaves nothing
out is a failure as well.

usage: complete_test.py [--list]
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Enums of C whose constants an app chooses or is told, and what they are called in Swift: there they stand in
# the order of C's numbers. Java's and Python's are generated.
ENUMS = {
    "graft_status": "Errors.swift:Kind",
    "graft_log_level": "Context.swift:LogLevel",
    "graft_matmul_precision": "Context.swift:MatmulPrecision",
    "graft_priority": "Context.swift:Priority",
    "graft_weight_check": "Context.swift:WeightCheck",
    "graft_precision": "Context.swift:Precision",
    "graft_dtype": "Tensors.swift:ElementType",
    "graft_stage": "Context.swift:Stage",
    "graft_preference": "Data.swift:Preference",
    "graft_pooling": "Embedder.swift:Pooling",
    "graft_cache_format": "Generator.swift:CacheFormat",
    "graft_stop_reason": "Generator.swift:StopReason",
    "graft_element": "Session.swift:Element",
    "graft_loss": "TrainerOptions.swift:Loss",
    "graft_optimizer": "TrainerOptions.swift:Optimizer",
    "graft_schedule": "TrainerOptions.swift:Schedule",
}
FOLDERS = {"swift": "platform/apple/Sources/Graft"}


#: What tools/interface writes of the headers, by the name of the file.
GENERATED = {}


def generate(folder):
    subprocess.run([sys.executable, "-B", ROOT / "tools/interface/generate.py", ROOT / "runtime/include/graft", folder], check=True)
    GENERATED.update((path.name, path) for path in pathlib.Path(folder).rglob("*.*"))


def text_of(paths):
    return {path: re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: " " * len(m.group()), path.read_text(encoding="utf-8"), flags=re.S)
            for path in sorted(paths)}


def interface():
    """Functions; members by struct; constants by enum."""
    functions, structs, enums = [], {}, {}
    for text in text_of((ROOT / "runtime/include/graft").glob("*.h")).values():
        text = re.sub(r"^[ \t]*#.*$", "", text, flags=re.M)
        functions += re.findall(r"GRAFT_API[^;(]*?\b(graft_\w+)\(", text)
        for name, body in re.findall(r"typedef struct (graft_\w+)\s*\{(.*?)\}\s*\1;", text, flags=re.S):
            members = []
            for declaration in body.split(";"):
                pointer = re.search(r"\(\*(\w+)\)", declaration)
                found = [pointer.group(1)] if pointer else re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", declaration.strip())
                members += [member for member in found if member != "struct_size"]
            structs[name] = members
        for name, body in re.findall(r"typedef enum (graft_\w+)[^{]*\{(.*?)\}\s*\1;", text, flags=re.S):
            enums[name] = re.findall(r"(GRAFT_\w+)", body)
    return sorted(set(functions)), structs, enums


def balanced(text, start):
    """What stands between the bracket at `start` and the one that closes it."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[start + 1:i]
    return ""


def members_used(texts, structs):
    """Members that a binding's source reads or writes, by struct: of a variable of that struct, or of its type."""
    used = {name: set() for name in structs}
    types = {name: name for name in structs}
    word = "(?:" + "|".join(sorted(types, key=len, reverse=True)) + ")"
    declaration = re.compile(
        rf"\bsized<(?P<a>{word})>|(?<![\w.])(?P<b>{word})(?:>|\s)*[&*\s]*(?P<bv>\w+)\b|\b(?P<cv>\w+)\s*[:=]\s*(?:inout\s+)?(?:\w+<)?(?P<c>{word})\b")
    sized = re.compile(r"(\w+)\s*=\s*(?:\w+::)*$")
    for text in texts.values():
        events = []
        for found in declaration.finditer(text):
            kind = types[found["a"] or found["b"] or found["c"]]
            if found["a"]:
                name = sized.search(text, max(0, found.start() - 60), found.start())
                events.append((found.start(), name.group(1) if name else "", kind))
            else:
                events.append((found.start(), found["bv"] or found["cv"], kind))
        known = {}
        at = 0
        uses = sorted([(m.start(), m) for m in re.finditer(r"\b(\w+)(?:\.|->)(\w+)", text)], key=lambda use: use[0])
        for position, use in uses:
            while at < len(events) and events[at][0] <= position:
                known[events[at][1]] = events[at][2]
                at += 1
            if use.group(1) in known:
                used[known[use.group(1)]].add(use.group(2))
        for kind, member in re.findall(rf"&(?:graft::)?({word})::(\w+)", text):
            used[types[kind]].add(member)
        for kind, labels in ((found[1], balanced(text, found.end() - 1))
                             for found in re.finditer(rf"\b({word})\{{(?=\s*\.)", text)):
            used[types[kind]].update(re.findall(r"\.(\w+) =", labels))
        for name in structs:
            # Swift's initializers by member; in C++ lists that are filled by position.
            for found in re.finditer(rf"\b{name}\(", text):
                used[name].update(re.findall(r"(\w+):", balanced(text, found.end() - 1)))
            if re.search(rf"vector<{name}>", text):
                used[name].update(structs[name])
    return used


def members_missing(texts, structs, named):
    used = members_used(texts, structs)
    for name, members in structs.items():
        if name in named:
            yield from (f"{name}.{member}" for member in members if member not in used[name])
        else:
            yield name


def functions_named(texts, functions):
    words = set()
    for text in texts.values():
        words.update(re.findall(r"\bgraft_\w+", text))
    return [name for name in functions if name in words], words


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--list", action="store_true", help="print what is missing, without left_out.txt")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generate(folder)
        compare(asked)


def compare(asked):
    functions, structs, enums = interface()
    if len(functions) < 200 or len(structs) < 60:
        sys.exit("The headers were not understood.")
    gaps = []
    for binding, files in {
            "python": text_of((ROOT / "platform/python/graft").glob("*.py")),
            "java": text_of([*(ROOT / "platform/android/jni").glob("*.*"), GENERATED["jni.h"], GENERATED["jni.cpp"]]),
            "swift": text_of([*(ROOT / "platform/apple/Sources/Graft").glob("*.swift"),
                              GENERATED["TrainerOptions.swift"]])}.items():
        there, words = functions_named(files, functions)
        gaps += [(binding, name) for name in functions if name not in there]
        if binding != "python":
            gaps += [(binding, name) for name in members_missing(files, structs, words)]
            gaps += [(binding, name) for name in constants_missing(binding, enums)]
    if asked.list:
        print("\n".join(" ".join(gap) for gap in gaps))
        return
    reasons = []
    for number, line in enumerate((pathlib.Path(__file__).parent / "left_out.txt").read_text(encoding="utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        parts = line.split(None, 2)
        if len(parts) != 3:
            sys.exit(f"left_out.txt, line {number}: \"{line}\" is not BINDINGS NAME REASON.")
        reasons.append((parts[0].split(","), parts[1], number))
    problems = []
    for _, pattern, number in reasons:
        for binding in reasons[[r[2] for r in reasons].index(number)][0]:
            if not any(gap[0] == binding and fnmatch.fnmatchcase(gap[1], pattern) for gap in gaps):
                problems.append(f"left_out.txt, line {number}: {binding} leaves out nothing of the name {pattern}.")
    for binding, name in gaps:
        if not any(binding in of and fnmatch.fnmatchcase(name, pattern) for of, pattern, _ in reasons):
            problems.append(f"{binding} lacks {name}: add it, or say why not in tests/bindings/left_out.txt.")
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(functions)} functions, {sum(map(len, structs.values()))} members of {len(structs)} structs and {len(enums)} enums: "
          f"all are in the bindings but for {len(gaps)}, for which {len(reasons)} reasons stand.")


def constants_there(binding, where):
    """How many constants an enum of that binding has."""
    file, name = where.split(":")
    path = GENERATED.get(file, ROOT / FOLDERS[binding] / file)
    text = text_of([path]).popitem()[1]
    start = re.search(rf"\benum {name}\b[^{{]*", text)
    body = balanced(text, start.end())
    cases = re.findall(r"\bcase ([^\n]*)", re.sub(r"\bvar .*", "", body, flags=re.S))
    return sum(len(case.split(",")) for case in cases)


def constants_missing(binding, enums):
    if set(ENUMS) - set(enums):
        sys.exit(f"The headers lack {sorted(set(ENUMS) - set(enums))}.")
    for name, where in ENUMS.items() if binding in FOLDERS else ():
        there, wanted = constants_there(binding, where), len(set(enums[name]))
        wanted -= name == "graft_status"  # success is no error
        if there != wanted:
            yield f"{name}.{wanted}_constants_not_{there}"


if __name__ == "__main__":
    main()
