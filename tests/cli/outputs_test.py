"""Outputs: what could not be written, or is an input, is refused before the work; what fails at the end is kept."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import cli


class OutputsTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.images(8)
        self.labels([i % 10 for i in range(8)])
        self.graft("convert", "--example", "mlp", "-o", "mlp.onnx")
        self.data = ["--data", "npy:x.npy,y.npy"]
        self.train = ["train", "mlp.graft", *self.data, "--steps", 1, "--quiet"]

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_refused_before_the_work(self):
        os.mkdir(self.path("folder"))
        places = {"folder": "folder", "nowhere/o.graft": "no folder", "/dev/null": "not a regular file",
                  "n" * 256: "name", "/proc/o.graft": "cannot be written"}
        for place, says in places.items():
            for command in ([*self.train, "-o", place], ["convert", "mlp.onnx", "-o", place],
                            ["export", "mlp.graft", "--format", "safetensors", "-o", place],
                            ["plan", "mlp.graft", "--mode", "infer", "--svg", place], [*self.train, "--svg", place],
                            [*self.train, "--profile", place]):
                with self.subTest(command=command[0], place=place[:20]):
                    done = self.run_graft(*command)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertEqual(done.stdout, "", "the work had begun")
                    self.assertNotIn("Training", done.stderr)
                    self.assertRegex(done.stderr, r"\Agraft: .*\.\n\Z")
                    self.assertIn(says, done.stderr)
        for place in ("folder", "nowhere/m.jsonl"):
            self.fails(*self.train, "--metrics", place)

    def test_inputs_are_not_outputs(self):
        self.graft(*self.train, "--lora", "r=2", "-o", "a.graft")
        self.graft(*self.train, "--checkpoint", "store")
        os.symlink("mlp.graft", self.path("link.graft"))
        os.link(self.path("mlp.graft"), self.path("hard.graft"))
        before = {name: self.bytes_of(name) for name in ("mlp.graft", "x.npy", "y.npy", "a.graft", "mlp.onnx")}
        restore = ["checkpoint", "restore", "store", 1, "--model", "mlp.graft"]
        for command in ([*self.train, "-o", "mlp.graft"], [*self.train, "-o", "link.graft"],
                        [*self.train, "-o", "hard.graft"], [*self.train, "-o", "x.npy"],
                        [*self.train, "--svg", "y.npy"], [*self.train, "--metrics", "x.npy"],
                        [*self.train, "--metrics", "mlp.graft"], [*self.train, "--adapter", "a.graft", "-o", "a.graft"],
                        ["convert", "mlp.onnx", "-o", "mlp.onnx"], ["export", "mlp.graft", "-o", "mlp.graft"],
                        ["export", "mlp.graft", "-o", "mlp.onnx", "--source", "mlp.onnx"],
                        ["merge", "mlp.graft", "--adapter", "a.graft", "-o", "mlp.graft"],
                        ["merge", "mlp.graft", "--adapter", "a.graft", "-o", "a.graft"],
                        [*restore, "-o", "mlp.graft"], [*restore, "-o", "store/root"],
                        ["plan", "mlp.graft", "--mode", "infer", "--svg", "mlp.graft"]):
            with self.subTest(command=" ".join(map(str, command))):
                if command[-1] == "store/root":
                    command[-1] = "store/" + sorted(os.listdir(self.path("store")))[0]
                done = self.run_graft(*command)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stderr, "is one of the inputs|is a folder")
                for name, content in before.items():
                    self.assertEqual(self.bytes_of(name), content, name)
        os.mkdir(self.path("out"))
        os.rename(self.path("x.npy"), self.path("out/logits.npy"))
        self.fails("run", "mlp.graft", "--input", "image=out/logits.npy", "--out", "out", says=["one of the inputs"])
        self.fails(*self.train[:2], "--data", "npy:out/logits.npy,y.npy", "--steps", 1, "--quiet", "-o", "s.graft",
                   "--svg", "s.graft", says=["are one file"])

    def test_in_place(self):
        self.graft(*self.train, "-o", "other.graft")
        self.graft(*self.train, "--in-place", "-o", "mlp.graft")
        self.assertEqual(self.bytes_of("mlp.graft"), self.bytes_of("other.graft"))
        self.fails(*self.train, "--in-place", "-o", "x.npy", says=["one of the inputs"])

    def test_links_are_followed(self):
        os.mkdir(self.path("far"))
        os.symlink("far/real.graft", self.path("out.graft"))
        self.graft(*self.train, "-o", "out.graft")
        self.assertTrue(os.path.islink(self.path("out.graft")))
        self.assertEqual(os.listdir(self.path("far")), ["real.graft"])
        self.graft("info", "far/real.graft")

    def limited(self, *command, size=1000):
        return self.run_graft(*command, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))

    def test_a_limit_on_the_size_of_files_is_told(self):
        with open(self.path("o.graft"), "w") as file:
            file.write("old")
        self.graft(*self.train, "--checkpoint", "kept")
        before = sorted(os.listdir(self.folder))
        for command in ([*self.train, "-o", "o.graft"], ["convert", "mlp.onnx", "-o", "o.graft"],
                        ["run", "mlp.graft", "--input", "image=x.npy", "--fetch", "logits", "--out", "."],
                        ["checkpoint", "restore", "kept", 1, "--model", "mlp.graft", "-o", "o.graft"]):
            with self.subTest(command=command[0]):
                done = self.limited(*command, size=100)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stderr, r"graft: .*File too large.*\.\n\Z")
                self.assertEqual(sorted(os.listdir(self.folder)), before, "nothing is left of it")
        self.assertEqual(self.bytes_of("o.graft"), b"old")

    def test_files_keep_their_mode_and_stores_are_the_users_own(self):
        os.umask(0o022)
        self.graft(*self.train, "-o", "o.graft", "--checkpoint", "kept")
        for mode in (0o600, 0o640):
            os.chmod(self.path("o.graft"), mode)
            self.graft(*self.train, "-o", "o.graft")
            self.assertEqual(os.stat(self.path("o.graft")).st_mode & 0o7777, mode)
        self.assertEqual(os.stat(self.path("o.graft.config.json")).st_mode & 0o7777, 0o644)
        self.graft("checkpoint", "tag", "kept", 1, "one")
        self.assertEqual(os.stat(self.path("kept")).st_mode & 0o7777, 0o700)
        modes = {name: oct(os.stat(self.path(f"kept/{name}")).st_mode & 0o7777) for name in os.listdir(self.path("kept"))}
        self.assertEqual(set(modes.values()), {"0o600"}, modes)

    def test_long_names(self):
        long = "n" * 243 + ".graft"  # 255 bytes with ".config.json" would be too many
        for name in ("o" * 240 + ".graft", long, "o" * 249 + ".graft"):
            with self.subTest(bytes=len(name)):
                self.graft("convert", "mlp.onnx", "-o", name)
                self.graft("verify", name)
        self.assertNotIn("tmp", "".join(os.listdir(self.folder)))

    @unittest.skipUnless(os.geteuid() == 0, "only root may give a link away")
    def test_links_of_other_users_in_open_folders_are_not_followed(self):
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o1777)
        with open(self.path("mine"), "w") as file:
            file.write("mine")
        os.mkdir(self.path("far"))
        for name, target in (("o.graft", "../mine"), ("m.jsonl", "../mine"), ("d", "../far")):
            os.symlink(target, self.path(f"open/{name}"))
            os.lchown(self.path(f"open/{name}"), 1234, 1234)
        for flags in (("-o", "open/o.graft"), ("--metrics", "open/m.jsonl"), ("--checkpoint", "open/d"),
                      ("-o", "open/d/o.graft"), ("--svg", "open/d/o.svg")):
            with self.subTest(flags=flags):
                self.fails(*self.train, *flags, says=["link that another user"])
        self.assertEqual(self.bytes_of("mine"), b"mine")
        self.assertEqual(os.listdir(self.path("far")), [])

    def test_a_pipe_is_no_input(self):
        os.mkfifo(self.path("pipe"))
        shutil.copy(f"{cli.SEEDS}/gguf/llama", self.path("tiny.gguf"))
        self.graft("convert", "tiny.gguf", "-o", "tiny.graft")
        train = ["train", "mlp.graft", "--steps", 1, "--quiet", "--data"]
        generate = ["generate", "tiny.graft", "--prompt", "a", "--tokens", 1]
        for command in (["info", "pipe"], ["verify", "pipe"], ["plan", "pipe"], ["convert", "pipe", "-o", "o.graft"],
                        ["convert", "mlp.onnx", "--external", "pipe", "-o", "o.graft"],
                        ["run", "pipe", "--input", "image=x.npy"], ["run", "mlp.graft", "--input", "image=pipe"],
                        [*train, "npy:pipe,y.npy"], [*train, "csv:pipe?label=y"], [*train, "idx:pipe,pipe"],
                        [*train, "ts:pipe"], ["train", "tiny.graft", "--data", "text:pipe", "--steps", 1],
                        ["train", "tiny.graft", "--data", "jsonl:pipe", "--steps", 1],
                        [*self.train, "--config", "pipe"], [*self.train, "--adapter", "pipe"],
                        ["checkpoint", "list", "pipe"], ["export", "pipe", "-o", "o.onnx"],
                        ["merge", "mlp.graft", "--adapter", "pipe", "-o", "o.graft"], ["embed", "pipe", "--text", "a"],
                        ["embed", "tiny.graft", "--file", "pipe"], ["tokenize", "tiny.graft", "--file", "pipe"],
                        ["imatrix", "tiny.graft", "--data", "pipe", "-o", "o.gguf"], ["chat", "pipe"],
                        [*generate, "--grammar", "pipe"], [*generate, "--json-schema", "pipe"],
                        [*generate, "--prompts", "pipe"],
                        ["delta", "info", "pipe"], ["compare", "pipe", "mlp.graft", *self.data], ["eval", "pipe", *self.data]):
            with self.subTest(command=" ".join(map(str, command))):
                done = subprocess.run([cli.GRAFT, *map(str, command)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=20)
                self.assertIn(done.returncode, (1, 2), done.stdout + done.stderr)
                if done.returncode == 1:
                    self.assertRegex(done.stderr, "pipe.*(not a regular file|no file|neither an .onnx file|Not a directory)")

    def test_a_failed_save_is_kept_elsewhere(self):
        # The folder goes away while training runs; the model lands in the folder of temporary files.
        os.mkdir(self.path("gone"))
        os.mkdir(self.path("spare"))
        command = [cli.GRAFT, "train", "mlp.graft", *self.data, "--steps", "1000000", "--quiet", "--metrics", "m.jsonl",
                   "-o", "gone/o.graft"]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + cli.TIMEOUT
        while not os.path.exists(self.path("m.jsonl")) or os.path.getsize(self.path("m.jsonl")) < 100:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        os.rmdir(self.path("gone"))
        process.send_signal(signal.SIGHUP)
        out, errors = process.communicate(timeout=cli.TIMEOUT)
        self.assertEqual(process.returncode, 1, out + errors)
        kept = re.search(r'graft: .*kept as "([^"]+)" instead\.\n\Z', errors)
        self.assertTrue(kept, errors)
        self.assertIn("Stopped after step", out)
        self.graft("verify", kept[1], "--deep")


if __name__ == "__main__":
    cli.main()
