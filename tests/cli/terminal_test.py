"""What a terminal shows: nothing wider than it is, and no progress bar under other output."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import cli


class Screen:
    """As much of a terminal as graft's output needs: characters, \\r, \\n and "erase to the end of the line"."""

    def __init__(self, columns):
        self.columns, self.lines, self.at, self.widest = columns, [[]], 0, 0

    def feed(self, text):
        for part in re.findall(r"\x1b\[K|\r|\n|[^\r\n\x1b]", text):
            line = self.lines[-1]
            if part == "\r":
                self.at = 0
            elif part == "\n":
                self.lines.append([])
                self.at = 0
            elif part == "\x1b[K":
                del line[self.at:]
            else:
                line[self.at:self.at + 1] = [part]
                self.at += 1
                self.widest = max(self.widest, self.at)

    def text(self):
        return ["".join(line) for line in self.lines]


class TerminalTest(cli.CliTest):
    def shown(self, columns, *command, **environment):
        """The screen after a command that succeeds, whose input and output are a terminal."""
        leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        clean = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        process = subprocess.Popen([cli.GRAFT, *map(str, command)], cwd=self.folder, stdin=follower, stdout=follower,
                                   stderr=follower, env={**clean, "TERM": "xterm", **environment}, close_fds=True)
        self.addCleanup(process.kill)
        os.close(follower)
        self.raw, deadline = b"", time.monotonic() + cli.TIMEOUT
        while time.monotonic() < deadline:
            if not select.select([leader], [], [], 1)[0]:
                continue
            try:
                piece = os.read(leader, 65536)
            except OSError:  # all ends of the other side are closed
                break
            if not piece:
                break
            self.raw += piece
        os.close(leader)
        screen = Screen(columns)
        screen.feed(self.raw.decode())
        self.assertEqual(process.wait(cli.TIMEOUT), 0, self.raw.decode())
        return screen

    def test_tables_and_bars_are_as_wide_as_the_terminal(self):
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "a_network_whose_file_has_a_name.graft")
        model = "a_network_whose_file_has_a_name.graft"
        train = ["train", "mlp.graft", "--data", "digits:?count=400", "--batch", 4, "--epochs", 1]
        self.graft(*train, "--quiet", "--checkpoint", "kept", "--checkpoint-every", 20)
        numbers = [row["number"] for row in json.loads(self.graft("checkpoint", "list", "kept", "--json"))["snapshots"]]
        self.graft("checkpoint", "tag", "kept", numbers[0], "a_tag_that_is_much_longer_than_the_room_that_a_terminal_has_for_it")
        for columns in (80, 60):
            for command in (["info", model], ["checkpoint", "list", "kept"], ["checkpoint", "diff", "kept", *numbers[:2]],
                            ["verify", "mlp.graft"], [*train, "--eval", "digits:?count=40", "-o", "o.graft"]):
                with self.subTest(columns=columns, command=command[:2]):
                    screen = self.shown(columns, *command)
                    # Sentences may be longer: the terminal wraps them.
                    table = [line for line in screen.text() if re.search(r"\S {2,}\S|[█░]", line)]
                    self.assertTrue(table, screen.text())
                    self.assertLessEqual(max(map(len, table)), columns, "\n".join(table))
                    for bar in re.findall(r"\r\x1b\[K([^\r\n]*)", self.raw.decode()):
                        self.assertLess(len(bar), columns, bar)

    def test_the_plan_fits(self):
        for columns in (80, 60):
            screen = self.shown(columns, "plan", "mlp.graft")
            for title in ("costliest nodes", "kernel variants"):
                lines = screen.text()
                first = next(i for i, line in enumerate(lines) if line.startswith(title))
                for line in lines[first:lines.index("", first) if "" in lines[first:] else len(lines)]:
                    self.assertLessEqual(len(line), columns, line)

    def test_nothing_is_cut_where_there_is_no_terminal(self):
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.assertNotIn("…", self.graft("info", "lenet.graft") + self.graft("plan", "lenet.graft"))
        self.assertIn("…", "\n".join(self.shown(60, "plan", "lenet.graft").text()))
        wide = self.shown(60, "plan", "lenet.graft", COLUMNS="200").text()
        self.assertNotIn("…", "\n".join(wide), "COLUMNS goes before the terminal's width")

    def test_a_bar_ends_before_other_output_and_is_not_drawn_again(self):
        train = ["train", "mlp.graft", "--data", "digits:?count=400", "--eval", "digits:?count=40", "--batch", 4,
                 "--epochs", 2, "-o", "o.graft"]
        lines = self.shown(80, *train).text()
        bars = [i for i, line in enumerate(lines) if "/200" in line and "█" in line]
        self.assertTrue(bars, lines)
        self.assertEqual([line for line in lines if ("░" in line or "█" in line) and ("Wrote" in line or "epoch" in line)], [])
        wrote = lines.index("Wrote o.graft.")
        self.assertEqual([i for i in bars if i > wrote], [], lines)
        self.assertEqual(sum("200/200" in line for line in lines), 1, lines)

    def test_all_output_goes_through_one_place(self):
        tools = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools")
        past = re.compile(r"std::(v?printf|puts|putchar)\(|std::(fprintf|fputs|fwrite)\([^;]*\bstd(out|err)\b|std::(cout|cerr|clog)")
        sources = [os.path.join(path, name) for folder in ("graft", "bench", "common")
                   for path, _, names in os.walk(os.path.join(tools, folder)) for name in names
                   if name.endswith((".cpp", ".h")) and name not in ("terminal.cpp", "progress.cpp")]
        self.assertGreater(len(sources), 50)
        for source in sorted(sources):
            with open(source) as file:
                self.assertIsNone(past.search(file.read()), f"{os.path.relpath(source, tools)} writes past tools/common/terminal.h")

    def test_a_dumb_terminal_has_no_bars(self):
        train = ["train", "mlp.graft", "--data", "digits:?count=400", "--batch", 4, "--epochs", 1]
        for environment in ({"TERM": "dumb"}, {"TERM": ""}):
            self.shown(80, *train, **environment)
            for part in (b"\x1b", "█".encode(), "░".encode()):
                self.assertNotIn(part, self.raw)
        self.shown(80, *train)
        self.assertIn("█".encode(), self.raw)

    def test_help_wraps(self):
        for columns in (80, 60):
            for command in ([], ["train"], ["bench"], ["checkpoint"], ["checkpoint", "list"]):
                screen = self.shown(columns, *command, "--help")
                self.assertLessEqual(max(map(len, screen.text())), columns, command)
        def words(text):
            return re.sub(r"\s+", " ", text)
        self.assertEqual(words("\n".join(screen.text())).strip(), words(self.graft("checkpoint", "list", "--help")).strip())

    def test_the_total_of_verify_is_what_is_compared(self):
        self.shown(80, "verify", "mlp.graft")
        done, total = re.findall(r"(\d+)/(\d+)", self.raw.decode())[-1]
        self.assertEqual(done, total)


if __name__ == "__main__":
    cli.main()
