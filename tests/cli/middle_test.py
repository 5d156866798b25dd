"""A man in the middle of the workers' meeting: he forwards the bytes of worker 1, and changes one of them."""

import os
import socket
import subprocess
import threading

import cli
from processes import ProcessTest, free_port, listening_ports


class Middle:
    """Forwards connections to a port. `change`: (direction, place): one bit of that byte of each connection is flipped;
    direction 0 leads to the port. `passed` has the most bytes that a connection had in each direction."""

    def __init__(self, to, change=None):
        self.to, self.change, self.passed = to, change, [0, 0]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            try:
                called = socket.create_connection(("127.0.0.1", self.to))
            except OSError:  # worker 0 does not listen any more
                caller.close()
                continue
            for direction, (source, target) in enumerate(((caller, called), (called, caller))):
                threading.Thread(target=self.forward, args=(direction, source, target), daemon=True).start()

    def forward(self, direction, source, target):
        done = 0
        try:
            while data := bytearray(source.recv(1 << 16)):
                if self.change and self.change[0] == direction and done <= self.change[1] < done + len(data):
                    data[self.change[1] - done] ^= 0x10
                done += len(data)
                target.sendall(data)
                self.passed[direction] = max(self.passed[direction], done)
        except OSError:
            pass
        for end in (source, target):
            end.close()


class MiddleTest(ProcessTest):
    def run_through(self, change=None):
        """Two workers, the second by way of the man in the middle: his notes, and how each worker ended."""
        if os.path.exists(self.path("two.graft")):
            os.remove(self.path("two.graft"))
        self.port = free_port()
        first = self.start(0, "-o", "two.graft", size=2)
        self.until("worker 0", lambda: self.port in listening_ports(first.pid))
        middle = Middle(self.port, change)
        self.addCleanup(middle.close)
        second = self.start(1, "-o", "two.graft", size=2, GRAFT_MASTER_PORT=str(middle.port))
        try:
            said = second.communicate(timeout=cli.TIMEOUT if change is None else 5)
        except subprocess.TimeoutExpired:  # it still tries to meet
            second.kill()
            said = second.communicate()
        if second.returncode != 0:
            first.kill()
        return middle.passed, (second.returncode, "".join(said)), self.said(first)

    def test_a_changed_meeting_is_none(self):
        """What decides who takes part is authenticated (platform/gloo/wire.h); what is sent after it is not
        (docs/trust.md)."""
        passed, second, first = self.run_through()
        self.assertEqual((second[0], first[0]), (0, 0), (second, first))
        self.same_as_one("two.graft", -(-64 // 12))  # an epoch of 64 samples, 3 micro-batches of 4 a step
        self.assertGreater(min(passed), 80)
        answer, challenge_and_welcome = 0, 1
        for what, change in (("the port where worker 1 is reached", (answer, 24)), ("worker 1's proof", (answer, 60)),
                             ("the rank that worker 0 gives", (challenge_and_welcome, 36)),
                             ("worker 0's proof", (challenge_and_welcome, 60))):
            with self.subTest(what):
                _, second, first = self.run_through(change)
                self.assertNotEqual(second[0], 0, second)
                self.assertNotIn("from step 0 on", second[1], "it is let in")
                self.assertNotIn("Training", first[1], "worker 0 waits for the real one")
                self.assertFalse(os.path.exists(self.path("two.graft")))


if __name__ == "__main__":
    cli.main()
