"""README's run of adapters, by the command line, in C, in Python and in Kotlin: the same bytes.

usage: adapter_run_test.py GRAFT C_PROGRAM [--python PACKAGE] [--kotlin COMMAND...]

On the story model and questions with their SQL where GRAFT_TEST_DATA has them, else on a model of letters; on the first
RECORDS, or all with GRAFT_TEST_RECORDS=0. 77: there is no device.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

FLAGS = ("--seq", "128", "--batch", "8", "--lora", "r=16,alpha=32", "--lr", "1e-2", "--seed", "1", "--quiet")
RECORDS = int(os.environ.get("GRAFT_TEST_RECORDS", "24"))
TESTS = pathlib.Path(__file__).resolve().parent.parent


def python_run(package, model, data, out):
    """By the package alone; in a process of its own."""
    sys.path.insert(0, package)
    import graft
    context = graft.Context(cache=None)
    base = context.load(model)
    base.add_adapters(r=16, alpha=32, seed=1)
    texts = context.open_data(data, model=base, length=128)
    trainer = base.trainer(learning_rate=1e-2, weight_decay=0.01, batch=8, seed=1, data=texts)
    loader = texts.loader(batch=8, seed=1, epochs=1)
    while trainer.train_next(loader) is not None:
        pass
    trainer.store()
    base.save_adapters(out)


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 77:
        print("Skipped:", done.stdout)
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}: {done.stdout}")


def prepare(graft, folder):
    """The base and the file of texts."""
    real = pathlib.Path(os.environ.get("GRAFT_TEST_DATA", "/nowhere"))
    texts = real / "text-lora-wikisql/train.jsonl"
    source = real / "llm-tinystories-656k"
    if texts.exists() and source.exists():
        lines = texts.read_text().splitlines(keepends=True)
    else:
        print("The story model and its SQL are not here (GRAFT_TEST_DATA): a model of letters takes their place.")
        lines = [f'{{"text": "question {i}: select {i * 7} from where {i * 5}"}}\n' for i in range(40)]
        source = folder / "letters"
        run(sys.executable, "-B", TESTS / "cli/letter_text.py", source)
    (folder / "train.jsonl").write_text("".join(lines[:RECORDS or None]))
    run(graft, "convert", source, "-o", folder / "base.graft", "--quantize", "q8_0")
    return folder / "base.graft", f"jsonl:{folder}/train.jsonl"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("graft")
    parser.add_argument("program")
    parser.add_argument("--python")
    parser.add_argument("--kotlin", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graft_adapters_") as name:
        folder = pathlib.Path(name)
        base, data = prepare(options.graft, folder)
        run(options.graft, "train", base, "--data", data, *FLAGS, "-o", folder / "tool.graft")
        wanted = (folder / "tool.graft").read_bytes()
        runs = {"C": [options.program]}
        if options.python:
            runs["Python"] = [sys.executable, "-B", __file__, "--run", options.python]
        if options.kotlin:
            runs["Kotlin"] = options.kotlin
        for language, command in runs.items():
            out = folder / f"{language}.graft"
            run(*command, base, data, out)
            if out.read_bytes() != wanted:
                sys.exit(f"The adapters of {language} are not those of the command line.")
        print(f"{', '.join(runs)}: the {len(wanted)} bytes of the command line's adapters.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        python_run(*sys.argv[2:])
    else:
        main()
