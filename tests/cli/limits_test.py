"""Little address space, and runs that are ended early: a sentence, and nothing that later runs would suffer from."""

import glob
import os
import resource
import signal
import subprocess
import time

import cli

KIB = 1024


def limit_to(size):
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))


class LimitsTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.images(4)
        self.labels([0, 1, 2, 3])
        self.graft("convert", "--example", "mlp", "-o", "mlp.onnx")
        if self.run_graft("--version", preexec_fn=limit_to(4 << 30)).returncode != 0:
            self.skipTest("this build, as with a sanitizer, takes address space of its own")

    def least(self):
        """The least address space with which the system's loader starts the program, to 64 KiB."""
        few, enough = 1 << 20, 4 << 30
        while enough - few > 64 * KIB:
            middle = (few + enough) // 2
            if self.run_graft("--version", preexec_fn=limit_to(middle)).returncode == 0:
                enough = middle
            else:
                few = middle
        return enough

    def ends(self, done):
        """Done, or one sentence."""
        self.assertIn(done.returncode, (0, 1), done.stderr)
        if done.returncode == 1:
            self.assertRegex(done.stderr.splitlines()[-1], r"\Agraft: .*\.\Z")
        return done.returncode

    def test_commands_of_the_host_end_in_a_sentence(self):
        least = self.least()
        for command in (["convert", "mlp.onnx", "-o", "o.graft"], ["info", "mlp.graft"],
                        ["plan", "mlp.graft", "--caps", "mali-g78"]):
            ended = set()
            for more in range(0, 12_000 * KIB, 400 * KIB):
                with self.subTest(command=command[0], more=more // KIB):
                    ended.add(self.ends(self.run_graft(*command, preexec_fn=limit_to(least + more))))
            self.assertEqual(ended, {0, 1}, command[0])
            self.graft(*command)

    def profile(self, cache):
        texts = []
        for name in glob.glob(self.path(f"{cache}/graft/device-*.txt")):
            with open(name) as file:
                texts.append(file.read())
        return "".join(texts)

    def commands(self):
        return (["run", "mlp.graft", "--input", "image=x.npy", "--out", "o"],
                ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", 1, "--quiet", "-o", "t.graft"])

    def test_a_shortage_is_no_verdict_on_kernels(self):
        # A driver may crash for want of memory; what graft has noted of its kernels by then must not outlive that.
        stopped = 0
        for i, command in enumerate(self.commands()):
            for size in (220, 260, 300, 350, 450, 700):
                cache = f"cache-{i}-{size}"
                environment = {**os.environ, "XDG_CACHE_HOME": self.path(cache)}
                with self.subTest(command=command[0], size=size):
                    done = self.run_graft(*command, preexec_fn=limit_to(size << 20), env=environment)
                    if done.returncode >= 0:
                        self.ends(done)
                    stopped += done.returncode != 0
                    again = self.run_graft(*command, env=environment)
                    self.assertEqual(again.returncode, 0, again.stderr)
                    self.assertNotIn("failed\t", self.profile(cache))
        self.assertGreater(stopped, 0)

    def test_a_first_run_that_is_stopped_is_no_verdict_on_kernels(self):
        command = self.commands()[0]
        environment = {**os.environ, "XDG_CACHE_HOME": self.path("cache")}
        process = subprocess.Popen([cli.GRAFT, *command], cwd=self.folder, env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + cli.TIMEOUT
        while "probing\t" not in self.profile("cache"):
            self.assertIsNone(process.poll(), "no kernel was tested")
            self.assertLess(time.monotonic(), deadline)
        process.send_signal(signal.SIGINT)
        process.wait(cli.TIMEOUT)
        if "probing\t" not in self.profile("cache"):
            self.skipTest("the tests of kernels were over before the signal")
        done = self.run_graft(*command, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("failed\t", self.profile("cache"))


if __name__ == "__main__":
    cli.main()
