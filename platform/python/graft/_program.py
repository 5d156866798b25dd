"""The command line that the wheel holds, as the script `graft`."""

import os
import sys


def main() -> None:
    """Becomes the program."""
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "graft")
    os.execv(program, [program, *sys.argv[1:]])
