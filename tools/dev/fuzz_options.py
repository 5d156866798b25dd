"""Trains with random options through the command line, C, C++, Python and Java, and compares the weights byte for byte.

    fuzz_options.py BUILD [--draws N] [--minutes M] [--seed S] [--verbose]
    fuzz_options.py --setters FOLDER

BUILD is a build folder with the command line, defaults_c and defaults_cpp; the Python package and graft.jar take part if they are
there. Each draw is a loss, an optimizer, a schedule and some of the options that these read, with legal values, as
runtime/include/graft/trainer_options.h describes them. A run has two steps of a small network.
A difference is a weight, or options that some languages take and others refuse. Not drawn are options of language models, workers
and data, groups of parameters, sums of losses, and the plateau schedule, which needs evaluations.
--setters writes set_option.h and set_option.hpp, by which the programs in C and C++ set an option by its name.
Needs numpy, as the Python package does. Exit status: 0 no difference, 1 some, 77 there is no device.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools/interface"))

from description import Description  # noqa: E402

STRUCT = "graft_trainer_options"
stopped = []  # signals: Ctrl-C ends a run after its group of draws, with its counts
STEPS, BATCH = 2, 4
#: Options that the command line has under a name of its own.
FLAGS = {"precision": "--precision", "no_fusion": "--no-fusion", "recover_device": "--recover-device"}
#: What is drawn in its own way, or not at all.
LEFT_OUT = {"loss", "losses", "optimizer", "schedule", "sample_weights", "distill_temperature", "distill_weight", "preference_beta",
            "desirable_weight", "undesirable_weight", "target_length", "neftune_alpha", "total_steps", "batch"}
#: Values for options whose legal ones depend on the network and its data.
VALUES = {
    "ignore_index": ("-100", "0", "3"),
    "class_axis": ("1", "-1"),
    "class_weights": ("1,2.5,1,0.25", "0.5,0.5,0.5,0.5"),
    "pos_weight": ("2.5", "1,2,3,4"),
    "blank": ("0", "3"),
    "adamw_for": ("hidden.w", "*.w", "hidden*,y.w"),
    "freeze": ("hidden.w", "*.b", "hidden*,*.b"),
    "ns_steps": ("1", "3", "6"),
    "warmup_steps": ("1", "2", "5"),
    "step_size": ("1", "2"),
    "micro_batch": ("1", "2", "4"),
    "seed": ("1", "7", "4294967295"),
    "max_time": ("3600",),
    "loss_scale": ("0", "-1", "1", "1024"),
    "growth_interval": ("1", "2"),
}


def structure():
    description = Description(ROOT / "runtime/include/graft")
    return description.structs[STRUCT], description.enums


# --- the programs' setters

def is_settable(field, enums):
    return field.ctype in enums or field.is_switch or field.is_number or field.is_text or field.ctype == "const double*"


def c_setter(struct, enums):
    lines = ["/* Written by tools/dev/fuzz_options.py: sets an option by its name. Texts and numbers must outlive the options. */",
             "#include <stdlib.h>", "#include <string.h>", "",
             f"static int set_option({STRUCT}* options, const char* name, const char* value) {{"]
    for field in struct.fields:
        if not is_settable(field, enums):
            continue
        to = f"options->{field.name}"
        if field.ctype in enums:
            body = f"{to} = ({field.ctype})atoi(value);"
        elif field.is_text:
            body = f"{to} = value;"
        elif field.is_real:
            body = f"{to} = strtod(value, NULL);"
        elif field.ctype == "const double*":
            body = (f"static double numbers[16]; char* end = (char*)value; size_t count = 0; while (*end != 0 && count < 16) {{ "
                    f"numbers[count++] = strtod(*end == ',' ? end + 1 : end, &end); }} {to} = numbers; options->{field.count} = count;")
        else:
            body = f"{to} = ({field.ctype}){'strtoll' if field.is_switch or field.ctype.startswith('int') else 'strtoull'}(value, NULL, 10);"
        lines.append(f"  if (strcmp(name, \"{field.name}\") == 0) {{ {body} return 1; }}")
    return lines + ["  return 0;", "}"]


def cpp_setter(struct, enums):
    lines = ["// Written by tools/dev/fuzz_options.py: sets an option by its name.", "#include <sstream>", "#include <string>", "#include <vector>", "",
             "inline std::vector<std::string> parts_of(const std::string& text) {", "  std::vector<std::string> parts;",
             "  std::istringstream in(text);", "  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);", "  return parts;", "}", "",
             "inline bool set_option(graft::TrainerOptions& options, const std::string& name, const std::string& value) {"]
    for field in struct.fields:
        if not is_settable(field, enums):
            continue
        to = f"options.{field.name}"
        if field.ctype in enums:
            body = f"{to} = static_cast<{field.ctype}>(std::stoi(value));"
        elif field.is_list_of_names:
            body = f"{to} = parts_of(value);"
        elif field.is_text:
            body = f"{to} = value;"
        elif field.is_switch:
            body = f"{to} = value == \"1\";"
        elif field.is_real:
            body = f"{to} = std::stod(value);"
        elif field.ctype == "const double*":
            body = f"for (const std::string& part : parts_of(value)) {to}.push_back(std::stod(part));"
        else:
            body = f"{to} = static_cast<std::{field.ctype}>({'std::stoll' if field.ctype.startswith('int') else 'std::stoull'}(value));"
        lines.append(f"  if (name == \"{field.name}\") {{ {body} return true; }}")
    return lines + ["  return false;", "}"]


def write_setters(folder):
    struct, enums = structure()
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for name, lines in (("set_option.h", c_setter(struct, enums)), ("set_option.hpp", cpp_setter(struct, enums))):
        pathlib.Path(folder, name).write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- draws

def number_in(rng, field):
    """A legal number: an end of the range now and then, one of a usual size otherwise."""
    r = field.range
    low, high = (float(r.low), float(r.high)) if r else (0.0, float("inf"))
    if field.is_whole:
        return str(rng.choice([n for n in (0, 1, 2, 5, 100) if low <= n <= high]))
    if r and not r.low_open and rng.random() < 0.15:
        return r.low if float(r.low) > -1e9 else "0"
    if r and not r.high_open and high < 1e9 and rng.random() < 0.15:
        return r.high
    if high - low < 100 and low < high:
        return f"{low + (high - low) * rng.uniform(0.01, 0.99):.4g}"
    return f"{max(low, 0) + 10 ** rng.uniform(-4, 1):.4g}"


def value_of(rng, field, enums):
    if field.name in VALUES:
        return rng.choice(VALUES[field.name])
    if field.ctype in enums:
        return str(rng.choice(enums[field.ctype].constants).value)
    if field.is_switch:
        return str(rng.randrange(2))
    return number_in(rng, field)


class Draw:
    """Numbers of a loss and an optimizer, and the text of each other option by its field."""

    def __init__(self, rng, struct, enums, losses, optimizers):
        self.loss, self.optimizer = rng.randrange(len(losses)), rng.randrange(len(optimizers))
        schedules = [c for c in enums["graft_schedule"].constants if c.name != "plateau"]
        schedule = rng.choice(schedules)
        chosen = {enums["graft_loss"].constants[self.loss].name, enums["graft_optimizer"].constants[self.optimizer].name, schedule.name}
        fields = {field.name: field for field in struct.fields}
        self.values = {}
        if rng.random() < 0.5:
            self.values["schedule"] = str(schedule.value)
            if schedule.name in fields["total_steps"].readers:
                self.values["total_steps"] = str(STEPS)
        else:
            chosen.discard(schedule.name)
        for field in struct.fields:
            told = field.flag or field.name in FLAGS or field.name == "micro_batch"
            read = not field.readers or chosen & set(field.readers)
            if told and read and field.name not in LEFT_OUT and is_settable(field, enums) and rng.random() < 0.25:
                self.values[field.name] = value_of(rng, field, enums)
        if "optimizer_in_backward" in self.values:  # documented as refused together
            for name in ("clip_norm", "loss_scale", "precision"):
                self.values.pop(name, None)
        if "proximal" in self.values:
            self.values.pop("loss_scale", None)
        # The command line refuses what has no effect.
        if float(self.values.get("loss_scale", "0")) <= 0:
            self.values.pop("growth_interval", None)
        if "muon" not in chosen and float(self.values.get("momentum", "0")) <= 0:
            self.values.pop("nesterov", None)

    def text(self):
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


def tool_flags(draw, struct, enums):
    flags, values = [], dict(draw.values)
    micro = int(values.pop("micro_batch", BATCH))
    flags += ["--batch", micro, "--accumulate", BATCH // micro]
    values.pop("total_steps", None)  # the command line counts them
    for field in struct.fields:
        if field.name not in values:
            continue
        flag, value = field.flag or FLAGS[field.name], values[field.name]
        if field.ctype in enums:
            flags.append(f"{flag}={next(c.word for c in enums[field.ctype].constants if str(c.value) == value)}")
        elif not field.is_switch:
            flags.append(f"{flag}={value}")
        elif value == "1":
            flags.append(flag)
        elif field.defaults:
            flags.append(f"--no-{flag.removeprefix('--')}")
    return flags


def python_keywords(draw, struct, enums):
    keywords = {}
    for field in struct.fields:
        if field.name not in draw.values:
            continue
        value = draw.values[field.name]
        if field.ctype in enums:
            value = next(c.word for c in enums[field.ctype].constants if str(c.value) == value)
        elif field.is_list_of_names:
            value = value.split(",")
        elif field.ctype == "const double*":
            value = [float(part) for part in value.split(",")]
        elif field.is_switch:
            value = value == "1"
        elif field.is_number:
            value = float(value) if field.is_real else int(value)
        keywords[field.name] = value
    return keywords


# --- runs

def python_run(package, path):
    """By the package alone; in a process of its own."""
    sys.path.insert(0, package)
    import graft
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    context = graft.Context(cache=None)
    for one in job["runs"]:
        try:
            model = context.load(job["model"])
            data = context.open_data(job["data"], model=model)
            trainer = model.trainer(batch=BATCH, data=data, **one["options"])
            loader = data.loader(batch=BATCH, epochs=1, seed=one["options"].get("seed", 0))
            while trainer.train_next(loader) is not None:
                pass
            trainer.store()
            model.save(one["out"])
        except (graft.Error, ValueError, TypeError) as problem:
            print(f"{one['out']}: {problem}", file=sys.stderr)


def programs_of(build):
    """Command lines by language."""
    found = {"C": [build / "tests/defaults_c"], "C++": [build / "tests/defaults_cpp"]}
    if (pathlib.Path(build) / "platform/python/graft/_c.py").exists():
        found["Python"] = [sys.executable, "-B", __file__, "--run", build / "platform/python"]
    jars = [build / "platform/android/graft.jar", build / "tests/jvm/tests.jar"]
    java = shutil.which("java")
    if java and all(jar.exists() for jar in jars):
        found["Java"] = [java, f"-Djava.library.path={build}/platform/android", "-cp", os.pathsep.join(map(str, jars)), "ai.graft.DefaultsRun"]
    return found


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 77:
        print("skipped:", done.stdout)
        sys.exit(77)
    return done.stdout.strip()


def outcome(path, said):
    """The bytes of the weights, or what is said in place of them."""
    if path.exists():
        contents = path.read_bytes()
        path.unlink()
        return contents
    lines = [line for line in said.splitlines() if line != "Run with --help for more information."]
    lines = [line for line in lines if line.startswith(f"{path}: ")] or lines or ["nothing"]
    return lines[-1].removeprefix(f"{path}: ")


def train_group(build, programs, model, spec, draws, folder, lists):
    """Outcomes by draw and language, of draws that share a model and a data set."""
    struct, enums, losses, optimizers = lists
    outcomes = [{} for _ in draws]
    for i, draw in enumerate(draws):
        out = folder / f"tool_{i}.graft"
        said = run([build / "tools/graft/graft", "train", model, "--data", spec, "--loss", losses[draw.loss], "--optimizer",
                    optimizers[draw.optimizer], *tool_flags(draw, struct, enums), "--quiet", "-o", out])
        outcomes[i]["command line"] = outcome(out, said)
    for language, command in programs.items():
        outs = [folder / f"{language}_{i}.graft" for i in range(len(draws))]
        if language == "Python":
            runs = [{"options": {"loss": losses[d.loss], "optimizer": optimizers[d.optimizer], **python_keywords(d, struct, enums)}, "out": str(out)}
                    for d, out in zip(draws, outs)]
            (folder / "job.json").write_text(json.dumps({"model": str(model), "data": spec, "runs": runs}), encoding="utf-8")
            said = run([*command, folder / "job.json"])
        else:
            words = []
            for i, (draw, out) in enumerate(zip(draws, outs)):
                options = folder / f"options_{i}.txt"
                options.write_text("".join(f"{name}={value}\n" for name, value in draw.values.items()), encoding="utf-8")
                words += [draw.loss, f"{draw.optimizer}@{options}", out]
            said = run([*command, model, spec, *words])
        for i, out in enumerate(outs):
            outcomes[i][language] = outcome(out, said)
    return outcomes


def short(result):
    return f"weights of {len(result)} bytes, hash {hash(result) & 0xffffff:06x}" if isinstance(result, bytes) else f"refused: {result}"


def compare(options):
    sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/bindings")]
    import defaults_test
    losses, optimizers = defaults_test.LOSSES, defaults_test.OPTIMIZERS
    build = pathlib.Path(options.build).resolve()
    programs = programs_of(build)
    lists = (*structure(), losses, optimizers)
    rng = random.Random(options.seed)
    counts, refusals, seen = collections.Counter(), collections.Counter(), collections.Counter()
    end = time.time() + 60 * options.minutes
    with tempfile.TemporaryDirectory(prefix="graft_options_") as name:
        folder = pathlib.Path(name)
        defaults_test.write_network(folder / "one.onnx", ("y",))
        defaults_test.write_network(folder / "three.onnx", ("a", "b", "c"))
        defaults_test.write_network(folder / "sequence.onnx", ("y",), (defaults_test.TIME,))
        for model in ("one", "three", "sequence"):
            run([build / "tools/graft/graft", "convert", folder / f"{model}.onnx", "-o", folder / f"{model}.graft"])
        signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
        while counts["draws"] < options.draws:
            groups = {}
            for _ in range(min(70, options.draws - counts["draws"])):  # groups of them share a process of each language
                draw = Draw(rng, *lists)
                groups.setdefault(defaults_test.data_of(losses[draw.loss], folder), []).append(draw)
            for (model, spec), draws in groups.items():
                if stopped or time.time() > end:
                    break
                for draw, results in zip(draws, train_group(build, programs, folder / f"{model}.graft", spec, draws, folder, lists)):
                    texts = [result for result in results.values() if isinstance(result, str)]
                    same = len(set(results.values())) == 1 if not texts else len(texts) == len(results)
                    counts["draws"] += 1
                    seen.update(list(draw.values))
                    kind = "different" if not same else "refused by all" if texts else "same weights"
                    counts[kind] += 1
                    if texts and same:
                        refusals[results["command line"][:150]] += 1
                    if not same or options.verbose and texts:
                        print(f"{kind}: {losses[draw.loss]}, {optimizers[draw.optimizer]}: {draw.text()}", flush=True)
                        for language, result in results.items():
                            print(f"    {language}: {short(result)}", flush=True)
            if stopped or time.time() > end:
                break
    for text, count in refusals.most_common(20):
        print(f"{count:6} refused by all: {text}")
    print(f"{len(seen)} options: {dict(sorted(seen.items()))}")
    print(f"seed {options.seed}, command line, {', '.join(programs)}: {dict(counts)}")
    return 1 if counts["different"] else 0


def main():
    if sys.argv[1:2] == ["--run"]:
        return python_run(*sys.argv[2:])
    if sys.argv[1:2] == ["--setters"]:
        return write_setters(sys.argv[2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    return compare(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
