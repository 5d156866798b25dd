"""Texts that follow a grammar or a JSON schema. The model is a seed of the fuzzers, of 6 tokens; with the
weights of the story model of GRAFT_TEST_DATA, JSON of schemas is written and checked.

Usage: grammar_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import re
import shutil
import subprocess
import unittest

import cli

DATA = os.environ.get("GRAFT_TEST_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data"))
TEXTS = int(os.environ.get("GRAFT_TEST_TEXTS", "12"))  # of each schema

SCHEMAS = [
    {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12},
                                      "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                      "happy": {"type": "boolean"}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "blue", 7, None]}, "minItems": 1, "maxItems": 4},
    {"anyOf": [{"type": "string", "pattern": "^[A-Z][a-z]{2,6}$"}, {"type": "integer", "minimum": -40, "maximum": 45}]},
    {"$defs": {"node": {"type": "object", "properties": {"value": {"type": "integer", "minimum": 1, "maximum": 9},
                                                         "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                        "required": ["value"], "additionalProperties": False}}, "$ref": "#/$defs/node"},
]


def fits(value, index):
    """A check of its own for each of the schemas."""
    whole = lambda x, low, high: type(x) is int and low <= x <= high
    if index == 0:
        return (set(value) <= {"name", "age", "happy"} and 1 <= len(value["name"]) <= 12 and whole(value["age"], 0, 150)
                and type(value.get("happy", True)) is bool)
    if index == 1:
        return 1 <= len(value) <= 4 and all(item in ("red", "blue", None) or whole(item, 7, 7) for item in value)
    if index == 2:
        return whole(value, -40, 45) or (isinstance(value, str) and re.fullmatch("[A-Z][a-z]{2,6}", value) is not None)
    return value is None or (set(value) <= {"value", "next"} and whole(value["value"], 1, 9)
                             and ("next" not in value or fits(value["next"], 3)))


def byte_tokenizer():
    """A tokenizer.json with a token for each byte and two for more, in GPT-2's alphabet."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    texts = ["<unk>", "<s>", "</s>", *(letters[byte] for byte in range(256)), '{"', '":']
    special = [{"id": i, "content": texts[i], "special": True, "normalized": False, "lstrip": False, "rstrip": False,
                "single_word": False} for i in range(3)]
    return json.dumps({"added_tokens": special, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                       "decoder": {"type": "ByteLevel"},
                       "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(texts)}, "merges": ["{ \"", "\" :"]}})


class GrammarTest(cli.LanguageTest):
    FLAGS = ["--prompt", "a", "--max-tokens", "20", "--temperature", "2"]

    def write(self, name, text):
        with open(self.path(name), "w") as out:
            out.write(text)
        return name

    def test_a_text_follows_its_grammar_and_ends_with_it(self):
        rules = self.write("rules.gbnf", 'root ::= ("a" | "b"){3}\n')
        for seed in range(4):
            out = self.generated(*self.FLAGS, "--seed", seed, "--grammar", rules)
            self.assertRegex(out["text"], "^[ab]{3}$")
            self.assertEqual(out["stopped_by"], "end_of_text")

    def test_failures_are_told_in_a_sentence(self):
        generate = lambda *flags, says: self.fails("generate", "tiny.graft", *self.FLAGS, *flags, says=says)
        generate("--grammar", "missing.gbnf", says=["missing.gbnf"])
        generate("--grammar", self.write("bad.gbnf", 'root ::= "a'), says=["Line 1", "quote"])
        generate("--grammar", self.write("loop.gbnf", 'root ::= root "a" | "b"'), says=["begins with itself"])
        generate("--grammar", self.write("none.gbnf", 'root ::= "\\u2603"'), says=["No token"])
        generate("--grammar", self.write("empty.gbnf", ""), says=["empty"])
        generate("--json-schema", '{"type": "object", "minProperties": 3}', says=["minProperties"])
        generate("--json-schema", "{", says=["JSON"])
        self.refused("generate", "tiny.graft", *self.FLAGS, "--grammar", "bad.gbnf", "--json-schema", "{}",
                     names="--json-schema")

    def test_what_a_real_model_writes_is_json_of_the_schema(self):
        folder = os.path.join(DATA, "llm-tinystories-656k")
        if not os.path.exists(os.path.join(folder, "config.json")):
            self.skipTest(f"There is no {folder}.")
        # That model's tokens have no braces: its weights serve as well with others.
        os.makedirs(self.path("bytes"))
        for name in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(folder, name), self.path("bytes"))
        self.write("bytes/tokenizer.json", byte_tokenizer())
        self.graft("convert", "bytes", "-o", "story.graft")
        texts = set()
        for index, schema in enumerate(SCHEMAS):
            # Every turn begins anew, so that each text has a prompt of its own.
            turns = "".join(f"/reset\nWrite text {i}.\n" for i in range(TEXTS))
            done = subprocess.run([cli.GRAFT, "chat", self.path("story.graft"), "--chat", "chatml", "--json", "--max-tokens", "400",
                                   "--temperature", "1.6", "--seed", str(index), "--json-schema", json.dumps(schema)],
                                  input=turns, capture_output=True, text=True, timeout=3600)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            self.assertEqual(len(lines), TEXTS)
            for line in lines:
                self.assertEqual(line["stopped_by"], "end_of_text", line)
                self.assertTrue(fits(json.loads(line["text"]), index), line)
                texts.add(line["text"])
        self.assertGreater(len(texts), len(SCHEMAS), "a schema's texts may be the same: all are drawn by one seed")


if __name__ == "__main__":
    cli.main()
