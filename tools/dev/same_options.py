#!/usr/bin/env python3
"""The same training options through every language: random ones are set by the command line, C, C++, Python and Java, a small
network takes two steps with each, and the weights must be equal to the bit. Options that are set are spelled out everywhere;
defaults are not compared.

  python3 tools/dev/same_options.py BUILD [--cases 20] [--seed 1]

BUILD: a build folder with the command line tool, the Python package and, if there is a JDK, graft.jar. Languages whose tools
are missing are left out, and named. Prints a line for each case that differs; exit status 1 if there is one.
"""
import argparse
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH, STEPS, PIXELS, CLASSES = 4, 2, 784, 10
ADAMS = ("adamw", "adam", "lamb", "adamw_8bit")


class Option:
    """An option: its name in C, C++ and Python, its flag, and a function of a random generator that draws its value."""

    def __init__(self, name, flag, draw, java=None, optimizers=(), schedules=()):
        self.name, self.flag, self.draw, self.optimizers, self.schedules = name, flag, draw, optimizers, schedules
        first, *rest = name.split("_")
        self.java = java or first + "".join(part.capitalize() for part in rest)


def between(low, high):
    return lambda r: round(r.uniform(low, high), 4)


OPTIONS = [
    Option("momentum", "--momentum", between(0.1, 0.9), optimizers=("sgd", "rmsprop")),
    Option("beta1", "--beta1", between(0.5, 0.95), optimizers=ADAMS),
    Option("beta2", "--beta2", between(0.9, 0.999), optimizers=ADAMS),
    Option("epsilon", "--eps", between(1e-4, 1e-2), optimizers=ADAMS + ("rmsprop",)),
    Option("clip_norm", "--clip-norm", between(0.1, 2)),
    Option("clip_value", "--clip-value", between(0.01, 0.5)),
    Option("label_smoothing", "--label-smoothing", between(0.01, 0.3)),
    Option("ema", "--ema", between(0.5, 0.99)),
    Option("layer_decay", "--layer-decay", between(0.3, 0.9)),
    Option("proximal", "--proximal", between(0.01, 0.5)),
    Option("final_lr_factor", "--final-lr", between(0.1, 0.9), schedules=("linear", "cosine", "polynomial")),
    Option("power", "--power", between(0.5, 2), schedules=("polynomial",)),
    Option("warmup_steps", "--warmup", lambda r: r.choice((1, 2)), schedules=("linear", "cosine", "constant")),
    Option("step_size", "--step-size", lambda r: 1, schedules=("step",)),
    Option("gamma", "--gamma", between(0.2, 0.9), schedules=("step",)),
]
OPTIMIZERS = ("sgd", "adamw", "adam", "lamb", "rmsprop")
SCHEDULES = ("constant", "linear", "cosine", "step", "polynomial")


def draw_case(r):
    """{name: value}: optimizer, schedule, rate and decay always, the others at times."""
    case = {"optimizer": r.choice(OPTIMIZERS), "schedule": r.choice(SCHEDULES), "learning_rate": round(r.uniform(1e-3, 5e-2), 5),
            "weight_decay": round(r.uniform(0.01, 0.2), 4), "seed": r.randrange(1000), "micro_batch": r.choice((1, 2, 4))}
    for option in OPTIONS:
        fits = (not option.optimizers or case["optimizer"] in option.optimizers) and \
               (not option.schedules or case["schedule"] in option.schedules)
        needed = option.name in ("beta1", "beta2", "epsilon", "momentum", "final_lr_factor", "power", "step_size", "gamma")
        if fits and (needed or r.random() < 0.3):
            case[option.name] = option.draw(r)
    return case


def of_name(name):
    return next((option for option in OPTIONS if option.name == name), None)


def by_tool(build, folder, case, output):
    flags = ["--optimizer", case["optimizer"], "--schedule", case["schedule"], "--lr", case["learning_rate"], "--weight-decay",
             case["weight_decay"], "--seed", case["seed"], "--batch", case["micro_batch"], "--accumulate",
             BATCH // case["micro_batch"]]
    for name, value in case.items():
        if option := of_name(name):
            flags += [option.flag, value]
    run(folder, build / "tools/graft/graft", "train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--no-shuffle", "--steps", STEPS,
        "--quiet", *flags, "-o", output)


def run(folder, *command, **options):
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def by_python(graft, context, np, folder, case, output):
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    options = dict(case)
    betas = [options.pop(name) for name in ("beta1", "beta2") if name in options]
    with context.load(folder / "mlp.graft") as model:
        with model.trainer(batch=BATCH, total_steps=STEPS, betas=betas or None, **options) as trainer:
            for step in range(STEPS):
                trainer.step(x[step * BATCH:][:BATCH], y[step * BATCH:][:BATCH])
            trainer.store()
        model.save(folder / output)


C_MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <graft/graft.h>
static float x[%(all)d * %(pixels)d];
static int y[%(all)d];
static void need(graft_context* c, graft_status s) { if (s != GRAFT_OK) { fprintf(stderr, "%%s\\n", graft_message(c)); exit(1); } }
static void read_all(const char* path, void* to, size_t bytes) {
  FILE* file = fopen(path, "rb");
  if (file == NULL || fread(to, 1, bytes, file) != bytes) exit(2);
  fclose(file);
}
static void train(graft_context* c, const graft_trainer_options* o, const char* output) {
  graft_model* model = NULL;
  graft_trainer* trainer = NULL;
  need(c, graft_model_load(c, "mlp.graft", &model));
  need(c, graft_trainer_create(model, o, &trainer));
  for (int step = 0; step < %(steps)d; ++step) {
    const void* inputs[] = {x + step * %(batch)d * %(pixels)d};
    need(c, graft_train_step(trainer, inputs, 1, y + step * %(batch)d, %(batch)d, NULL));
  }
  need(c, graft_trainer_store(trainer));
  graft_trainer_destroy(trainer);
  need(c, graft_model_save(model, output));
  graft_model_destroy(model);
}
int main(void) {
  graft_context* c = NULL;
  read_all("x.f32", x, sizeof x);
  read_all("y.i32", y, sizeof y);
  need(c, graft_context_create(NULL, &c));
%(cases)s  graft_context_destroy(c);
  return 0;
}
"""


def by_c(build, folder, cases):
    """One program for all cases."""
    text = ""
    for number, case in enumerate(cases):
        text += "  {\n    graft_trainer_options o = {0};\n    o.struct_size = sizeof o;\n" \
                f"    o.batch = {BATCH};\n    o.total_steps = {STEPS};\n"
        for name, value in case.items():
            text += f"    o.{name} = {'GRAFT_' + value.upper() if isinstance(value, str) else value};\n"
        text += f'    train(c, &o, "c_{number}.graft");\n  }}\n'
    (folder / "main.c").write_text(C_MAIN % {"all": BATCH * STEPS, "pixels": PIXELS, "steps": STEPS, "batch": BATCH,
                                             "cases": text})
    run(folder, "cc", "-std=c99", f"-I{ROOT}/runtime/include", "main.c", f"-L{build}/runtime", "-lgraft",
        f"-Wl,-rpath,{build}/runtime", "-o", "main_c")
    run(folder, folder / "main_c")


CPP_MAIN = """#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <graft/graft.hpp>
static std::vector<float> x(%(all)d * %(pixels)d);
static std::vector<std::int32_t> y(%(all)d);
template <typename T> T need(T result) {
  if (result.ok()) return result;
  if constexpr (requires { result.message(); }) std::puts(result.message().c_str());
  else std::puts(result.status().message().c_str());
  std::exit(1);
}
static void train(graft::Context& c, const graft::TrainerOptions& o, const std::string& output) {
  auto model = need(c.load("mlp.graft"));
  {
    auto trainer = need(model->trainer(o));
    for (int step = 0; step < %(steps)d; ++step) {
      need(trainer->train_step({x.data() + step * %(batch)d * %(pixels)d}, y.data() + step * %(batch)d, %(batch)d));
    }
    (void)need(trainer->store());
  }
  (void)need(model->save(output));
}
int main() {
  std::ifstream("x.f32", std::ios::binary).read(reinterpret_cast<char*>(x.data()), x.size() * 4);
  std::ifstream("y.i32", std::ios::binary).read(reinterpret_cast<char*>(y.data()), y.size() * 4);
  auto c = need(graft::Context::create());
%(cases)s}
"""


def by_cpp(build, folder, cases):
    text = ""
    for number, case in enumerate(cases):
        text += f"  {{\n    graft::TrainerOptions o;\n    o.batch = {BATCH};\n    o.total_steps = {STEPS};\n"
        for name, value in case.items():
            text += f"    o.{name} = {'GRAFT_' + value.upper() if isinstance(value, str) else value};\n"
        text += f'    train(*c, o, "cpp_{number}.graft");\n  }}\n'
    (folder / "main.cpp").write_text(CPP_MAIN % {"all": BATCH * STEPS, "pixels": PIXELS, "steps": STEPS, "batch": BATCH,
                                                 "cases": text})
    run(folder, "c++", "-std=c++20", f"-I{ROOT}/runtime/include", "main.cpp", f"-L{build}/runtime", "-lgraft",
        f"-Wl,-rpath,{build}/runtime", "-o", "main_cpp")
    run(folder, folder / "main_cpp")


JAVA_MAIN = """import ai.graft.*;
import java.nio.*;
import java.nio.file.*;
final class Main {
  static ByteBuffer read(String path) throws Exception {
    return ByteBuffer.wrap(Files.readAllBytes(Paths.get(path))).order(ByteOrder.nativeOrder());
  }
  static void train(Context c, TrainerOptions o, String output) throws Exception {
    FloatBuffer x = read("x.f32").asFloatBuffer();
    IntBuffer y = read("y.i32").asIntBuffer();
    try (Model model = c.load("mlp.graft")) {
      try (Trainer trainer = model.trainer(o)) {
        for (int step = 0; step < %(steps)d; step++) {
          float[] images = new float[%(batch)d * %(pixels)d];
          int[] labels = new int[%(batch)d];
          x.get(images);
          y.get(labels);
          trainer.trainStep(new Batch(%(batch)d).input(images).target(labels));
        }
        trainer.store();
      }
      model.save(output);
    }
  }
  public static void main(String[] arguments) throws Exception {
    try (Context c = new Context()) {
%(cases)s    }
  }
}
"""


def by_java(build, folder, cases):
    text = ""
    for number, case in enumerate(cases):
        text += f"      {{\n        TrainerOptions o = new TrainerOptions();\n        o.batch = {BATCH};\n        o.totalSteps = {STEPS};\n"
        for name, value in case.items():
            field = Option(name, "", None).java
            kind = field[0].upper() + field[1:]
            text += f"        o.{field} = {f'TrainerOptions.{kind}.{value.upper()}' if isinstance(value, str) else value};\n"
        text += f'        train(c, o, "java_{number}.graft");\n      }}\n'
    (folder / "Main.java").write_text(JAVA_MAIN % {"pixels": PIXELS, "steps": STEPS, "batch": BATCH, "cases": text})
    jar = build / "platform/android/graft.jar"
    run(folder, "javac", "-cp", jar, "Main.java")
    run(folder, "java", f"-Djava.library.path={build}/platform/android", "-cp", f"{jar}:.", "Main")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    build = args.build.resolve()
    sys.path.insert(0, str(build / "platform/python"))
    import graft
    import numpy as np

    r = random.Random(args.seed)
    cases = [draw_case(r) for _ in range(args.cases)]
    with tempfile.TemporaryDirectory(prefix="graft_same_") as folder:
        folder = pathlib.Path(folder)
        tool = build / "tools/graft/graft"
        run(folder, tool, "convert", "--example", "mlp", "-o", "mlp.onnx")
        run(folder, tool, "convert", "mlp.onnx", "-o", "mlp.graft")
        numbers = np.random.default_rng(args.seed)
        x = numbers.standard_normal((BATCH * STEPS, 1, 28, 28), dtype=np.float32)
        y = numbers.integers(0, CLASSES, BATCH * STEPS).astype(np.int32)
        np.save(folder / "x.npy", x)
        np.save(folder / "y.npy", y)
        x.tofile(folder / "x.f32")
        y.tofile(folder / "y.i32")
        languages = ["tool", "python", "c", "cpp"]
        by_c(build, folder, cases)
        by_cpp(build, folder, cases)
        if shutil.which("javac") and (build / "platform/android/graft.jar").exists():
            by_java(build, folder, cases)
            languages.append("java")
        else:
            print("Java is left out: there is no JDK, or no graft.jar.")
        context = graft.Context()
        differ = 0
        for number, case in enumerate(cases):
            by_tool(build, folder, case, f"tool_{number}.graft")
            by_python(graft, context, np, folder, case, f"python_{number}.graft")
            states = {}
            for language in languages:
                with context.load(folder / f"{language}_{number}.graft") as model:
                    states[language] = b"".join(array.tobytes() for array in model.state_dict().values())
            others = [language for language in languages if states[language] != states["tool"]]
            if others:
                differ += 1
                print(f"case {number}: {', '.join(others)} differ from the command line with {case}")
        print(f"{len(cases)} cases, {differ} with differences, through {', '.join(languages)}.")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
