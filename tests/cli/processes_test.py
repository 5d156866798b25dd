"""`graft train` as several processes, over libgraft_gloo: the bits of one, and a sentence for whatever goes wrong."""

import json
import os
import random
import signal
import socket
import time

import cli
import workers_test
from processes import ProcessTest, free_port, listening_ports


class Processes(ProcessTest):
    def test_they_write_the_file_of_one(self):
        self.graft(*self.FLAGS, "-o", "one.graft")
        # Strangers come before the others and while steps are taken, and stay: with nonsense, with nothing, with half an
        # answer.
        first = self.start(0, "-o", "three.graft")
        count = int(os.environ.get("GRAFT_TEST_STRANGERS", "200"))
        strangers = []
        noise = random.Random(5)

        def comes(i):
            stranger = socket.socket()
            self.addCleanup(stranger.close)
            deadline = time.monotonic() + cli.TIMEOUT
            while stranger.connect_ex(("127.0.0.1", self.port)) != 0:
                if first.poll() is not None or time.monotonic() > deadline:
                    return False
                time.sleep(0.01)
            try:
                stranger.send(noise.randbytes(i % 90))
            except OSError:
                pass  # nobody listens any more
            if i % 4 == 0:
                strangers.append(stranger)
            else:
                stranger.close()
            if len(strangers) > 20:
                strangers.pop(0).close()
            return True

        self.assertTrue(all(comes(i) for i in range(count // 2)))
        others = [self.start(rank) for rank in (1, 2)]
        came = 0
        while came < count - count // 2 and comes(came):
            came += 1
            time.sleep(0.002)  # not all before the first step
        self.assertGreater(came, 0)
        for process in (first, *others):
            code, said = self.said(process)
            self.assertEqual(code, 0, said)
        with open(self.path("one.graft"), "rb") as a, open(self.path("three.graft"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        if "GRAFT_TEST_STRANGERS" in os.environ:
            print(f"{count // 2} strangers before the others came, {came} after")

    def stay(self, port, count):
        """As many connections that say nothing."""
        for _ in range(count):
            stranger = socket.socket()
            self.addCleanup(stranger.close)
            stranger.settimeout(cli.TIMEOUT)
            stranger.connect(("127.0.0.1", port))

    def test_silent_strangers_make_room(self):
        """More than are listened to: while the others come, and after a loss at whatever port is open."""
        flags = ("--steps", 10000000, "--metrics", "metrics.jsonl", "-o", "left.graft")
        run = [self.start(0, *flags)]
        self.until("worker 0", lambda: self.port in listening_ports(run[0].pid))
        self.stay(self.port, 80)
        run += [self.start(rank, *flags) for rank in (1, 2)]
        self.until_a_step()
        for process in run:
            for port in listening_ports(process.pid):
                self.stay(port, 80)
        run[1].kill()
        self.reads(run[0], "2 workers go on")
        before = len(self.rows())
        self.until("steps of those that are left", lambda: len(self.rows()) > before + 2)
        again = self.start(1, *flags)
        self.reads(again, "One of 3 workers, from step")
        run[0].send_signal(signal.SIGTERM)
        for process, status in ((run[0], 143), (run[2], 130), (again, 130)):  # the others were not sent the signal
            code, said = self.said(process)
            self.assertEqual(code, status, said)
        self.same_as_one("left.graft", len(self.rows()))

    def test_without_a_secret_those_of_this_user_meet(self):
        first_home, other_home = self.path("home"), self.path("other")
        for home in (first_home, other_home):
            os.mkdir(home)
        here = {"HOME": first_home, "XDG_CACHE_HOME": ""}
        self.graft(*self.FLAGS, "-o", "one.graft")
        run = [self.start(rank, "-o", "two.graft", size=2, secret="", **here) for rank in range(2)]
        for process in run:
            code, said = self.said(process)
            self.assertEqual(code, 0, said)
        with open(self.path("one.graft"), "rb") as a, open(self.path("two.graft"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        secret = os.path.join(first_home, ".cache/graft/secret")
        self.assertEqual(os.stat(secret).st_mode & 0o777, 0o600)
        with open(secret, encoding="ascii") as file:
            digits = file.read()
        self.assertRegex(digits, "^[0-9a-f]{64}$")
        # Who has another home is another user: not even the empty secret opens the door.
        for variables in ({"HOME": other_home}, {"secret": "0"}):
            self.port = free_port()
            first = self.start(0, size=2, secret="", **here)
            code, said = self.said(self.start(1, size=2, **{"secret": "", "XDG_CACHE_HOME": "", **variables}))
            self.assertEqual(code, 1, said)
            self.assertIn("secret", said)
            first.kill()
        with open(os.path.join(other_home, ".cache/graft/secret"), encoding="ascii") as file:
            self.assertNotEqual(file.read(), digits)
        os.chmod(secret, 0o640)
        code, said = self.said(self.start(0, size=2, secret="", **here))
        self.assertEqual(code, 1, said)
        self.assertIn("is not this user's alone", said)

    def test_evaluations_of_worker_0_change_the_steps_of_all(self):
        for watched in workers_test.Workers.WATCHED:
            flags = ("--eval", "npy:x.npy,y.npy", "--steps", 30, *watched, "--metrics", "metrics.jsonl")
            self.graft(*self.FLAGS, *flags, "-o", "one.graft")
            alone = [(row["step"], row["loss"], row["lr"]) for row in self.rows()]
            held_out = [(row["step"], row["loss"]) for row in self.rows("held_out")]
            self.assertEqual(len(alone), 8 if "--early-stop" in watched else 30)
            for victim in (None, 0):
                with self.subTest(watched=watched[0], victim=victim):
                    self.port = free_port()
                    os.remove(self.path("metrics.jsonl"))
                    run = [self.start(rank, *flags, "-o", "two.graft") for rank in range(3)]
                    if victim is not None:
                        self.until("steps", lambda: len(self.rows()) > 3)
                        run[victim].kill()
                    for rank, process in enumerate(run):
                        code, said = self.said(process)
                        self.assertIn(code, (0, -signal.SIGKILL) if rank == victim else (0,), said)
                    with open(self.path("one.graft"), "rb") as a, open(self.path("two.graft"), "rb") as b:
                        self.assertEqual(a.read(), b.read())
                    self.assertEqual([(row["step"], row["loss"], row["lr"]) for row in self.rows()], alone)
                    self.assertEqual([(row["step"], row["loss"]) for row in self.rows("held_out")], held_out)

    def test_a_run_goes_on_without_whoever_is_killed_or_stands_still(self):
        steps = 40
        outputs = ("--eval", "npy:x.npy,y.npy", "--metrics", "metrics.jsonl", "--steps", steps)
        self.graft(*self.FLAGS, *outputs, "-o", "one.graft")
        alone = [(row["step"], row["loss"]) for row in self.rows()]
        held_out = [(row["step"], row["loss"]) for row in self.rows("held_out")]
        instant = random.Random(11)
        lost = led = 0
        for i in range(int(os.environ.get("GRAFT_TEST_KILLS", "3"))):
            number = signal.SIGSTOP if i % 10 == 1 else signal.SIGKILL
            kept = ("--checkpoint", f"kept{i}", "--checkpoint-every", 5) if i % 2 == 0 else ()
            with self.subTest(kill=i):
                self.port = free_port()
                for name in ("metrics.jsonl", "left.graft"):
                    if os.path.exists(self.path(name)):
                        os.remove(self.path(name))
                run = [self.start(rank, *outputs, *kept, "-o", "left.graft") for rank in range(3)]
                self.until_a_step()
                victim = i % 2 if i < 2 else instant.choice((0, 1, 2))  # worker 0 is the first
                time.sleep(instant.random() * 0.5)
                run[victim].send_signal(number)
                for rank, process in enumerate(run):
                    if rank == victim:
                        continue
                    code, said = self.said(process)
                    self.assertEqual(code, 0, said)
                    lost += "2 workers go on" in said
                    led += "This worker is worker 0 now" in said
                run[victim].kill()
                run[victim].wait()
                with open(self.path("one.graft"), "rb") as a, open(self.path("left.graft"), "rb") as b:
                    self.assertEqual(a.read(), b.read())
                self.assertEqual([(row["step"], row["loss"]) for row in self.rows()], alone)
                self.assertEqual([(row["step"], row["loss"]) for row in self.rows("held_out")], held_out)
                if kept:
                    self.graft("checkpoint", "verify", f"kept{i}")
                    said = self.run_graft(*self.FLAGS, "--steps", steps, *kept, "--resume")
                    self.assertIn(f"Going on from step {steps}.", said.stderr)
        self.assertGreater(lost, 0, "the runs were over before anybody was killed")
        self.assertGreater(led, 0, "nobody took worker 0's place")

    def test_whoever_was_killed_comes_back(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                self.port = free_port()
                if os.path.exists(self.path("metrics.jsonl")):
                    os.remove(self.path("metrics.jsonl"))
                endless = ("--steps", 10000000, "--metrics", "metrics.jsonl", "-o", "left.graft")
                run = [self.start(rank, *endless, size=2) for rank in range(2)]
                self.until_a_step()
                run[victim].kill()
                run[victim].wait()
                # A stranger to this run, started by mistake, ends alone.
                other = self.start(victim, *endless, "--lr", 0.5, size=2)
                again = self.start(victim, *endless, size=2)
                code, said = self.said(other)
                self.assertEqual(code, 1, said)
                self.assertIn("another", said)
                left = run[1 - victim]
                self.reads(again, "One of 2 workers, from step")
                steps = len(self.rows())
                self.until("a step of both", lambda: len(self.rows()) > steps + 2)
                left.send_signal(signal.SIGTERM)  # it is worker 0 now, if it was not
                for process, status in ((left, 143), (again, 130)):  # the other one was not sent the signal
                    code, said = self.said(process)
                    self.assertEqual(code, status, said)
                self.same_as_one("left.graft", len(self.rows()))

    def test_whoever_stood_still_comes_back(self):
        run = [self.start(rank, "--steps", 10000000, "--metrics", "metrics.jsonl", "-o", "left.graft") for rank in range(3)]
        self.until_a_step()
        run[0].send_signal(signal.SIGSTOP)
        self.reads(run[1], "2 workers go on")
        run[0].send_signal(signal.SIGCONT)
        self.reads(run[1], "3 workers go on")
        run[1].send_signal(signal.SIGTERM)
        for process in run:
            code, said = self.said(process)
            self.assertEqual(code, 143 if process is run[1] else 130, said)
        self.same_as_one("left.graft", len(self.rows()))

    def test_the_signal_to_stop_saves_what_is_there(self):
        run = [self.start(rank, "--steps", 10000000, *flags, size=2)
               for rank, flags in ((0, ("--metrics", "metrics.jsonl", "-o", "out.graft")), (1, ()))]
        self.until_a_step()
        for process in reversed(run):  # as launchers do it, to all
            process.send_signal(signal.SIGTERM)
        for process in run:
            code, said = self.said(process)
            self.assertEqual(code, 143, said)
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
                ({"GRAFT_RANK": "1", "GRAFT_WORLD_SIZE": "2", "GRAFT_MASTER_ADDR": "192.0.2.1", "GRAFT_SECRET": "s"},
                 "\"192.0.2.1\" is another address than loopback, and what workers send each other is neither encrypted")):
            with self.subTest(words):
                self.assertIn(words, says(environment))
        done = self.run_graft(*self.FLAGS, "--insecure-network", env={
            **self.clean, "GRAFT_RANK": "1", "GRAFT_WORLD_SIZE": "2", "GRAFT_MASTER_ADDR": "192.0.2.1"})
        self.assertIn("need a secret", done.stderr)
        # A batch script of Slurm's is no step; one worker is none of several.
        for environment in ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "7"}):
            done = self.run_graft(*self.FLAGS, env={**self.clean, **environment})
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_first_launcher_counts_and_two_must_agree(self):
        where = {"GRAFT_MASTER_ADDR": "no-such-host.invalid", "GRAFT_MASTER_PORT": "7"}
        launchers = [  # in their order: what the text calls them, and how each says "worker RANK of 3"
            ("GRAFT_RANK", lambda rank: {"GRAFT_RANK": str(rank), "GRAFT_WORLD_SIZE": "3"}),
            ("torchrun's", lambda rank: {"RANK": str(rank), "WORLD_SIZE": "3"}),
            ("Open MPI's", lambda rank: {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3"}),
            ("PMI's", lambda rank: {"PMI_RANK": str(rank), "PMI_SIZE": "3"}),
            ("Slurm's", lambda rank: {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "3", "SLURM_STEPID": "0"}),
            ("TF_CONFIG", lambda rank: {"TF_CONFIG": json.dumps(
                {"cluster": {"worker": ["a:1", "b:1", "c:1"]}, "task": {"type": "worker", "index": rank}})}),
            ("SageMaker's", lambda rank: {"SM_HOSTS": '["a", "b", "c"]', "SM_CURRENT_HOST": "abc"[rank]})]
        for (first, of_first), (second, of_second) in zip(launchers, [*launchers[1:], launchers[0]]):
            if second == launchers[0][0]:
                first, of_first, second, of_second = second, of_second, first, of_first
            for rank in (1, 2):
                with self.subTest(first=first, second=second, rank=rank):
                    done = self.run_graft(*self.FLAGS, env={**self.clean, **where, **of_second(rank), **of_first(1)})
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(f"Worker 1 of 3 (by {first}" if rank == 1 else " this is worker 1 of 3, by ", done.stderr)
                    self.assertEqual(f"By {first}" in done.stderr and f", by {second}" in done.stderr, rank == 2, done.stderr)


if __name__ == "__main__":
    cli.main()
