"""What adapters teach the story model of 656 thousand weights: SQL for questions to tables, as a Markdown table.

    python3 tests/bench/wikisql.py GRAFT STORY.graft FOLDER [EPOCHS [QUESTIONS]]

STORY.graft is llm-tinystories-656k, converted; FOLDER holds train.jsonl, valid.jsonl and test.jsonl of text-lora-wikisql.
Only the SQL is learned. Each row: held-out loss of the SQL's tokens, how many of the test's questions get the very SQL
(and how many a SQL of the right shape: every word in upper case right), what the device holds, seconds of training.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

SEQ = 384
TRAIN = ("--seq", SEQ, "--batch", 4, "--lr", "1e-2", "--schedule", "cosine", "--seed", 1, "--quiet")
ADAPTERS = "r=16,alpha=32"
ROWS = (("LoRA", ADAPTERS, "?pack=no"), ("DoRA", ADAPTERS + ",dora=yes", "?pack=no"), ("DoRA, packed", ADAPTERS + ",dora=yes", ""))


def run(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def split(folder, name, to):
    """The text up to the answer, and the answer; what is returned is a list of both."""
    pairs = []
    with open(os.path.join(folder, name)) as file, open(to, "w") as out:
        for line in file:
            prompt, answer = json.loads(line)["text"].split("\nA: ", 1)
            pairs.append((prompt + "\nA:", " " + answer))
            out.write(json.dumps({"prompt": pairs[-1][0], "completion": pairs[-1][1]}) + "\n")
    return pairs


def shape(sql):
    return re.findall(r"\b[A-Z]{2,}\b", sql)


def answers(graft, model, questions):
    same = alike = 0
    for prompt, answer in questions:
        said, _ = run(graft, "generate", model, "--prompt", prompt, "--max-tokens", 96, "--stop", "\n", "--json")
        text = json.loads(said)["text"].strip()
        same += text == answer.strip()
        alike += bool(text) and shape(text) == shape(answer)
    return same, alike


def main():
    graft, story, folder, *rest = sys.argv[1:]
    epochs = int(rest[0]) if rest else 3
    count = int(rest[1]) if len(rest) > 1 else 100
    with tempfile.TemporaryDirectory() as scratch:
        at = lambda name: os.path.join(scratch, name)
        split(folder, "train.jsonl", at("train.jsonl"))
        split(folder, "valid.jsonl", at("valid.jsonl"))
        questions = split(folder, "test.jsonl", at("test.jsonl"))[:count]
        held_out = lambda model: json.loads(run(graft, "eval", model, "--data", f"jsonl:{at('valid.jsonl')}", "--seq", SEQ, "--batch", 4,
                                                "--json")[0])["loss"]
        print(f"| | held-out loss | same SQL of {len(questions)} | same shape | on the device | seconds |\n|---|---|---|---|---|---|")
        same, alike = answers(graft, story, questions)
        print(f"| base | {held_out(story):.4f} | {same} | {alike} | | |", flush=True)
        for name, lora, how in ROWS:
            begun = time.monotonic()
            _, told = run(graft, "train", story, "--data", f"jsonl:{at('train.jsonl')}{how}", "--epochs", epochs, "--lora", lora, *TRAIN, "-o",
                          at("sql.graft"))
            seconds = time.monotonic() - begun
            run(graft, "merge", story, "--adapter", at("sql.graft"), "-o", at("merged.graft"))
            same, alike = answers(graft, at("merged.graft"), questions)
            memory = re.search(r": ([\d.]+ \w+) of device memory", told)[1]
            print(f"| {name} | {held_out(at('merged.graft')):.4f} | {same} | {alike} | {memory} | {seconds:.0f} |", flush=True)
            os.remove(at("merged.graft"))


if __name__ == "__main__":
    main()
