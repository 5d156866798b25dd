#!/usr/bin/env python3
"""Random conversations through chat templates and tokenizers: graft's ids beside those of Hugging Face's library.

Usage: fuzz_chats.py ENCODE_TEXTS [--minutes N] [--seed N] [--templates FOLDER ...] [--tokenizers FILE ...]

ENCODE_TEXTS is the program of tests/text/encode_texts.cpp. Each round takes a tokenizer, adds the special tokens that the
templates spell (with random lstrip, rstrip, single_word and normalized), and encodes 200 conversations. Jinja renders the
text (python3-jinja2), npm's `tokenizers` gives its ids (NODE_PATH says where it is). A conversation in which a user spells
special tokens is compared with the same conversation that spells none: the special tokens have to be the same. Without
--templates and --tokenizers: those of tests/text. Exit status: 0 no difference, 1 some, 77 jinja2, node or tokenizers is
missing.
"""
import argparse
import copy
import glob
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/text"))
import template_parity  # noqa: E402

ENCODER = """
let hf; try { hf = require('tokenizers'); } catch { process.exit(77); }
const tokenizer = hf.Tokenizer.fromFile(process.argv[1]);
tokenizer.disablePadding(); tokenizer.disableTruncation();
require('readline').createInterface({ input: process.stdin }).on('line', async line => {
  const ids = (await tokenizer.encode(JSON.parse(line), null, { addSpecialTokens: false })).getIds();
  console.log(JSON.stringify(ids));
});
"""
SPELLED = re.compile(r"<[|\uff5c][^|\uff5c<>'\"{}\s]{1,40}[|\uff5c]>|</?[A-Za-z_]{1,24}>|\[/?[A-Z_]{3,24}\]|\[gMASK\]|<sop>")
ROLES = ["system", "user", "assistant", "tool", "observation", "end", "endoftext"]
WORDS = ["Hi", "hello there", " leading", "trailing ", "\n", "\n\n", "  two  ", "", "\t", "1234567", "don't", "Zürich", "日本語",
         "😀👩‍👩‍👧", "x = [1, 2]\n    y", "\u00a0", "\u200b", "e\u0301", "|", "<", "|>", "<|", "user", "assistant", "{{ 7 }}", "</", "▁", "."]
HOSTILE = ["|>", "<|", "user|>", "end|><|system", "endoftext", "user|>\n", "<|user|>", "im_end", "'user'"]


class Asked:
    """A program that answers a line of JSON with a line of JSON."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        encoding="utf-8")

    def __call__(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            if self.process.wait() == 77:
                sys.exit(77)
            raise EOFError(f"{self.process.args[0]} ended: {self.process.stderr.read().strip()[-400:]}")
        return json.loads(line)

    def end(self):
        self.process.communicate()


def text(rng, special, forged):
    parts = [rng.choice(WORDS) for _ in range(rng.randrange(5))]
    if forged:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(special))
    return "".join(parts)


def conversation(rng, special, forged):
    """The variables of a template. `forged`: users spell special tokens."""
    if not forged and rng.random() < 0.15:
        return copy.deepcopy(rng.choice(list(template_parity.conversations())))
    say = lambda: text(rng, special, forged and rng.random() < 0.6)
    messages, more = [], {}
    if rng.random() < 0.4:
        messages.append(template_parity.system(say()))
    for _ in range(rng.randrange(1, 4)):
        messages.append(template_parity.user(say()))
        if rng.random() < 0.15:
            arguments = {"city": say(), "n": rng.choice([1, 2.5, None, [1, {"a": "b"}]])}
            messages.append(template_parity.said(say(), tool_calls=[template_parity.call("get_weather", arguments)]))
            messages.append(template_parity.tool(say(), name="get_weather", tool_call_id="123456789"))
        messages.append(template_parity.said(say()))
    if rng.random() < 0.6:
        messages.pop()
    if rng.random() < 0.2:
        more["tools"] = template_parity.TOOLS[:rng.randrange(1, 4)]
    if rng.random() < 0.1:
        messages[rng.randrange(len(messages))]["name"] = say()
    return {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": rng.random() < 0.7,
            "bos_token": "<s>", "eos_token": "</s>", **more}


def plain(value, special):
    """The same conversation that spells no special token."""
    if isinstance(value, str):
        for token in special:
            value = value.replace(token, "(" + token[1:-1] + ")")
        return value
    if isinstance(value, list):
        return [plain(one, special) for one in value]
    return {key: plain(one, special) for key, one in value.items()} if isinstance(value, dict) else value


def small_tokenizers():
    with open(os.path.join(ROOT, "tests/text/tokenizers.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for row in lines[1:]:
        yield row["name"], {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                            "pre_tokenizer": None, "post_processor": None, "decoder": None, **row["parts"],
                            "model": lines[0]["models"][row["model"]]}


def with_special(rng, document, special):
    """The tokenizer with these tokens as well: (document, the ids of all special tokens)."""
    document = dict(document)
    known = document.get("added_tokens") or []
    vocabulary = document["model"]["vocab"]
    size = max([len(vocabulary) - 1] + [token["id"] for token in known]) + 1
    added, strips = list(known), rng.random() < 0.5
    names = {token["content"] for token in known}
    plain_text = document["normalizer"] is None  # graft finds normalized special tokens as they are spelled
    for name in special:
        if name in names or (isinstance(vocabulary, dict) and name in vocabulary):
            continue
        flag = lambda: strips and rng.random() < 0.3
        added.append({"id": size, "content": name, "single_word": flag() and rng.random() < 0.3, "lstrip": flag(),
                      "rstrip": flag(), "normalized": plain_text and flag() and rng.random() < 0.3, "special": True})
        size += 1
    document["added_tokens"] = added
    # Text may have characters that become the unknown token.
    return document, {token["id"] for token in added if token["special"] and token["content"] not in ("<unk>", "[UNK]")}


class Fuzzer:
    def __init__(self, options):
        self.rng = random.Random(options.seed)
        folders = options.templates or [os.path.join(ROOT, "tests/text/templates")]
        self.templates = {}
        for path in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*.jinja"))):
            with open(path, encoding="utf-8", newline="") as file:
                self.templates[os.path.basename(path)] = file.read()
        found = {token for source in self.templates.values() for token in SPELLED.findall(source)}
        self.special = sorted(found | {f"<|{role}|>" for role in ROLES} | {"<s>", "</s>"}, key=lambda t: (-len(t), t))
        self.tokenizers = list(small_tokenizers())
        for path in options.tokenizers or []:
            with open(path, encoding="utf-8") as file:
                self.tokenizers.append((path, json.load(file)))
        self.program = options.program
        self.cases = self.refused = self.forged = 0
        self.wrong = []

    def expected(self, source, inputs):
        try:
            environment = template_parity.environment()
            environment.filters["safe"] = str  # Jinja's makes + escape what follows, which graft does not
            return environment.from_string(source).render(**inputs)
        except Exception:  # pylint: disable=broad-except; whatever Jinja refuses by
            return None

    def one(self, graft, library, ids_of_special):
        name = self.rng.choice(list(self.templates))
        forged = self.rng.random() < 0.3
        inputs = conversation(self.rng, self.special, forged)
        spelled = json.dumps([inputs["messages"], inputs["tools"], inputs["documents"]], ensure_ascii=False)
        forged = any(token in spelled for token in self.special)
        if self.rng.random() < 0.05:
            forged = True
            self.rng.choice(inputs["messages"] or [{}])["role"] = self.rng.choice(HOSTILE)
        # The model's own tokens, as a template's text.
        tokens = "".join("{% set " + key + " = '" + inputs[key] + "' %}\n" for key in ("bos_token", "eos_token"))
        asked = {**inputs, "template": tokens + self.templates[name], "ask": inputs["add_generation_prompt"]}
        for key in ("bos_token", "eos_token", "add_generation_prompt"):
            asked.pop(key)
        answer = graft(asked)
        rendered = self.expected(self.templates[name], inputs)
        self.cases += 1
        if rendered is None or "ids" not in answer:
            self.refused += 1
            if rendered is not None and "nor an unknown token" not in answer["error"]:
                return f"{name}: graft refuses: {answer['error']}"
            return None
        if answer["text"] != rendered:
            return f"{name}: text\n  Jinja {rendered!r}\n  graft {answer['text']!r}"
        if not forged:
            ids = library(rendered)
            return None if ids == answer["ids"] else f"{name}: {rendered!r}\n  library {ids}\n  graft   {answer['ids']}"
        self.forged += 1
        # Hostile roles are compared with none: what they print is no special token.
        benign = {**inputs, **{key: plain(inputs[key], self.special) for key in ("messages", "tools", "documents")}}
        for message in benign["messages"]:
            if message.get("role") in HOSTILE:
                ends = ["" if message["role"][at].isalnum() else "'" for at in (0, -1)]
                message["role"] = "nobody".join(ends)
        text_of = self.expected(self.templates[name], benign)
        if text_of is None:
            return None
        hostile = any(message.get("role") in HOSTILE for message in inputs["messages"])
        if not hostile and plain(rendered, self.special) != plain(text_of, self.special):
            return None  # the template looks for tokens in messages, as Qwen's does for </think>
        kept = [i for i in answer["ids"] if i in ids_of_special]
        wanted = [i for i in library(text_of) if i in ids_of_special]
        return None if kept == wanted else f"{name}, forged: {rendered!r}\n  {kept}\n  {wanted}\n  {answer['ids']}"

    def round(self, folder):
        name, document = self.rng.choice(self.tokenizers)
        document, ids_of_special = with_special(self.rng, document, self.special)
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        graft, library = Asked(self.program, path), Asked("node", "-e", ENCODER, path)
        for _ in range(200):
            try:
                fault = self.one(graft, library, ids_of_special)
            except (EOFError, BrokenPipeError) as ended:
                self.wrong.append(f"{name}: {ended}")
                print(self.wrong[-1], flush=True)
                break
            if fault:
                flags = [f"{t['content']}{'l' if t['lstrip'] else ''}{'r' if t['rstrip'] else ''}"
                         f"{'w' if t['single_word'] else ''}{'n' if t['normalized'] else ''}" for t in document["added_tokens"]
                         if t["lstrip"] or t["rstrip"] or t["single_word"] or t["normalized"]]
                self.wrong.append(f"{name} [{' '.join(flags)}]: {fault}")
                if len(self.wrong) <= 20:
                    print(self.wrong[-1], flush=True)
        graft.end()
        library.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--templates", nargs="*")
    parser.add_argument("--tokenizers", nargs="*")
    options = parser.parse_args()
    fuzzer, end = Fuzzer(options), time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as folder:
        while True:
            fuzzer.round(folder)
            if time.monotonic() > end:
                break
    print(f"{fuzzer.cases} conversations, {fuzzer.refused} refused, {fuzzer.forged} with forged tokens or roles, "
          f"{len(fuzzer.wrong)} differ")
    return 1 if fuzzer.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
