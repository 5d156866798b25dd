"""graft report and graft watch: the page of a run, in a file and served."""

import http.client
import json
import os
import re
import signal
import subprocess
import time

import cli

# What a name or a text may hold that would end the page's script or begin another element.
HOSTILE = ["</script><script>alert(1)</script>", "<!--", "<img src=x onerror=alert(2)>", "a & b", '"quoted" \\ \u2028']


class RunTest(cli.CliTest):
    def write(self, rows, name="m.jsonl", end="\n"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in rows)[:-1] + end)

    def rows(self, count):
        return [{"kind": "step", "step": i, "loss": 1 / i, "lr": 1e-3, "samples": 8, "seconds": i / 10} for i in range(1, count + 1)]

    def embedded(self, page):
        """What the page holds of the run."""
        return json.loads(re.search(r'<script type="application/json" id="run">(.*?)</script>', page, re.DOTALL)[1])

    def text_of(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()


class ReportTest(RunTest):
    def test_the_page_of_a_run(self):
        self.graft("train", "mlp.graft", "--data", "digits:?count=60", "--eval", "digits:?split=test&count=20", "--batch", 20,
                   "--quiet", "--metrics", "metrics.jsonl", "--checkpoint", "kept", "-o", "out.graft")
        self.assertEqual(self.graft("report", "metrics.jsonl", "kept", "-o", "run.html"), "Wrote run.html.\n")
        page = self.text_of("run.html")
        told = self.embedded(page)
        with open(self.path("metrics.jsonl"), encoding="utf-8") as file:
            self.assertEqual(told["rows"], [json.loads(line) for line in file])
        steps = self.metrics()
        self.assertEqual([row["samples"] for row in steps], [20, 20, 20])
        times = [row["seconds"] for row in steps]
        self.assertTrue(0 <= times[0] < times[-1] and times == sorted(times), times)
        self.assertNotIn("://", page.replace(json.dumps(told["rows"]), ""))
        self.assertIsNone(re.search(r'(src|href)="(?!data:,")', page))
        listed = json.loads(self.graft("checkpoint", "list", "kept", "--json"))["snapshots"]
        for name in ("number", "step", "loss", "bytes", "stored_bytes", "made_ms", "tags", "head"):
            self.assertEqual([one[name] for one in told["store"]["snapshots"]], [one[name] for one in listed], name)
        command = told["store"]["snapshots"][-1]["restore"].split()
        self.assertEqual(command[0], "graft")
        self.assertIn("tensors of step 3", self.graft(*command[1:]))

    def test_either_part_alone(self):
        self.write(self.rows(3))
        self.graft("report", "m.jsonl", "-o", "run.html")
        told = self.embedded(self.text_of("run.html"))
        self.assertEqual((len(told["rows"]), told["store"], told["has_metrics"]), (3, None, True))
        self.graft("train", "mlp.graft", "--data", "digits:?count=20", "--quiet", "--checkpoint", "it's kept")
        self.graft("report", "it's kept", "-o", "store.html")
        told = self.embedded(self.text_of("store.html"))
        self.assertEqual((told["rows"], told["has_metrics"]), ([], False))
        self.assertEqual(told["store"]["snapshots"][-1]["restore"].split(" ", 3)[3][:18], "'it'\\''s kept' " + "2 -")

    def test_hostile_names_and_texts_stay_data(self):
        rows = [{"kind": "held_out", "step": 0, "loss": 1.0, "classes": HOSTILE, "confusion": [[1] * 5] * 5},
                {"kind": "sample", "step": 0, "prompt": HOSTILE[0], "text": HOSTILE[2]}]
        self.write(rows, "<b>&m.jsonl")
        self.graft("report", "<b>&m.jsonl", "-o", "run.html")
        page = self.text_of("run.html")
        self.assertEqual(self.embedded(page)["rows"], rows)
        self.assertEqual(page.count("<script"), 2)
        self.assertEqual(page.count("</script"), 2)
        for text in ("alert(1)</", "<!--", "<img", "<b>&m"):
            self.assertNotIn(text, page)
        self.assertIn("<title>&lt;b&gt;&amp;m.jsonl - graft</title>", page)
        # What looks like a mark of the template is data as well.
        self.write([{"kind": "sample", "step": 0, "prompt": "%%RUN%%", "text": "%%TITLE%%"}])
        self.graft("report", "m.jsonl", "-o", "run.html")
        self.assertEqual(self.embedded(self.text_of("run.html"))["rows"][0]["prompt"], "%%RUN%%")

    def test_a_line_that_is_not_whole_is_left_out(self):
        for cut in ('{"kind":"step","lo', '{"kind":"sample","text":"\u00e4'):
            self.write(self.rows(4), end="\n" + cut)
            self.graft("report", "m.jsonl", "-o", "run.html")
            told = self.embedded(self.text_of("run.html"))
            self.assertEqual((told["rows"], told["is_cut"]), (self.rows(4), True))
        self.write(self.rows(4), end="")  # whole, but for its end
        self.graft("report", "m.jsonl", "-o", "run.html")
        told = self.embedded(self.text_of("run.html"))
        self.assertEqual((told["rows"], told["is_cut"]), (self.rows(4), False))

    def test_what_is_no_run_is_refused(self):
        self.write(self.rows(2))
        self.fails("report", "nowhere.jsonl", "-o", "run.html", says=['There is no file or folder "nowhere.jsonl".'])
        self.fails("watch", "nowhere.jsonl", "--port", 0, says=['There is no file or folder "nowhere.jsonl".'])
        self.fails("report", "mlp.graft", "-o", "run.html", says=["mlp.graft", "line 1 is not a JSON object"])
        with open(self.path("bad.jsonl"), "w") as file:
            file.write('{"kind":"step","step":1,"loss":1}\n{"loss":1}\n')
        self.fails("report", "bad.jsonl", "-o", "run.html", says=["line 2 is not a JSON object"])
        self.fails("report", "m.jsonl", "bad.jsonl", "-o", "run.html", says=["bad.jsonl", "a second file of metrics"])
        os.mkdir(self.path("empty"))
        self.fails("report", "empty", "-o", "run.html")
        self.assertFalse(os.path.exists(self.path("run.html")))

    def test_outputs_follow_the_rules_of_all_commands(self):
        self.write(self.rows(2))
        before = self.text_of("m.jsonl")
        self.fails("report", "m.jsonl", "-o", "m.jsonl", says=["m.jsonl"])
        self.fails("report", "m.jsonl", "-o", "nowhere/run.html", says=["nowhere/run.html"])
        self.assertEqual(self.text_of("m.jsonl"), before)
        with open(self.path("run.html"), "w") as file:
            file.write("an older page")
        self.graft("report", "m.jsonl", "-o", "run.html")
        self.assertEqual(self.embedded(self.text_of("run.html"))["rows"], self.rows(2))


class WatchTest(RunTest):
    def watch(self, *arguments):
        """A server on a free port, whose number becomes self.port."""
        process = subprocess.Popen([cli.GRAFT, "watch", *arguments, "--port", "0"], cwd=self.folder, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        line = process.stdout.readline()
        if not line:
            said = process.stderr.read()
            self.assertIn("This build of graft has no web server", said)
            self.skipTest(said.strip())
        self.port = int(re.fullmatch(r"Watching at http://127\.0\.0\.1:(\d+)/ \(Ctrl-C ends it\)\.\n", line)[1])
        return process

    def ask(self, path, method="GET", host=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=cli.TIMEOUT)
        try:
            connection.request(method, path, body, {"Host": host or f"127.0.0.1:{self.port}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ends(self, process, number):
        process.send_signal(number)
        self.assertEqual(process.wait(cli.TIMEOUT), 0)
        self.assertEqual(process.stderr.read(), "")

    def test_new_rows_appear(self):
        self.write(self.rows(3))
        process = self.watch("m.jsonl")
        status, page = self.ask("/")
        self.assertEqual(status, 200)
        self.assertEqual(self.embedded(page)["rows"], self.rows(3))
        self.assertIn("isLive = true", page)
        told = json.loads(self.ask("/run.json?first=3&generation=1")[1])
        self.assertEqual((told["first"], told["rows"]), (3, []))
        self.write(self.rows(5), end='\n{"kind":"st')
        told = json.loads(self.ask("/run.json?first=3&generation=1")[1])
        self.assertEqual((told["first"], told["rows"], told["is_cut"]), (3, self.rows(5)[3:], True))
        # A resumed run cuts the file, and then writes more than was there.
        other = [{**row, "loss": 7.0} for row in self.rows(9)]
        self.write(other)
        told = json.loads(self.ask("/run.json?first=5&generation=1")[1])
        self.assertEqual((told["first"], told["generation"], told["rows"]), (0, 2, other))
        self.ends(process, signal.SIGINT)

    def test_a_file_that_goes_is_told_and_comes_back(self):
        self.write(self.rows(2))
        process = self.watch("m.jsonl")
        os.rename(self.path("m.jsonl"), self.path("away"))
        self.assertEqual(self.ask("/run.json"), (503, 'There is no file "m.jsonl".'))
        self.assertEqual(self.embedded(self.ask("/")[1])["rows"], self.rows(2))
        os.rename(self.path("away"), self.path("m.jsonl"))
        self.assertEqual(self.ask("/run.json")[0], 200)
        self.ends(process, signal.SIGTERM)

    def test_only_this_machine_may_read_and_nobody_write(self):
        self.write(self.rows(2))
        process = self.watch("m.jsonl")
        for host in ("evil.example", f"evil.example:{self.port}", "127.0.0.1", f"127.0.0.1:{self.port}.evil.example",
                     f"localhost:{self.port + 1}"):
            status, said = self.ask("/run.json", host=host)
            self.assertEqual(status, 403, host)
            self.assertNotIn("rows", said)
        self.assertEqual(self.ask("/", host=f"localhost:{self.port}")[0], 200)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "HEAD"):
            self.assertEqual(self.ask("/run.json", method, body=None if method == "HEAD" else "x")[0], 405, method)
        for path in ("/m.jsonl", "/../m.jsonl", "/run.json/", "/%2e%2e/etc/passwd"):
            self.assertEqual(self.ask(path)[0], 404, path)
        taken = self.run_graft("watch", "m.jsonl", "--port", self.port)
        self.assertEqual(taken.returncode, 1)
        self.assertIn(f"Port {self.port} of 127.0.0.1 cannot be used", taken.stderr)
        self.ends(process, signal.SIGINT)

    def test_a_run_that_goes_on(self):
        flags = ("--data", "digits:?count=200", "--batch", "10", "--epochs", "100000", "--quiet", "--metrics", "metrics.jsonl")
        run = subprocess.Popen([cli.GRAFT, "train", "mlp.graft", *flags, "--checkpoint", "kept"], cwd=self.folder,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        until = time.monotonic() + cli.TIMEOUT
        while time.monotonic() < until and not (os.path.exists(self.path("metrics.jsonl")) and self.metrics_begin()):
            time.sleep(0.05)
        process = self.watch("metrics.jsonl", "kept")
        first = len(json.loads(self.ask("/run.json")[1])["rows"])
        more = 0
        while time.monotonic() < until and more == 0:
            told = json.loads(self.ask(f"/run.json?first={first}&generation=1")[1])
            more = len(told["rows"])
            time.sleep(0.05)
        self.assertGreater(more, 0)
        self.assertGreaterEqual(len(told["store"]["snapshots"]), 1)
        self.ends(process, signal.SIGINT)
        self.assertIsNone(run.poll(), "the run goes on")

    def metrics_begin(self):
        return self.text_of("metrics.jsonl").count("\n") > 1


if __name__ == "__main__":
    cli.main()
