"""graft eval --metric, graft compare, and the gate of graft train, against plain loops in double precision."""

import json
import math
import os

import cli


def f1(pairs, c):
    right = sum(t == c and p == c for t, p in pairs)
    return 2 * right / max(sum(t == c for t, _ in pairs) + sum(p == c for _, p in pairs), 1)


def auroc(scores):
    """Of (score, real): the share of pairs in order, ties half."""
    real, others = [s for s, r in scores if r], [s for s, r in scores if not r]
    wins = sum((a > b) + 0.5 * (a == b) for a in real for b in others)
    return wins / (len(real) * len(others)) if real and others else None


class EvaluationTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.count = 60
        self.images(self.count)
        self.y = [(i * i + i // 7) % 9 for i in range(self.count)]  # class 9 never occurs
        self.labels(self.y)

    def evaluation(self, *flags, model="mlp.graft"):
        return json.loads(self.graft("eval", model, "--data", "npy:x.npy,y.npy", "--json", *flags))

    def logits(self, model="mlp.graft"):
        flat = self.outputs(model)
        return [flat[i * 10:(i + 1) * 10] for i in range(self.count)]

    def test_metrics_of_classes(self):
        logits = self.logits()
        taken = [row.index(max(row)) for row in logits]
        pairs = list(zip(self.y, taken))
        found = self.evaluation("--metric", "accuracy,top3,f1,f1_micro,precision,recall_weighted,iou,auroc",
                                "--confusion", "c.svg")
        accuracy = sum(t == p for t, p in pairs) / self.count
        self.assertAlmostEqual(found["accuracy"], accuracy, 12)
        self.assertAlmostEqual(found["f1_micro"], accuracy, 12)
        top = sum(sorted(range(10), key=lambda c: -row[c]).index(t) < 3 for row, t in zip(logits, self.y)) / self.count
        self.assertAlmostEqual(found["top3"], top, 12)
        known = sorted({*self.y, *taken})
        self.assertAlmostEqual(found["f1"], sum(f1(pairs, c) for c in known) / len(known), 12)
        precision = [sum(t == p == c for t, p in pairs) / max(sum(p == c for _, p in pairs), 1) for c in known]
        self.assertAlmostEqual(found["precision"], sum(precision) / len(known), 12)
        self.assertAlmostEqual(found["recall_weighted"], accuracy, 12)
        iou = [sum(t == p == c for t, p in pairs) / sum(t == c or p == c for t, p in pairs) for c in known]
        self.assertAlmostEqual(found["iou"], sum(iou) / len(known), 12)
        for c in range(10):
            self.assertEqual(found["f1_per_class"][c] is None, c not in known)
        areas = []
        for c in range(10):
            chances = [math.exp(row[c] - max(row)) / sum(math.exp(x - max(row)) for x in row) for row in logits]
            areas.append(auroc([(chance, t == c) for chance, t in zip(chances, self.y)]))
        self.assertIsNone(areas[9])
        self.assertAlmostEqual(found["auroc"], sum(a for a in areas if a is not None) / 9, 9)
        for real in range(10):
            for p in range(10):
                self.assertEqual(found["confusion"][real][p], pairs.count((real, p)))
        with open(self.path("c.svg")) as file:
            self.assertIn("<svg", file.read())
        text = self.graft("eval", "mlp.graft", "--data", "npy:x.npy,y.npy", "--confusion", "c.svg", "--metric", "f1")
        self.assertIn("Confusion matrix", text)
        self.assertIn("f1 ", text)

    def test_metrics_of_numbers_and_bits(self):
        logits = self.logits()
        targets = cli.random_floats(self.count * 10, 5)
        cli.save_npy(self.path("y.npy"), targets, (self.count, 10))
        found = self.evaluation("--loss", "mse", "--metric", "mae,mse,rmse,r2")
        flat = [x for row in logits for x in row]
        off = [a - b for a, b in zip(flat, targets)]
        mse = sum(d * d for d in off) / len(off)
        self.assertAlmostEqual(found["mae"], sum(map(abs, off)) / len(off), 6)  # f32 outputs, in other batches
        self.assertAlmostEqual(found["mse"], mse, 6)
        # As sklearn.metrics.root_mean_squared_error: the mean of the outputs' roots.
        roots = [math.sqrt(sum(d * d for d in off[c::10]) / self.count) for c in range(10)]
        self.assertAlmostEqual(found["rmse"], sum(roots) / 10, 6)
        self.assertNotAlmostEqual(found["rmse"], math.sqrt(mse), 6)
        self.assertAlmostEqual(found["loss"], mse, 5)
        scores = []
        for c in range(10):
            t = targets[c::10]
            mean = sum(t) / len(t)
            scores.append(1 - sum(d * d for d in off[c::10]) / sum((x - mean) ** 2 for x in t))
        self.assertAlmostEqual(found["r2"], sum(scores) / 10, 6)
        bits = [float(x > 0) for x in targets]
        cli.save_npy(self.path("y.npy"), bits, (self.count, 10))
        found = self.evaluation("--loss", "bce", "--metric", "accuracy,f1,auroc")
        right = [all((x > 0) == (t > 0.5) for x, t in zip(flat[i * 10:i * 10 + 10], bits[i * 10:i * 10 + 10]))
                 for i in range(self.count)]
        self.assertAlmostEqual(found["accuracy"], sum(right) / self.count, 12)
        areas = [auroc([(x, t > 0.5) for x, t in zip(flat[c::10], bits[c::10])]) for c in range(10)]
        self.assertAlmostEqual(found["auroc"], sum(areas) / 10, 9)
        columns = [f1([(t > 0.5, x > 0) for x, t in zip(flat[c::10], bits[c::10])], True) for c in range(10)]
        self.assertAlmostEqual(found["f1"], sum(columns) / 10, 12)

    def test_what_has_no_meaning_is_refused(self):
        self.fails("eval", "mlp.graft", "--data", "npy:x.npy,y.npy", "--metric", "r2", says=["r2", "ce"])
        self.fails("eval", "mlp.graft", "--data", "npy:x.npy,y.npy", "--metric", "speed", says=["speed", "auroc"])
        self.fails("eval", "mlp.graft", "--data", "npy:x.npy,y.npy", "--metric", "f1,f1", says=["twice"])

    def train(self, *flags, steps=3):
        return ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", steps, "--no-shuffle", "--batch", 20,
                "--quiet", *flags]

    def test_compare(self):
        self.graft(*self.train("-o", "new.graft", "--lr", 0.01))
        found = json.loads(self.graft("compare", "mlp.graft", "new.graft", "--data", "npy:x.npy,y.npy", "--json"))
        old, new = ([row.index(max(row)) for row in self.logits(m)] for m in ("mlp.graft", "new.graft"))
        c = found["comparison"]
        self.assertEqual(c["changed"], [i for i in range(self.count) if old[i] != new[i]])
        lost = [i for i, t in enumerate(self.y) if old[i] == t != new[i]]
        gained = [i for i, t in enumerate(self.y) if new[i] == t != old[i]]
        self.assertEqual((c["lost"], c["gained"]), (lost, gained))
        self.assertTrue(c["changed"])
        b, n = min(len(lost), len(gained)), len(lost) + len(gained)
        if n <= 25:
            p = min(1, 2 * sum(math.comb(n, k) for k in range(b + 1)) / 2**n)
        else:
            p = math.erfc(math.sqrt(max(abs(len(lost) - len(gained)) - 1, 0) ** 2 / n / 2))
        self.assertAlmostEqual(c["mcnemar"]["p"], p, 9)
        for row in c["classes"]:
            self.assertEqual(row["new_right"], sum(t == row["class"] == p for t, p in zip(self.y, new)))
        text = self.graft("compare", "mlp.graft", "new.graft", "--data", "npy:x.npy,y.npy")
        self.assertIn("McNemar", text)

    def test_compare_of_many_classes_lists_those_that_changed_most(self):
        self.labels([i % 30 for i in range(self.count)])
        for name, seed in (("old.graft", 1), ("new.graft", 2)):
            self.graft("resize", "mlp.graft", "--classes", 30, "--replace", "--seed", seed, "-o", name)
        compare = ["compare", "old.graft", "new.graft", "--data", "npy:x.npy,y.npy"]
        rows = json.loads(self.graft(*compare, "--json"))["comparison"]["classes"]
        self.assertEqual(len(rows), 30)
        lines = self.graft(*compare).splitlines()
        head = lines.index("The 20 classes of 30 that changed most (--json lists all):")
        most = sorted(rows, key=lambda row: -abs(row["new_right"] - row["old_right"]))[:20]
        self.assertEqual([int(line.split()[0]) for line in lines[head + 2:head + 22]], [row["class"] for row in most])

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_gate(self):
        gate = ["--eval", "npy:x.npy,y.npy", "-o", "live.graft"]
        # Nothing to compare with: the condition alone.
        self.graft(*self.train(*gate, "--gate", "accuracy>=0.1", "--lr", 0.01, steps=20))
        live = self.bytes_of("live.graft")
        with open(self.path("live.graft.gate.json")) as file:
            self.assertTrue(json.load(file)["passed"])
        # Barely trained, and so worse than what is live.
        says = self.fails(*self.train(*gate, "--gate", "accuracy>=0", "--against", "live.graft", "--gate-margin", 0.05,
                                      "--optimizer", "sgd", "--lr", 1e-6), says=["margin of 0.05", "live.rejected.graft"])
        self.assertIn("as it was", says)
        self.assertEqual(self.bytes_of("live.graft"), live)
        self.assertTrue(os.path.exists(self.path("live.rejected.graft")))
        with open(self.path("live.graft.gate.json")) as file:
            report = json.load(file)
        self.assertFalse(report["passed"])
        old, new = ([row.index(max(row)) for row in self.logits(m)] for m in ("live.graft", "live.rejected.graft"))
        self.assertEqual(report["comparison"]["changed"], [i for i in range(self.count) if old[i] != new[i]])
        self.assertEqual(report["metrics"][0]["new"], sum(a == t for a, t in zip(new, self.y)) / self.count)
        # What is asked for does not hold.
        self.fails(*self.train(*gate, "--gate", "accuracy>=0.999", "--lr", 0), says=["accuracy>=0.999"])
        self.assertEqual(self.bytes_of("live.graft"), live)
        # As good, within the margin.
        self.graft(*self.train(*gate, "--gate", "loss<=5", "--against", "live.graft", "--gate-margin", 10, "--lr", 1e-5))
        self.assertNotEqual(self.bytes_of("live.graft"), live)
        self.refused(*self.train("--gate", "accuracy>=0.5", "-o", "o.graft"), names="--eval")
        self.fails(*self.train(*gate, "--gate", "accuracy<=0.5"), says=["larger"])


if __name__ == "__main__":
    cli.main()
