"""Runs as people make them: schedules by evaluations, early stops, the best and the mean weights, TensorBoard, --config."""

import glob
import json
import os
import struct

import cli
import files


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(data):
    """The fields of a protocol buffer: (number, value)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind) or varint()
        raw, at = data[at:at + size], at + size
        yield key >> 3, struct.unpack({1: "<d", 5: "<f"}[kind], raw)[0] if kind != 2 else raw


def events(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        size, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8])
        body = data[at + 12:at + 12 + size]
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == masked(body)
        yield dict(fields(body)), body
        at += size + 16


class RunsTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.images(60)
        self.labels([i * 7 % 10 for i in range(60)])
        self.train = ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--eval-split", 0.2, "--batch", 16, "--quiet"]

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_plateau_falls_and_resumes(self):
        # A rate at which nothing gets better: it falls after each second evaluation.
        flags = [*self.train, "--optimizer", "sgd", "--lr", 1e-9, "--schedule", "plateau", "--patience", 1, "--gamma", 0.5]
        self.graft(*flags, "--epochs", 8, "--metrics", "metrics.jsonl", "-o", "whole.graft")
        rates = [row["lr"] for row in self.metrics()]
        self.assertEqual(rates[0], 1e-9)
        self.assertEqual(sorted(set(rates), reverse=True), [1e-9, 5e-10, 2.5e-10, 1.25e-10])
        held = [row["loss"] for row in self.metrics("held_out")]
        # The same in two pieces, cut where an epoch ends.
        for steps in (9, 24):
            self.graft(*flags, "--steps", steps, "--checkpoint", "store", *(["--resume"] if steps > 9 else []),
                       "--metrics", "metrics.jsonl", "-o", "parts.graft")
        self.assertEqual([row["lr"] for row in self.metrics()], rates[:24])
        self.assertEqual(held[-1], [row["loss"] for row in self.metrics("held_out")][-1])

    def test_early_stop_and_best(self):
        flags = [*self.train, "--lr", 0.01, "--epochs", 12, "--metrics", "metrics.jsonl"]
        out = self.graft(*flags, "--early-stop", "loss,patience=2", "--keep-best", "loss", "-o", "best.graft")
        losses = [row["loss"] for row in self.metrics("held_out")][1:]
        best = losses.index(min(losses))
        self.assertLess(len(losses), 12)
        self.assertEqual(len(losses), best + 3)
        self.assertIn("training ends", out)
        spec = "npy:x.npy,y.npy?skip=48"
        kept = json.loads(self.graft("eval", "best.graft", "--data", spec, "--json"))["loss"]
        self.assertAlmostEqual(kept, losses[best], 5)

    def test_ema(self):
        self.graft(*self.train, "--lr", 0.01, "--epochs", 2, "--ema", 0.9, "--ema-output", "ema.graft", "-o", "raw.graft",
                   "--metrics", "metrics.jsonl")
        held = self.metrics("held_out")[-1]["loss"]
        spec = "npy:x.npy,y.npy?skip=48"
        of = {name: json.loads(self.graft("eval", name, "--data", spec, "--json"))["loss"] for name in ("ema.graft", "raw.graft")}
        self.assertAlmostEqual(of["ema.graft"], held, 5)
        self.assertNotAlmostEqual(of["raw.graft"], held, 3)
        # The mean of the weights after each step, by its definition: one step a run, from the last.
        self.graft(*self.train, "--lr", 0.01, "--steps", 2, "--optimizer", "sgd", "--no-shuffle", "--ema", 0.5,
                   "--ema-output", "e.graft", "-o", "w2.graft")
        self.graft(*self.train, "--lr", 0.01, "--steps", 1, "--optimizer", "sgd", "--no-shuffle", "-o", "w1.graft")
        weights = {}
        for name in ("mlp", "w1", "w2", "e"):
            self.graft("export", f"{name}.graft", "--format", "safetensors", "-o", f"{name}.safetensors")
            weights[name] = files.load_safetensors(self.path(f"{name}.safetensors"))
        for name, (_, _, raw) in weights["e"].items():
            w = [struct.unpack(f"<{len(raw) // 4}f", weights[k][name][2]) for k in ("mlp", "w1", "w2")]
            mean = [0.25 * a + 0.25 * b + 0.5 * c for a, b, c in zip(*w)]
            self.assertLess(cli.difference(struct.unpack(f"<{len(raw) // 4}f", raw), mean), 1e-6, name)

    def test_state_of_optimizers_resumes_to_the_bit(self):
        for optimizer in ("lion", "rmsprop", "adafactor", "lamb", "muon"):
            with self.subTest(optimizer=optimizer):
                flags = [*self.train[:4], "--batch", 8, "--accumulate", 2, "--quiet", "--optimizer", optimizer, "--ema", 0.9]
                self.graft(*flags, "--steps", 4, "-o", "whole.graft", "--ema-output", "ema.graft")
                store = f"store_{optimizer}"
                self.graft(*flags, "--steps", 2, "--checkpoint", store)
                self.graft(*flags, "--steps", 4, "--checkpoint", store, "--resume", "-o", "parts.graft", "--ema-output",
                           "ema2.graft")
                self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("parts.graft"))
                self.assertEqual(self.bytes_of("ema.graft"), self.bytes_of("ema2.graft"))
                self.graft(*flags, "--steps", 4, "-o", "two.graft", "--workers", 2)
                self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("two.graft"))

    def test_tensorboard(self):
        flags = [*self.train, "--checkpoint", "store", "--tensorboard", "board", "--metrics", "metrics.jsonl"]
        self.graft(*flags, "--steps", 4)
        self.graft(*flags, "--steps", 7, "--resume")
        first, second = sorted(glob.glob(self.path("board/*tfevents*")))
        scalars, histograms = {}, {}
        for path in (first, second):
            for number, (event, body) in enumerate(events(path)):
                self.assertGreater(event[1], 1e9)
                if number == 0:
                    self.assertEqual(event[3], b"brain.Event:2")
                for field, summary in fields(body):
                    for _, value in fields(summary) if field == 5 else ():
                        entry = dict(fields(value))
                        if 2 in entry:
                            scalars[entry[1].decode(), event.get(2, 0)] = entry[2]
                        else:
                            histograms[entry[1].decode(), event.get(2, 0)] = dict(fields(entry[5]))
        for row in self.metrics():
            self.assertAlmostEqual(scalars["train/loss", row["step"]], row["loss"], 5)
        for row in self.metrics("held_out"):
            self.assertAlmostEqual(scalars["held_out/loss", row["step"]], row["loss"], 5)
        self.assertEqual(dict(fields(list(events(second))[1][0][7])), {1: 1}, "a new session begins")
        self.assertTrue(histograms)
        for histogram in histograms.values():
            limits = struct.unpack(f"<{len(histogram[6]) // 8}d", histogram[6])
            counts = struct.unpack(f"<{len(histogram[7]) // 8}d", histogram[7])
            self.assertEqual(sum(counts), histogram[3])
            self.assertEqual(sorted(limits), list(limits))
            self.assertGreaterEqual(limits[-1], histogram[2])

    def test_config(self):
        self.graft(*self.train, "--steps", 3, "--lr", 0.01, "--no-shuffle", "--group", "*bias*:lr=0.5", "-o", "a.graft")
        with open(self.path("a.graft.config.json")) as file:
            config = json.load(file)
        self.assertEqual(config["lr"], "0.01")
        self.assertIs(config["no-shuffle"], True)
        self.graft("train", "--config", "a.graft.config.json", "-o", "b.graft")
        self.assertEqual(self.bytes_of("a.graft"), self.bytes_of("b.graft"))
        self.graft("train", "--config", "a.graft.config.json", "-o", "c.graft", "--lr", 0.02)
        self.assertNotEqual(self.bytes_of("a.graft"), self.bytes_of("c.graft"))
        self.graft("train", "--config", "a.graft.config.json", "-o", "d.graft", "--epochs", 1)  # in the place of --steps
        with open(self.path("d.graft.config.json")) as file:
            self.assertEqual([key for key in json.load(file) if key in ("steps", "epochs")], ["epochs"])
        for wrong, says in (({"learning": 1}, "learning"), ({"lr": {}}, "lr"), ({"no-shuffle": 3}, "no-shuffle"),
                            ({"lr": True}, "lr"), ([], "object")):
            with open(self.path("w.json"), "w") as file:
                json.dump(wrong, file)
            self.refused("train", "--config", "w.json", "mlp.graft", "--data", "digits:", names=says)
        self.refused("train", "--config", "nowhere.json", "mlp.graft", "--data", "digits:", names="nowhere.json")

    def test_a_run_ends_by_its_time(self):
        self.graft(*self.train, "--steps", 1, "-o", "one.graft")
        self.graft(*self.train, "--max-time", "0.000001", "--checkpoint", "timed", "-o", "a.graft")  # the first step takes longer
        self.assertEqual(self.bytes_of("a.graft"), self.bytes_of("one.graft"))
        self.assertEqual(json.loads(self.graft("checkpoint", "list", "timed", "--json"))["snapshots"][-1]["step"], 1)
        self.graft(*self.train, "--max-time", "1.5h", "--steps", 1, "-o", "b.graft")
        self.assertEqual(self.bytes_of("b.graft"), self.bytes_of("one.graft"))
        with open(self.path("a.graft.config.json")) as file:
            self.assertEqual(json.load(file)["max-time"], "0.000001")
        for wrong in ("5x", "-1", "much"):
            self.refused(*self.train, "--max-time", wrong, "-o", "c.graft", names="--max-time")

    def test_flags_that_do_nothing_are_refused(self):
        base = ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", 1]
        for flags, names in ((["--focal-gamma", 1], "--focal-gamma"), (["--alpha", 0.5], "--alpha"),
                             (["--ns-steps", 3], "--ns-steps"), (["--keep-best", "loss", "-o", "o"], "--keep-best"),
                             (["--ema-output", "e"], "--ema-output"), (["--power", 2], "--power"),
                             (["--against", "mlp.graft"], "--against"), (["--patience", 3], "--patience")):
            with self.subTest(flags=flags):
                self.refused(*base, *flags, names=names)


if __name__ == "__main__":
    cli.main()
