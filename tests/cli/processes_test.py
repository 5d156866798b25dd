"""`graft train` as several processes, over libgraft_gloo: the bits of one, and a sentence for whatever goes wrong."""

import json
import os
import random
import signal
import socket
import subprocess
import time

import cli
from cli import CliTest

WHERE = ("MASTER_ADDR", "MASTER_PORT")
WHO = ("GRAFT_RANK", "GRAFT_WORLD_SIZE", "GRAFT_SECRET", "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
       "SLURM_PROCID", "SLURM_STEPID", "TF_CONFIG", "SM_HOSTS", *WHERE, *(f"GRAFT_{name}" for name in WHERE))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Processes(CliTest):
    FLAGS = ("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--batch", 4, "--accumulate", 3, "--seed", 3, "--quiet",
             "--worker-timeout", 2)

    def setUp(self):
        super().setUp()
        folder = os.path.join(os.path.dirname(cli.GRAFT), "../../platform/gloo")
        if not os.path.exists(os.path.join(folder, "libgraft_gloo.so.0.1")):
            self.skipTest("libgraft_gloo is not built")
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.images(64)
        self.labels([i % 10 for i in range(64)])
        self.clean = {name: value for name, value in os.environ.items() if name not in WHO}
        self.port = free_port()

    def start(self, rank, *flags, size=3, secret="a secret of the test", **variables):
        environment = {**self.clean, "GRAFT_RANK": str(rank), "GRAFT_WORLD_SIZE": str(size), "GRAFT_SECRET": secret,
                       "GRAFT_MASTER_ADDR": "127.0.0.1", "GRAFT_MASTER_PORT": str(self.port), **variables}
        process = subprocess.Popen([cli.GRAFT, *map(str, self.FLAGS), *map(str, flags)], cwd=self.folder,
                                   env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def said(process):
        out, errors = process.communicate(timeout=cli.TIMEOUT)
        return process.returncode, out + errors

    def until_a_step(self):
        deadline = time.monotonic() + cli.TIMEOUT
        while time.monotonic() < deadline:
            if os.path.exists(self.path("metrics.jsonl")) and os.path.getsize(self.path("metrics.jsonl")) > 0:
                return
            time.sleep(0.01)
        self.fail("no step was taken")

    def test_they_write_the_file_of_one(self):
        self.graft(*self.FLAGS, "-o", "one.graft")
        # Strangers come first, and stay: with nonsense, with nothing, with half an answer.
        first = self.start(0, "-o", "three.graft")
        strangers = []
        noise = random.Random(5)
        for i in range(200):
            stranger = socket.socket()
            self.addCleanup(stranger.close)
            deadline = time.monotonic() + cli.TIMEOUT
            while stranger.connect_ex(("127.0.0.1", self.port)) != 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            stranger.send(noise.randbytes(i % 90))
            if i % 4 == 0:
                strangers.append(stranger)
            else:
                stranger.close()
            if len(strangers) > 20:
                strangers.pop(0).close()
        others = [self.start(rank) for rank in (1, 2)]
        for process in (first, *others):
            code, said = self.said(process)
            self.assertEqual(code, 0, said)
        with open(self.path("one.graft"), "rb") as a, open(self.path("three.graft"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_a_run_goes_on_without_whoever_is_killed_or_stands_still(self):
        steps = 40
        self.graft(*self.FLAGS, "--steps", steps, "-o", "one.graft")
        instant = random.Random(11)
        kills = int(os.environ.get("GRAFT_TEST_KILLS", "3"))
        lost = 0
        for i in range(kills):
            number = signal.SIGSTOP if i % 10 == 1 else signal.SIGKILL
            with self.subTest(kill=i):
                self.port = free_port()
                if os.path.exists(self.path("metrics.jsonl")):
                    os.remove(self.path("metrics.jsonl"))
                run = [self.start(rank, "--steps", steps, *flags) for rank, flags in
                       ((0, ("--metrics", "metrics.jsonl", "-o", "left.graft")), (1, ()), (2, ()))]
                self.until_a_step()
                victim = instant.choice((1, 2))
                time.sleep(instant.random() * 0.5)
                run[victim].send_signal(number)
                for rank, process in enumerate(run):
                    if rank == victim:
                        continue
                    code, said = self.said(process)
                    self.assertEqual(code, 0, said)
                    lost += "2 workers are left" in said
                run[victim].kill()
                run[victim].wait()
                with open(self.path("one.graft"), "rb") as a, open(self.path("left.graft"), "rb") as b:
                    self.assertEqual(a.read(), b.read())
        self.assertGreater(lost, 0, "the runs were over before anybody was killed")

    def test_without_worker_0_all_end_with_a_sentence(self):
        run = [self.start(0, "--steps", 10000000, "--metrics", "metrics.jsonl"), self.start(1, "--steps", 10000000),
               self.start(2, "--steps", 10000000)]
        self.until_a_step()
        run[0].kill()
        for process in run[1:]:
            code, said = self.said(process)
            self.assertEqual(code, 1, said)  # by no signal
            self.assertIn("graft: Worker 0 is gone.", said)

    def test_the_signal_to_stop_saves_what_is_there(self):
        run = [self.start(rank, "--steps", 10000000, *flags, size=2)
               for rank, flags in ((0, ("--metrics", "metrics.jsonl", "-o", "out.graft")), (1, ()))]
        self.until_a_step()
        for process in reversed(run):  # as launchers do it, to all
            process.send_signal(signal.SIGTERM)
        for process in run:
            code, said = self.said(process)
            self.assertEqual(code, 0, said)
        self.assertTrue(os.path.exists(self.path("out.graft")))

    def test_whoever_differs_is_refused_by_all(self):
        for flags, variables, words in ((("--clip-norm", 4), {}, "another clipping"), (("--lr", 0.5), {}, "another"),
                                        ((), {"size": 3}, "of 3"), ((), {"secret": "another"}, None)):
            with self.subTest(words):
                self.port = free_port()
                first = self.start(0, size=2)
                second = self.start(1, *flags, **{"size": 2, **variables})
                code, said = self.said(second)
                self.assertEqual(code, 1, said)
                if words is None:  # a stranger, of whom worker 0 does not speak
                    self.assertIn("secret", said)
                    first.kill()
                    continue
                self.assertIn(words, said)
                code, said = self.said(first)
                self.assertEqual(code, 1, said)
                self.assertIn(words, said)

    def test_launchers_are_understood(self):
        def says(environment):
            """A worker other than 0, whose worker 0 is nowhere."""
            done = self.run_graft(*self.FLAGS, env={**self.clean, **environment})
            self.assertEqual(done.returncode, 1, done.stderr)
            return done.stderr

        nowhere = {"GRAFT_MASTER_ADDR": "no-such-host.invalid", "GRAFT_MASTER_PORT": "7"}
        cluster = {"cluster": {"chief": ["no-such-host.invalid:8"], "worker": ["b:8", "c:8"]},
                   "task": {"type": "worker", "index": 1}}
        for environment, words in (
                ({"GRAFT_RANK": "1", "GRAFT_WORLD_SIZE": "3", **nowhere}, "Worker 1 of 3 (by GRAFT_RANK"),
                ({"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "no-such-host.invalid", "MASTER_PORT": "9"},
                 "Worker 2 of 3 (by torchrun's RANK, WORLD_SIZE), by way of no-such-host.invalid port 9."),
                ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", **nowhere}, "Worker 1 of 2 (by Open MPI's"),
                ({"PMI_RANK": "1", "PMI_SIZE": "2", **nowhere}, "Worker 1 of 2 (by PMI's"),
                ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_STEPID": "0", "SLURM_STEP_NODELIST": "no-such[03-05].invalid"},
                 "Worker 3 of 4 (by Slurm's SLURM_PROCID, SLURM_NTASKS), by way of no-such03 port 29471."),
                ({"TF_CONFIG": json.dumps(cluster)}, "Worker 2 of 3 (by TF_CONFIG), by way of no-such-host.invalid port 8."),
                ({"SM_HOSTS": '["no-such-host.invalid", "algo-2"]', "SM_CURRENT_HOST": "algo-2"},
                 "Worker 1 of 2 (by SageMaker's"),
                ({"GRAFT_RANK": "1", "GRAFT_WORLD_SIZE": "3", "RANK": "1", "WORLD_SIZE": "4", **nowhere},
                 "By GRAFT_RANK, GRAFT_WORLD_SIZE this is worker 1 of 3, by torchrun's RANK, WORLD_SIZE 1 of 4."),
                ({"GRAFT_RANK": "3", "GRAFT_WORLD_SIZE": "3"}, "which is not below"),
                ({"GRAFT_RANK": "1x", "GRAFT_WORLD_SIZE": "3"}, "which is no number"),
                ({"GRAFT_RANK": "1"}, "GRAFT_WORLD_SIZE is not"),
                ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "give GRAFT_MASTER_ADDR"),
                ({"TF_CONFIG": "{"}, "TF_CONFIG does not say"),
                ({"SM_HOSTS": "7"}, "SM_HOSTS is no list"),
                ({"GRAFT_RANK": "1", "GRAFT_WORLD_SIZE": "2", "GRAFT_MASTER_ADDR": "192.0.2.1"}, "need a secret")):
            with self.subTest(words):
                self.assertIn(words, says(environment))
        # A batch script of Slurm's is no step; one worker is none of several.
        for environment in ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "7"}):
            done = self.run_graft(*self.FLAGS, env={**self.clean, **environment})
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    cli.main()
