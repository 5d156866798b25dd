"""Outputs: what could not be written, or is an input, is refused before the work; what fails at the end is kept."""

import os
import re
import signal
import subprocess
import time

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
                  "n" * 250: "name", "/proc/o.graft": "cannot be written"}
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

    def test_leftovers_of_the_dead_go(self):
        dead = subprocess.Popen(["true"])
        dead.wait()
        for process in (dead.pid, os.getpid()):
            with open(self.path(f"o.graft.tmp{process}-0"), "wb"):
                pass
        self.graft(*self.train, "-o", "o.graft")
        left = [name for name in os.listdir(self.folder) if ".tmp" in name]
        self.assertEqual(left, [f"o.graft.tmp{os.getpid()}-0"])

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
