"""Budgets, seen from outside: the forecast, what is chosen, and that it trains to the same bytes."""

import json
import struct
import xml.etree.ElementTree as xml

import cli
from cli import CliTest, difference, load_npy, random_floats, save_npy


class Budgets(CliTest):
    """On LeNet: the perceptron's memory is parameters and their state, which no plan makes smaller."""

    def setUp(self):
        super().setUp()
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")

    def plan(self, *flags):
        return json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=64", "--json", *flags))

    def least(self):
        says = self.fails("plan", "lenet.graft", "--bind", "batch=64", "--budget", "1", says=["Most of it"])
        return int(says.split("works is ")[1].split(" ")[0])

    def test_the_forecast_adds_up_and_has_a_curve(self):
        plan = self.plan()
        self.assertEqual(sum(plan["memory"].values()), plan["total"])
        self.assertEqual(plan["micro_batch"], 64)
        self.assertNotIn("budget", plan)
        points = plan["curve"]["points"]
        self.assertEqual(points[0]["extra_flops"], 0)
        self.assertEqual(points[0]["bytes"], plan["curve"]["fixed_bytes"] + points[0]["arena"])
        self.assertEqual([p["bytes"] for p in points], sorted((p["bytes"] for p in points), reverse=True))
        self.assertEqual({row["name"] for row in plan["plans"][0]["layers"]} >= {"fc1", "fc2"}, True)

    def test_a_budget_is_kept_to_the_byte_and_explained(self):
        least = self.least()
        tight = self.plan("--budget", least)
        self.assertLessEqual(tight["total"], least)
        self.assertEqual(tight["budget"]["unconstrained"], self.plan()["total"])
        self.assertIn("more than the budget", tight["budget"]["reasons"][0])
        self.fails("plan", "lenet.graft", "--bind", "batch=64", "--budget", least - 1, says=[str(least)])
        self.assertIn(tight["budget"]["reasons"][0],
                      self.graft("plan", "lenet.graft", "--bind", "batch=64", "--budget", least))

    def test_training_under_a_budget_gives_the_same_bytes(self):
        self.images(64)
        self.labels([i % 10 for i in range(64)])
        budget = self.plan()["total"] * 7 // 10
        chosen = self.plan("--budget", budget)
        self.assertEqual(chosen["micro_batch"], 64)
        self.assertTrue(chosen["plans"][0]["recomputed"])
        flags = ["--data", "npy:x.npy,y.npy", "--batch", 64, "--steps", 2, "--quiet"]
        self.graft("train", "lenet.graft", *flags, "-o", "free.graft")
        self.graft("train", "lenet.graft", *flags, "--budget", budget, "-o", "tight.graft")
        with open(self.path("free.graft"), "rb") as free, open(self.path("tight.graft"), "rb") as tight_file:
            self.assertEqual(free.read(), tight_file.read())

    def test_pictures_are_well_formed(self):
        self.graft("plan", "lenet.graft", "--bind", "batch=64", "--svg", "plan.svg", "--html", "plan.html")
        texts = [e.text for e in xml.parse(self.path("plan.svg")).iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("memory by class", texts)
        self.assertTrue(any(text.startswith("memory against work") for text in texts))
        with open(self.path("plan.html")) as page:
            self.assertIn("<td>fc1</td>", page.read())

    def test_a_profiled_step_is_a_trace_and_a_table(self):
        self.images(8)
        self.labels([i % 10 for i in range(8)])
        said = self.graft("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--batch", 8, "--steps", 2, "--quiet",
                          "--profile", "trace.json")
        self.assertIn("most memory in use at", said)
        self.assertIn("grad/conv2/conv_grad_weight", said)
        with open(self.path("trace.json")) as file:
            events = json.load(file)["traceEvents"]
        spans = [e for e in events if e["ph"] == "X"]
        self.assertEqual({e["cat"] for e in spans}, {"copy", "forward", "backward"})
        self.assertGreater(sum(e["dur"] for e in spans), 0)
        self.assertEqual(spans, sorted(spans, key=lambda e: e["ts"]))
        live = [e["args"]["bytes"] for e in events if e["ph"] == "C"]
        self.assertGreater(max(live), min(live))

    def test_fits_device_says_so(self):
        self.assertIn("It fits", self.graft("plan", "lenet.graft", "--bind", "batch=64", "--fits-device"))
        self.fails("plan", "lenet.graft", "--bind", "batch=1000000000", "--fits-device")


class Fetching(CliTest):
    def test_a_layer_of_the_last_step_is_what_the_model_gives(self):
        images = self.images(8)
        self.labels([i % 10 for i in range(8)])
        flags = ["--data", "npy:x.npy,y.npy", "--no-shuffle", "--quiet", "--optimizer", "sgd", "--lr", "0.1"]
        # The second step works with what the first one has left.
        self.graft("train", "mlp.graft", *flags, "--steps", 1, "--batch", 8, "-o", "one.graft")
        for parts in (["--batch", 8], ["--batch", 2, "--accumulate", 4]):
            self.graft("train", "mlp.graft", *flags, "--steps", 2, *parts, "--fetch", "relu1.out,image", "--fetch-out",
                       "f")
            self.assertEqual(load_npy(self.path("f/image.npy")), [struct.unpack("f", struct.pack("f", v))[0] for v in images])
            hidden = load_npy(self.path("f/relu1.out.npy"))
            self.assertEqual(len(hidden), 8 * 128)
            dy = [1.0] * 80
            save_npy(self.path("dy.npy"), dy, (8, 10))
            # d(sum of logits) / d(fc2.weight) sums the hidden layer over the samples: what --fetch gave, by another way.
            self.graft("grad", "one.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy", "--wrt",
                       "fc2.weight", "--out", "g")
            sums = load_npy(self.path("g/fc2.weight.npy"))[:128]
            self.assertLess(difference([sum(hidden[i::128]) for i in range(128)], sums), 1e-5)

    def test_its_cost_is_planned_and_bad_names_are_refused(self):
        free = json.loads(self.graft("plan", "mlp.graft", "--json", "--bind", "batch=4096"))
        more = json.loads(self.graft("plan", "mlp.graft", "--json", "--bind", "batch=4096", "--fetch", "relu1.out"))
        self.assertGreater(more["memory"]["staging"], free["memory"]["staging"])
        self.fails("plan", "mlp.graft", "--fetch", "nothing", says=["nothing"])
        self.fails("train", "mlp.graft", "--data", "digits:", "--fetch", "relu1.out", says=["--fetch-out"])


class SplitGradients(CliTest):
    COUNT = 7

    def setUp(self):
        super().setUp()
        self.images(self.COUNT)
        save_npy(self.path("dy.npy"), random_floats(10 * self.COUNT, 5), (self.COUNT, 10))

    def gradients(self, *flags, of="logits"):
        self.graft("grad", "mlp.graft", "--input", "image=x.npy", "--of", of, "--cotangent", "dy.npy", "--wrt",
                   "image,fc1.weight,relu1.out", "--out", "g", *flags)
        return {name: load_npy(self.path(f"g/{name}.npy")) for name in ("image", "fc1.weight", "relu1.out")}

    def test_micro_batches_give_the_gradients_of_the_whole_batch(self):
        whole = self.gradients()
        pieces = self.gradients("--micro-batch", 3)
        self.assertEqual(pieces["image"], whole["image"])
        self.assertEqual(pieces["relu1.out"], whole["relu1.out"])
        # Sums of seven in another order: a few units in the last place of f32.
        self.assertLess(difference(pieces["fc1.weight"], whole["fc1.weight"]), 1e-6)

    def test_per_sample_gradients_add_up(self):
        whole = self.gradients()
        each = self.gradients("--per-sample")
        self.assertEqual(each["image"], whole["image"])
        size = len(whole["fc1.weight"])
        self.assertEqual(len(each["fc1.weight"]), self.COUNT * size)
        rows = [each["fc1.weight"][i * size:(i + 1) * size] for i in range(self.COUNT)]
        self.assertLess(difference([sum(column) for column in zip(*rows)], whole["fc1.weight"]), 1e-6)
        self.assertGreater(difference(rows[0], rows[1]), 0.1)

    def test_a_budget_is_kept_and_a_hopeless_one_refused(self):
        whole = self.gradients()
        done = self.run_graft("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy",
                              "--wrt", "image", "--out", "b", "--budget", 560000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 samples at once", done.stderr)  # all seven would need 561 KiB with the smallest staging
        self.assertEqual(load_npy(self.path("b/image.npy")), whole["image"])
        self.fails("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy", "--wrt",
                   "image", "--out", "b", "--budget", "1KiB", says=["more than the budget"])


if __name__ == "__main__":
    cli.main()
