"""tools/package/abi_diff.py finds changes that break programs, and only these. Exit status 77: abidiff is not installed."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "runtime/include"


def compare(changes):
    """abi_diff.py's exit status and output, with {header: (text, its replacement)} changed in a copy of the headers."""
    with tempfile.TemporaryDirectory() as work:
        new = pathlib.Path(work) / "include"
        shutil.copytree(INCLUDE, new)
        for header, (before, after) in changes.items():
            path = new / "graft" / header
            text = path.read_text()
            assert before in text, f"{header} has no {before}"
            path.write_text(text.replace(before, after, 1))
        result = subprocess.run([sys.executable, "-B", ROOT / "tools/package/abi_diff.py", INCLUDE, new],
                                capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


FUNCTION = "GRAFT_API const char* graft_loss_names(void);"
STRUCT_END = "} graft_memory;"


class AbiDiff(unittest.TestCase):
    def test_nothing_changed(self):
        status, text = compare({})
        self.assertEqual(status, 0, text)
        listed = (ROOT / "tests/package/symbols.txt").read_text().split()
        left_out = (INCLUDE / "graft/vulkan.h").read_text().count("GRAFT_API ")
        self.assertEqual(int(text.split()[0]), len(listed) - left_out)

    def test_growth_is_allowed(self):
        status, text = compare({"train.h": (FUNCTION, FUNCTION + "\nGRAFT_API int graft_added(int number);"),
                                "session.h": (STRUCT_END, "  uint64_t added;\n" + STRUCT_END)})
        self.assertEqual(status, 0, text)

    def test_a_removed_function(self):
        status, text = compare({"train.h": (FUNCTION, "")})
        self.assertEqual(status, 1, text)
        self.assertIn("graft_loss_names", text)

    def test_another_argument(self):
        status, text = compare({"train.h": (FUNCTION, FUNCTION.replace("void", "int which"))})
        self.assertEqual(status, 1, text)

    def test_a_field_in_the_middle(self):
        status, text = compare({"session.h": ("uint64_t weights", "uint64_t inserted; uint64_t weights")})
        self.assertEqual(status, 1, text)
        self.assertIn("inserted", text)

    def test_what_is_not_there(self):
        result = subprocess.run([sys.executable, "-B", ROOT / "tools/package/abi_diff.py", "no-such-release"],
                                capture_output=True, text=True)
        self.assertIn("no-such-release is neither a folder", result.stderr)
        self.assertNotEqual(result.returncode, 0)


if __name__ == "__main__":
    if shutil.which("abidiff") is None:
        print("Skipped: abidiff is not installed (abigail-tools).")
        sys.exit(77)
    unittest.main()
