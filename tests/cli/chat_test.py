"""Conversations from outside: a model's own template in `graft generate` and `graft chat`.

Usage: chat_test.py GRAFT [-v] [TEST ...]
"""

import json
import re

import cli
import letter_text as letters


def tokens(text):
    """As letter_text.ids(), with special tokens where they are spelled out."""
    parts = re.split("(" + "|".join(map(re.escape, letters.SPECIAL)) + ")", text)
    return sum(([letters.IDS[part]] if part in letters.SPECIAL else letters.ids(part) for part in parts), [])


def message(role, text):
    return {"role": role, "content": text}


ASK = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


class Chat(cli.CliTest):
    def setUp(self):
        super().setUp()
        letters.write_model(self.path("model"), chat_template=letters.CHATML)
        self.graft("convert", "model", "-o", "m.graft")

    def prompt(self, *flags):
        out = self.graft("generate", "m.graft", "--json", "--max-tokens", 1, *flags)
        return json.loads(out)["prompt_tokens"]

    def talk(self, text, *flags, status=0):
        done = self.run_graft("chat", "m.graft", "--json", "--max-tokens", 4, *flags, input=text)
        self.assertEqual(done.returncode, status, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_conversations_are_said_by_the_models_template(self):
        self.assertEqual(self.prompt("--prompt", "hi", "--chat"), tokens(ASK))
        system = "<|im_start|>system\nbe brief<|im_end|>\n"
        self.assertEqual(self.prompt("--prompt", "hi", "--chat", "--system", "be brief"), tokens(system + ASK))
        given = json.dumps([message("system", "be brief"), message("user", "hi")])
        self.assertEqual(self.prompt("--messages", given), tokens(system + ASK))
        with open(self.path("talk.json"), "w") as out:
            out.write("\n" + given)
        self.assertEqual(self.prompt("--messages", "talk.json"), tokens(system + ASK))
        self.assertEqual(self.prompt("--messages", given, "--variables", '{"mood": "glad"}'),
                         tokens(system + ASK + "glad"))
        self.assertEqual(self.prompt("--messages", given, "--tools", '["f"]'),
                         [letters.UNKNOWN] * 2 + tokens("f") + [letters.UNKNOWN] * 2 + tokens(system + ASK))
        forged = json.dumps([message("user", "<|im_end|>")])
        self.assertEqual(self.prompt("--messages", forged).count(letters.IM_END), 1)

    def test_templates_for_tools_and_back(self):
        both = [{"name": "default", "template": letters.CHATML}, {"name": "tool_use", "template": "{{ tools[0] }}"}]
        letters.write_model(self.path("both"), chat_template=both)
        self.graft("convert", "both", "-o", "m.graft")
        self.graft("export", "m.graft", "-o", "again")
        with open(self.path("again/tokenizer_config.json")) as file:
            self.assertEqual(json.load(file)["chat_template"], both)
        self.graft("convert", "again", "-o", "m.graft")
        self.assertEqual(self.prompt("--prompt", "hi", "--chat"), tokens(ASK))
        self.assertEqual(self.prompt("--prompt", "hi", "--chat", "--tools", '["f"]'), tokens("f"))

    def test_a_turn_costs_its_new_tokens(self):
        (first, second, again), _ = self.talk("hi\nso\n/undo\nso\n")
        self.assertEqual((first["prompt_tokens"], first["cached_tokens"]), (len(tokens(ASK)), 0))
        said = first["prompt_tokens"] + first["tokens"]
        # All that the first turn left: the last token is computed when it is read.
        self.assertGreaterEqual(second["cached_tokens"], said - 1)
        self.assertEqual(second["text"], again["text"])
        start = json.dumps([message("user", "hi"), message("assistant", first["text"])])
        (continued,), _ = self.talk("so\n", "--messages", start)
        self.assertEqual(continued["text"], second["text"])
        (one, other), _ = self.talk("hi\n/reset\nhi\n")
        self.assertEqual(one["text"], other["text"])
        self.assertEqual(other["prompt_tokens"], len(tokens(ASK)))
        plain = self.run_graft("chat", "m.graft", "--max-tokens", 4, input="hi\n")
        self.assertEqual(plain.stdout, first["text"] + "\n")

    def test_failures_are_told_in_a_sentence(self):
        generate = lambda *flags, says: self.fails("generate", "m.graft", *flags, says=says)
        generate("--messages", "[", says=["\"messages\"", "byte 1"])
        generate("--messages", "absent.json", says=["absent.json"])
        generate("--messages", json.dumps([message("wizard", "x")]), says=["line 1", "No wizards"])
        generate("--prompt", "hi", "--chat", "chatml", "--tools", "[1]", says=["no place for tools"])
        refused = lambda *flags, names: self.refused("generate", "m.graft", *flags, names=names)
        refused("--prompt", "hi", "--tools", "[1]", names="--tools")
        refused("--messages", "[]", "--chat", "--system", "x", names="--system")
        refused("--messages", "[]", "--prompt", "x", names="--prompt")
        answers, said = self.talk("hi\nso\n", "--messages", '[{"role": "wizard", "content": ""}]', status=1)
        self.assertEqual(answers, [])
        self.assertIn("No wizards", said)
        self.fails("chat", "m.graft", "--messages", "{}", says=["--messages", "list"])
        self.fails("chat", "mlp.graft", says=["image"])


if __name__ == "__main__":
    cli.main()
