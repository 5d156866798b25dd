"""Budgets, seen from outside: the forecast, what is chosen, and that it trains to the same bytes."""

import json
import struct
import xml.etree.ElementTree as xml

import cli
import small_network
from cli import CliTest, difference, load_npy, random_floats, save_npy


class Capabilities(CliTest):
    """--caps FILE.json: what graft devices --json prints of a device plans for it elsewhere."""

    def setUp(self):
        super().setUp()
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.device = json.loads(self.graft("devices", "--json"))[0]

    def plan(self, caps):
        with open(self.path("caps.json"), "w") as file:
            json.dump(caps, file)
        return json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=64", "--json", "--caps", "caps.json"))

    def test_a_file_of_this_device_plans_as_the_device(self):
        here = json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=64", "--json"))
        for caps in (self.device, [self.device]):
            self.assertEqual(self.plan(caps), here)

    def test_another_device_changes_kernels_and_what_fits(self):
        phone = {"name": "A phone's", "type": "integrated", "heaps": [{"bytes": 1 << 20}],
                 "limits": {"max_shared_memory": 16384, "max_workgroup_invocations": 128, "subgroup_size": 64},
                 "features": {"shader_float16": False}}
        plan = self.plan(phone)
        self.assertEqual(plan["device"], "A phone's")
        here = json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=64", "--json"))
        self.assertNotEqual(*([node["choices"] for node in p["plans"][0]["nodes"]] for p in (plan, here)))
        self.fails("plan", "lenet.graft", "--bind", "batch=64", "--fits-device", "--caps", "caps.json",
                   says=["1.00 MiB"])
        self.graft("bench", "ops", "--alone", "--repeat", 1, "--filter", "NN 256", "--caps", "caps.json")

    def test_a_cpu_with_more_lanes_than_this_one_can_be_planned_for_but_not_run(self):
        wide = {"name": "A CPU's", "type": "cpu", "limits": {"subgroup_size": 64}}
        self.assertEqual(self.plan(wide)["device"], "A CPU's")
        self.fails("bench", "ops", "--filter", "NN 256", "--caps", "caps.json", says=["subgroups of 64", "cannot run"])

    def test_a_time_is_estimated_by_the_figures_of_a_device(self):
        fast = {"device": "made up", "gemm_gflops": 1e9, "copy_gbps": 1e9, "transfer_gbps": 1e9, "dispatch_us": 0,
                "barrier_us": 0, "submit_us": 0}

        def planned(*flags, **slow):
            with open(self.path("figures.json"), "w") as file:
                json.dump({**fast, **slow}, file)
            plan = json.loads(self.graft("plan", "lenet.graft", *flags, "--json", "--time", "figures.json"))
            self.assertEqual(plan["time"]["device"], "made up")
            nodes = plan["plans"][0]["nodes"]
            return plan["time"], {what: sum(node[what] for node in nodes) for what in ("flops", "bytes", "dispatches")}

        infer = ("--mode", "infer", "--bind", "batch=64")
        for flags in (infer, ("--batch", 64)):
            time, work = planned(*flags, gemm_gflops=1)
            # Kernels reach more or less of the peak than the product whose rate this is.
            self.assertTrue(0.5 < time["seconds"] / (work["flops"] / 1e9) < 3, time["seconds"] / (work["flops"] / 1e9))
            self.assertAlmostEqual(time["arithmetic_s"], time["seconds"], 8)
            self.assertAlmostEqual(time["seconds"] / planned(*flags, gemm_gflops=2)[0]["seconds"], 2, 5)
            self.assertAlmostEqual(sum(node["seconds"] for node in time["nodes"]), time["seconds"], 8)
            longest = [node["seconds"] for node in time["nodes"]]
            self.assertEqual(longest, sorted(longest, reverse=True))
        time, work = planned(*infer, copy_gbps=1)
        self.assertTrue(1 <= time["memory_s"] / (work["bytes"] / 1e9) < 4)  # windows and rows reach less than copies
        time, work = planned(*infer, dispatch_us=1e6)
        self.assertEqual(round(time["dispatching_s"]), work["dispatches"] + 2)  # with the input's copy and the output's
        whole, parts = (planned("--batch", 64, "--accumulate", n, gemm_gflops=1)[0]["seconds"] for n in (1, 4))
        self.assertAlmostEqual(parts / whole, 4, 1)
        self.assertIn("made up", self.graft("plan", "lenet.graft", "--batch", 8, "--time", json.dumps(fast)))
        del fast["copy_gbps"]
        for bad, says in ((fast, "copy_gbps"), ({**fast, "copy_gbps": 0}, "copy_gbps"), ([], "bench device")):
            self.fails("plan", "lenet.graft", "--batch", 8, "--time", json.dumps(bad), says=[says])
        self.refused("plan", "lenet.graft", "--batch", 8, "--accumulate", 2, "--workers", 2, "--time", "x.json", names="--time")

    def test_a_time_is_estimated_by_public_figures(self):
        step = ("plan", "lenet.graft", "--batch", 8)
        told = self.graft(*step, "--caps", "adreno-740", "--time")
        for says in ("Adreno 740 (Snapdragon 8 Gen 2) a step takes about", "Estimated by public figures", "longest nodes"):
            self.assertIn(says, told)
        plans = {chip: json.loads(self.graft(*step, "--caps", chip, "--json", "--time"))
                 for chip in ("adreno-630", "adreno-740", "navi21")}
        for plan in plans.values():
            time = plan["time"]
            self.assertEqual((time["figures"], time["device"]), ("public", plan["device"]))
            self.assertAlmostEqual(time["arithmetic_s"] + time["memory_s"] + time["dispatching_s"], time["seconds"], 12)
        slow, phone, fast = (plans[chip]["time"]["seconds"] for chip in ("adreno-630", "adreno-740", "navi21"))
        self.assertTrue(slow > phone > fast > 0)
        infer = json.loads(self.graft("plan", "lenet.graft", "--mode", "infer", "--bind", "batch=8", "--caps", "adreno-740",
                                      "--time", "--json"))
        self.assertLess(infer["time"]["seconds"], phone)
        self.assertIn("Navi 21", self.graft(*step, "--caps", "adreno-7xx", "--time", "navi21"))
        self.fails(*step, "--caps", "mali-g78", "--time", says=["Mali G77", "bench device --json", "adreno-740, adreno-750"])
        self.fails(*step, "--time", "adreno-999", says=["adreno-999"])
        self.assertIn("llvmpipe on two cores", self.graft(*step, "--time", "llvmpipe"))

    def test_variants_are_ranked_by_estimates(self):
        def ranked(*flags):
            done = json.loads(self.graft("bench", "ops", "--tune", "--estimate", "--filter", "NN 256", *flags, "--json"))
            self.assertTrue(done["estimated"])
            return done["file"], {choice["key"]: choice for choice in done["choices"]}

        file, choices = ranked("--caps", "navi21")
        self.assertEqual(file, "", "of another device nothing is kept")
        tiles = next(choice for key, choice in choices.items() if key.startswith("gemm "))
        times = {row["variant"]: row["seconds"] for row in tiles["measured"]}
        self.assertTrue(all(row["seconds"] == row["estimated_s"] > 0 for row in tiles["measured"]))
        # 64 workgroups of 64 invocations for its 72 units, where tiles of 64 x 64 would be 16.
        self.assertLess(times["shared 64x8x4x4"], times["shared 128x8x4x8"])
        for key, choice in choices.items():
            self.assertTrue(key.startswith("gemm "), "others are not told apart")
            fastest = min(row["seconds"] for row in choice["measured"])
            worth = fastest <= 0.9 * choice["usual_seconds"]
            self.assertEqual(choice["best_seconds"], fastest if worth else choice["usual_seconds"])
            self.assertEqual(choice["best"] != choice["usual"], worth)
        self.assertIn("figures of Radeon RX 6800 XT", self.graft("bench", "ops", "--tune", "--estimate", "--filter", "NN 256",
                                                                "--caps", "navi21"))
        self.assertEqual(ranked("--cache", self.path("kept"))[0][:len(self.folder)], self.folder)
        self.refused("bench", "ops", "--estimate", names="--estimate")

    def test_estimates_are_compared_with_what_is_measured(self):
        bench = json.loads(self.graft("bench", "ops", "--alone", "--repeat", 1, "--filter", "softmax", "--filter", "NN 256",
                                      "--json"))
        cases = bench["cases"]
        self.assertGreater(len(cases), 1)

        def ranks(what):
            order = sorted(case[what] for case in cases)
            return [order.index(case[what]) for case in cases]

        squares = sum((a - b) ** 2 for a, b in zip(ranks("median_s"), ranks("estimated_s")))
        n = len(cases)
        self.assertAlmostEqual(bench["estimates"]["rank_correlation"], 1 - 6 * squares / (n * (n * n - 1)))

    def test_real_gpus_are_known_by_name(self):
        fits = self.graft("plan", "lenet.graft", "--bind", "batch=64", "--caps", "mali-g78", "--fits-device")
        self.assertIn("6.00 GiB", fits.splitlines()[-1])
        self.fails("plan", "lenet.graft", "--bind", "batch=64", "--caps", "mali-g79", says=["mali-g79", "mali-g78, mali-g610"])

    def test_files_that_say_nothing_or_nonsense_are_told(self):
        limits = {"max_shared_memory": 16384}
        for caps, says in (([], "not a JSON object"), ({}, "neither"), ({"limits": 3}, "not an object"),
                           ({"limits": {**limits, "shared": 1}}, 'no limit "shared"'),
                           ({"limits": {"subgroup_size": 0}}, '"subgroup_size" is 0'),
                           ({"limits": {"subgroup_size": 3}}, "powers of two"),
                           ({"limits": {"max_shared_memory": 16}}, "at least 16384"),
                           ({"limits": {"max_workgroup_size": [1, 2]}}, "three numbers"),
                           ({"limits": limits, "features": {"shader_float16": 1}}, "true or false"),
                           ({"features": {"matrix_shapes": ["matrices of f32 8x8x8"]}}, "f16 16x16x16"),
                           ({"features": {"matrix_shapes": ["matrices of f16 8x0x8"]}}, "f16 16x16x16"),
                           ({"features": {"flexible_shapes": 8}}, "is not a list"),
                           ({"limits": limits, "type": "phone"}, "integrated"),
                           ({"limits": limits, "heaps": []}, "list of heaps")):
            with open(self.path("bad.json"), "w") as file:
                json.dump(caps, file)
            self.fails("plan", "lenet.graft", "--bind", "batch=4", "--caps", "bad.json", says=[says])
        self.fails("plan", "lenet.graft", "--bind", "batch=4", "--caps", "none.json", says=["none.json"])


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
        layers = {row["name"].split(" + ")[0] for row in plan["plans"][0]["layers"]}  # a GPU's have more in one
        self.assertEqual(layers >= {"fc1", "fc2"}, True)

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
        budget = self.plan()["total"] * 3 // 4
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
        for word in ("forward", "backward", "this plan"):
            self.assertIn(word, texts)
        self.assertTrue({"fc1", "fc1 + relu3"} & set(texts))
        self.assertTrue(any(text.startswith("peak ") for text in texts))
        with open(self.path("plan.html")) as page:
            self.assertRegex(page.read(), "<td>fc1( [+] relu3)?</td>")

    def test_the_last_steps_are_a_trace_and_a_table(self):
        self.images(40)
        self.labels([i % 10 for i in range(40)])
        said = self.graft("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--batch", 8, "--steps", 5, "--quiet",
                          "--profile", "trace.json", "--profile-steps", 3, "--metrics", "metrics.jsonl")
        self.assertIn("Most memory is in use at", said)
        self.assertIn("grad/conv2/conv_grad_weight", said)
        with open(self.path("trace.json")) as file:
            trace = json.load(file)
        spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
        tracks = {}
        for span in spans:
            tracks.setdefault((span["pid"], span["cat"] == "step"), []).append(span)
        steps, device, host = tracks[1, True], tracks[1, False], tracks[2, False]
        self.assertEqual([e["name"] for e in steps], ["step 3", "step 4", "step 5"])
        self.assertEqual({e["cat"] for e in device}, {"copy", "forward", "backward", "update"})
        self.assertEqual({e["name"] for e in host}, {"data", "upload", "submit", "wait", "readback", "report"})
        for track in (steps, device):
            for one, other in zip(track, track[1:]):
                # One after another; a nanosecond is how exact a sum of such numbers is.
                self.assertLessEqual(one["ts"] + one["dur"], other["ts"] + 1e-3)
        # Both clocks on one line: what the device did in a step lies between asking for its batch and for the next.
        for i, step in enumerate(steps):
            inside = [e for e in device if step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"]]
            self.assertEqual(len(inside) * len(steps), len(device), step["name"])
            busy = sum(e["dur"] for e in inside)
            self.assertLessEqual(busy, step["dur"])
            self.assertGreater(busy, 0.01 * step["dur"])  # a GPU waits for the host, most of such a small step
        for e in device:
            if e["cat"] != "copy" and e["dur"] > 0:
                self.assertAlmostEqual(e["args"]["GFLOP/s"], e["args"]["flops"] / e["dur"] * 1e-3, delta=1e-2 * e["args"]["GFLOP/s"])
        memory = [e["args"] for e in trace["traceEvents"] if e["ph"] == "C"]
        plan = json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=8", "--json"))["plans"][0]
        self.assertEqual(max(m["values"] for m in memory), plan["lower_bound"])
        self.assertEqual(memory[-1]["values"], 0)
        self.check_table(trace["otherData"], plan, device)
        with open(self.path("metrics.jsonl")) as file:
            rows = [json.loads(line) for line in file]
        self.assertEqual(len(rows), 5)
        for row in rows:
            self.assertTrue(1 <= row["submissions"] <= plan["submissions_at_most"], row)

    def check_table(self, table, plan, device):
        """Times add up to those of the dispatches, memory to what is live at the peak."""
        self.assertEqual(table["steps"], 3)
        self.assertAlmostEqual(sum(r["seconds"] for r in table["consumers"]), sum(e["dur"] for e in device) * 1e-6, delta=1e-6)
        self.assertEqual(sum(r["calls"] for r in table["consumers"]), len(device))
        self.assertEqual(sum(r["peak_bytes"] for r in table["consumers"]), plan["lower_bound"])
        self.assertEqual(table["peak_node"], plan["peak_node"])
        self.assertEqual(table["dispatches"], 3 * plan["dispatches"])
        self.assertEqual(table["barriers"], 3 * plan["barriers"])
        self.assertLessEqual(table["submissions"], 3 * plan["submissions_at_most"])

    def test_micro_batches_and_evaluation_in_a_trace(self):
        """The update is part of the step, held-out data are not."""
        self.images(8)
        self.labels([i % 10 for i in range(8)])
        self.graft("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--eval", "npy:x.npy,y.npy", "--batch", 2,
                   "--accumulate", 4, "--epochs", 2, "--quiet", "--profile", "trace.json")
        with open(self.path("trace.json")) as file:
            trace = json.load(file)
        names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
        self.assertEqual([n for n in names if n.startswith("step ")], ["step 1", "step 2"])
        self.assertEqual(sum(name in ("conv1", "conv1 + relu1") for name in names), 2 * 4)
        self.assertEqual(names.count("update/finite"), 2)  # once in a step, not in each of its micro-batches

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
            self.assertEqual(load_npy(self.path("f/image.npy"), (8, 1, 28, 28)),
                             [struct.unpack("f", struct.pack("f", v))[0] for v in images])
            hidden = load_npy(self.path("f/relu1.out.npy"), (8, 128))
            dy = [1.0] * 80
            save_npy(self.path("dy.npy"), dy, (8, 10))
            # d(sum of logits) / d(fc2.weight) sums the hidden layer over the samples: what --fetch gave, by another way.
            self.graft("grad", "one.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy", "--wrt",
                       "fc2.weight", "--out", "g")
            sums = load_npy(self.path("g/fc2.weight.npy"), (10, 128))[:128]
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
        each = (self.COUNT,) if "--per-sample" in flags else ()
        shapes = {"image": (self.COUNT, 1, 28, 28), "fc1.weight": (*each, 128, 784), "relu1.out": (self.COUNT, 128)}
        return {name: load_npy(self.path(f"g/{name}.npy"), shape) for name, shape in shapes.items()}

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

    def test_a_cotangent_of_one_element_counts(self):
        small_network.write(self.path("small.onnx"), classes=1)
        self.graft("convert", "small.onnx", "-o", "small.graft")

        def gradient(count, *flags, cotangent=None):
            save_npy(self.path("s.npy"), random_floats(count * 64, 9), (count, 1, 8, 8))
            if cotangent:
                save_npy(self.path("c.npy"), cotangent, (count, 1))
                flags += ("--cotangent", "c.npy")
            self.graft("grad", "small.graft", "--input", "image=s.npy", "--of", "logits", "--wrt", "fc.w", "--out", "g", *flags)
            return load_npy(self.path("g/fc.w.npy"), (256, 1))

        one = gradient(1)
        self.assertEqual(gradient(1, cotangent=[1.0]), one)
        self.assertEqual(gradient(1, cotangent=[-4.0]), [-4 * x for x in one])
        self.assertEqual(gradient(1, "--micro-batch", 1, cotangent=[-4.0]), [-4 * x for x in one])
        whole = gradient(3, cotangent=[2.0, 0.0, -1.0])
        self.assertLess(difference(gradient(3, "--micro-batch", 1, cotangent=[2.0, 0.0, -1.0]), whole), 1e-6)
        self.fails("grad", "small.graft", "--input", "image=s.npy", "--of", "logits", "--wrt", "fc.w", "--out", "g",
                   "--micro-batch", 1, says=["cotangent"])

    def test_a_budget_is_kept_and_a_hopeless_one_refused(self):
        whole = self.gradients()
        done = self.run_graft("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy",
                              "--wrt", "image", "--out", "b", "--budget", 560000)
        self.assertEqual(done.returncode, 0, done.stderr)
        # All seven would need 561 KiB with the smallest staging; where the host does not see memory, staging is more.
        self.assertRegex(done.stderr, "^[2-6] samples at once")
        self.assertEqual(load_npy(self.path("b/image.npy")), whole["image"])
        self.fails("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy", "--wrt",
                   "image", "--out", "b", "--budget", "1KiB", says=["more than the budget"])


if __name__ == "__main__":
    cli.main()
