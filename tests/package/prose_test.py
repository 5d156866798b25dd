"""Documents keep to the rules of tools/dev/prose.py, and prose.py notices what breaks them."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/dev/prose.py"


def check(root):
    found = subprocess.run([sys.executable, "-B", SCRIPT, root], capture_output=True, text=True)
    return found.returncode, found.stdout + found.stderr


class Prose(unittest.TestCase):
    def of_page(self, text):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "README.md").write_text(text, encoding="utf-8")
            return check(folder)

    def test_the_documents_keep_to_the_rules(self):
        code, said = check(ROOT)
        self.assertEqual(code, 0, said)

    def test_a_plain_page_passes(self):
        code, said = self.of_page("# Title\n\nA short sentence. See [the title](#title).\n\n```\nanew beside\n```\n")
        self.assertEqual(code, 0, said)

    def test_each_fault_is_noticed(self):
        long = " ".join(["word"] * 41) + "."
        for text, named in (
                (f"Short. Short. {long}\n", "a sentence of 41 words"),
                (f"Short.\n\n| a | {long} |\n", "a sentence of 41 words"),
                (" ".join(["word"] * 17) + ".\n", "median"),
                ("It is opened anew.\n", "banned: \"anew\""),
                ("What it does is known.\n", "begins with \"What\""),
                ("See [it](nowhere.md).\n", "nowhere.md leads to no file"),
                ("See [it](#nothing).\n", "#nothing leads to no heading")):
            code, said = self.of_page(text)
            self.assertEqual(code, 1, said)
            self.assertIn(named, said)
            self.assertEqual(said.count("README.md:") or said.count("median sentence"), 1, said)


if __name__ == "__main__":
    unittest.main()
