"""The programs of platform/python/README.md, one after the other, print what the page says."""

import contextlib
import io
import os
import re
import shutil

import support

torch = support.torch()


def blocks(text):
    """(program, what it prints) of each block of Python; None where the page does not show what."""
    parts = re.split(r"^```(\w*)\n(.*?)^```$", text, flags=re.M | re.S)
    fenced = [(parts[i], parts[i + 1], parts[i - 1]) for i in range(1, len(parts), 3)]
    for (kind, body, _), (after, printed, between) in zip(fenced, fenced[1:] + [("none", "", "")]):
        if kind == "python":
            yield body, printed if after == "" and not between.strip() else None


class Page(support.PackageTest):
    def test_each_program_prints_what_the_page_says(self):
        with open(f"{support.SOURCE}/platform/python/README.md", encoding="utf-8") as page:
            programs = list(blocks(page.read()))
        self.assertEqual(len(programs), 3)
        self.assertEqual([printed is None for _, printed in programs], [False, False, True])
        # A model of six tokens stands for the story's; it knows other words.
        shutil.copy(f"{support.SOURCE}/tests/fuzz/corpus/gguf/llama", self.path("story.gguf"))
        names = {}
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        for program, printed in programs:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(program.replace("Once upon a time", "ab"), "platform/python/README.md", "exec"), names)
            if printed is not None:  # bytes are another device's
                self.assertEqual(re.sub(r"\d+ bytes", "N bytes", said.getvalue()), re.sub(r"\d+ bytes", "N bytes", printed))
            else:
                self.assertEqual(said.getvalue(), names["text"])


if __name__ == "__main__":
    support.main()
