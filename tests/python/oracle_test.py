"""What the C++ API gives, to the byte: language models, data sets, evaluations, deltas, plans. See support.py.

GRAFT_BINDINGS_DATA: the folder that bindings_oracle filled.
"""

import math
import os
import pathlib
import support
from support import np

import graft

DATA = pathlib.Path(os.environ["GRAFT_BINDINGS_DATA"])


def wanted(name, dtype):
    return np.fromfile(DATA / name, dtype)


def options(**more):
    return dict(learning_rate=0.05, batch=4, seed=3, **more)


class Toy:
    """Turns every byte, and puts a sum behind them."""

    overhead = 8

    def seal(self, associated, plain):
        return bytes(b ^ 0x5A for b in plain) + (sum(plain) + sum(associated)).to_bytes(8, "little")

    def open(self, associated, sealed):
        plain = bytes(b ^ 0x5A for b in sealed[:-8])
        if sum(plain) + sum(associated) != int.from_bytes(sealed[-8:], "little"):
            raise ValueError("another key")
        return plain


class OracleTest(support.PackageTest):

    def setUp(self):
        super().setUp()
        self.context = graft.Context((DATA / "device.txt").read_text())
        self.x = wanted("batches.f32", "float32").reshape(-1, 5)
        self.labels = wanted("labels.i32", "int32")

    def load(self, name):
        return self.context.load(DATA / name)

    def same_file(self, model, name):
        model.save(self.path(name))
        self.assertEqual(pathlib.Path(self.path(name)).read_bytes(), (DATA / name).read_bytes())

    def test_a_teacher(self):
        model = self.load("letters.graft")
        data = self.context.open_data(f"text:{DATA}/letters.txt", model=model, length=12)
        trainer = model.trainer(learning_rate=0.01, batch=2, seed=3, data=data, teacher=self.load("teacher.graft"),
                                distill_weight=0.75)
        loader = data.loader(batch=2, seed=7, epochs=9)
        losses = [trainer.train_next(loader).loss for _ in range(3)]
        self.assertEqual(losses, list(wanted("taught.f64", "float64")))
        trainer.store()
        self.same_file(model, "taught.graft")

    def test_several_texts(self):
        model = self.load("letters.graft")
        generator = model.generator(context=40, cache="float16", sequences=2)
        asked = dict(max_tokens=8, temperature=1.5, seed=11, logit_bias={2: 3.0, 4: -math.inf}, most_probable=2,
                     grammar="root ::= [a-f]+")
        found = generator.generate_many(["abc", "abd"], **asked)
        texts = "".join(one.text + "\n" for one in found)
        self.assertEqual(sorted(texts), sorted((DATA / "several.txt").read_text()))
        sure = [p for one in found for p in [*one.log_probabilities, *(p for place in one.most_probable for _, p in place)]]
        self.assertEqual(sorted(np.float32(sure)), sorted(wanted("several.f32", "float32")))

    def test_what_is_told_of_a_text(self):
        model = self.load("letters.graft")
        generator = model.generator()
        tokens = []

        def on_token(token, scores):
            tokens.append(token)
            return len(tokens) < 5 and scores.shape == (17, )

        text = generator.generate("abc", max_tokens=12, temperature=1.5, seed=11, on_token=on_token)
        self.assertEqual(text, (DATA / "text.txt").read_text()[:5])
        self.assertEqual(generator.last().tokens, tokens)
        self.assertGreater(generator.last().generated_ms, 0)
        with self.assertRaisesRegex(ArithmeticError, "mine"):
            generator.generate("abc", on_token=lambda token, scores: (_ for _ in ()).throw(ArithmeticError("mine")))
        generator.pause()
        generator.resume()
        tokenizer = model.tokenizer()
        self.assertEqual(tokenizer.find("no such"), None)
        self.assertEqual(tokenizer.encode("a", bare=True), [tokenizer.find("a")])
        said = tokenizer.chat_text([{"role": "user", "content": "abc"}], format="chatml")
        self.assertIn("user\nabc", said)
        self.assertNotIn("assistant", tokenizer.chat_text([{"role": "user", "content": "abc"}], format="chatml", complete=True))
        with self.assertRaises(graft.InvalidArgument):
            tokenizer.chat([{"role": "nobody", "content": "abc"}], format="chatml")

    def test_vectors_and_importance(self):
        model = self.load("letters.graft")
        embedder = model.embedder(pooling="mean", normalize=True, length=16)
        np.testing.assert_array_equal(embedder.embed(["abc", "ponm"]).ravel(), wanted("vectors.f32", "float32"))
        self.assertEqual(embedder.length, 16)
        found = model.importance("c" * 40, context=16)
        np.testing.assert_array_equal(np.concatenate([one.sums for one in found.matrices]), wanted("importance.f64", "float64"))
        again = model.importance([model.tokenizer().encode("c" * 40)], context=16)
        self.assertEqual((again.chunks, again.dropped), (found.chunks, found.dropped))

    def data(self):
        return self.context.data_of({"x": self.x}, {"label": self.labels})

    def test_evaluations(self):
        asked = dict(metrics=["f1", "accuracy"], confusion=True, outcomes=True)
        data = self.data()
        before = self.load("mlp.graft").evaluation(data, **asked)
        now = self.load("trained.graft").evaluation(data, **asked)
        compared = now.compare(before)
        numbers = [now.loss, now.accuracy]
        for name, value in now.metrics.items():
            numbers += [value, *now.by_class.get(name, [])]
        numbers += [float(count) for count in now.confusion.ravel()]
        numbers += [compared.only_old, compared.only_new, len(compared.changed), len(compared.lost), compared.p_value]
        self.assertEqual(numbers, list(wanted("evaluation.f64", "float64")))
        self.assertEqual(sum(one.rows for one in compared.classes), compared.rows)
        trained = self.load("trained.graft")
        passed = trained.gate(data, "accuracy>=0.2", old=self.load("mlp.graft"), margin=1, path=self.path("out.graft"))
        self.assertTrue(passed.passed and os.path.exists(self.path("out.graft")))
        refused = trained.gate(data, "accuracy>=0.99", path=self.path("out.graft"))
        self.assertIn("accuracy", refused.reason)
        self.assertTrue(os.path.exists(self.path("out.rejected.graft")) and not refused.passed)
        trainer = trained.trainer(**options(predictions=True, schedule="plateau"))
        evaluated = trainer.evaluation(data, metrics=["f1"])
        self.assertEqual(evaluated.metrics["f1"], now.metrics["f1"])
        self.assertTrue(trainer.observe(evaluated, best="f1", plateau="loss", patience=0).best)
        verdict = trainer.observe(evaluated, best="f1", plateau="loss", patience=0, early_stop="f1")
        self.assertEqual((verdict.best, verdict.slower), (False, True))
        self.assertEqual(trainer.evaluate(data).loss, evaluated.loss)

    def test_data_sets(self):
        fields = [graft.Field("x", "float32", (5, )), graft.Field("label", "int32", (), "target")]
        sets = [self.data(),
                self.context.data_by(fields, lambda i: {"x": self.x[i], "label": self.labels[i]}, len(self.x))]
        for data in sets:
            model = self.load("mlp.graft")
            self.assertEqual([field[:4] for field in data.fields], [field[:4] for field in fields])
            trainer = model.trainer(**options(data=data))
            loader = data.loader(batch=4, shuffle=False)
            losses = []
            while (metrics := trainer.train_next(loader)) is not None:
                losses.append(metrics.loss)
            self.assertEqual(losses, list(wanted("losses.f64", "float64")))
            trainer.store()
            self.same_file(model, "trained.graft")
        batches = list(self.data().loader(batch=20, shuffle=False))
        np.testing.assert_array_equal(np.concatenate([batch.fields["x"] for batch in batches]), self.x)
        self.assertTrue(batches[-1].last_of_epoch)
        # The clients of a simulation: parts of the data, one after the other on one trainer.
        data, model = self.data(), self.load("mlp.graft")
        trainer = model.trainer(**options(data=data))
        parts = data.split("dirichlet=0.5", 3, seed=2)
        self.assertEqual(sorted(np.concatenate(parts)), list(range(len(self.x))))
        np.testing.assert_array_equal(next(data.select(parts[0]).loader(batch=100, shuffle=False)).fields["x"],
                                      self.x[parts[0]])
        first = []
        for rows in ([3, 1, 4, 5], [5, 4, 1, 3], [3, 1, 4, 5]):
            trainer.restart()
            first.append(trainer.train_next(data.select(rows).loader(batch=4, shuffle=False)).loss)
        self.assertEqual(first[0], first[2])
        self.assertAlmostEqual(first[0], first[1], places=5)
        trainer.restart(self.load("trained.graft"))
        self.assertLess(trainer.evaluate(data).loss, self.load("mlp.graft").evaluation(data).loss)
        with self.assertRaises(graft.InvalidArgument):
            data.split("fair", 3)
        with self.assertRaises(graft.InvalidArgument):
            data.select([len(self.x)])
        with self.assertRaises(ValueError):
            self.context.data_of({"x": self.x}, {"label": self.labels[:3]})
        with self.assertRaises(graft.InvalidArgument):
            self.context.open_data("nonsense")

    def test_deltas(self):
        base, updated = self.load("mlp.graft"), self.load("trained.graft")
        delta = graft.Delta(base, updated, samples=48, coding="int8", clip_norm=0.5)
        self.assertEqual(bytes(delta), (DATA / "delta.bin").read_bytes())
        self.assertEqual((delta.info.coding, delta.info.samples, delta.info.clip_norm), ("int8", 48, 0.5))
        delta.save(self.path("sent"))
        again = graft.Delta.load(self.context, self.path("sent"))
        np.testing.assert_array_equal(again.numbers("fc1.weight"),
                                      graft.Delta.load(self.context, bytes(delta)).numbers("fc1.weight"))
        self.assertEqual(again.tensors, delta.tensors)
        average = graft.Delta.average(self.context, [delta, graft.Delta(base, updated, samples=16)])
        averager = graft.Averager(self.context)
        averager.add(delta)
        averager.add(graft.Delta(base, updated, samples=16))
        one_by_one = averager.finish()
        np.testing.assert_array_equal(one_by_one.numbers("fc1.weight"), average.numbers("fc1.weight"))
        server = graft.Server(self.context, "fedadam", rate=0.1, beta1=0.9)
        self.assertTrue(server.keeps)
        step = server.step(base, average)
        self.assertTrue((step.numbers("fc1.weight") != average.numbers("fc1.weight")).any())
        server.save(self.path("moments"))
        graft.Server(self.context, "fedadam", rate=0.1, beta1=0.9).load(self.path("moments"))
        average.apply_to(base, 0.5)
        self.same_file(base, "federated.graft")
        fixed = graft.Delta(self.load("mlp.graft"), updated, coding="fixed", fixed_bits=16)
        fixed.integers("fc1.bias")[:] += np.uint32(7)  # a mask
        self.assertEqual(int((fixed.integers("fc1.bias") - graft.Delta(
            self.load("mlp.graft"), updated, coding="fixed", fixed_bits=16).integers("fc1.bias")).min()), 7)
        with self.assertRaises(graft.InvalidArgument):
            average.apply_to(updated)
        with self.assertRaises(graft.Corrupt):
            graft.Delta.load(self.context, bytes(delta)[:-9])
        self.assertGreater(graft.privacy(self.context, noise=1, share=0.1, rounds=10, delta=1e-5), 0)

    def test_plans(self):
        model = self.load("mlp.graft")
        plan = model.plan_training(batch=4, curve=True)
        numbers = []
        for node in plan.nodes:
            numbers += [len(node.name.encode()), node.flops, node.bytes, node.dispatches]
        for value in plan.values:
            numbers += [value.offset, value.bytes, value.first, value.last]
        for point in plan.curve:
            numbers += [point.bytes, point.recomputed]
        for layer in model.layers({"batch": 4}):
            numbers += [layer.parameters, layer.bytes, layer.flops]
        self.assertEqual(numbers, list(wanted("plan.i64", "int64")))
        self.assertEqual(plan.forecast, model.forecast(batch=4))
        self.assertGreater(len(model.plan({"batch": 4}, caps="adreno-7xx").nodes), 0)
        self.assertEqual(model.find_damage(), [])
        self.assertTrue(all(one.passed for one in model.verify({"batch": 2})))
        names = [device.name for device in graft.devices()]
        self.assertIn(self.context.device_name, names)

    def test_kept_runs(self):
        def kept(model, name, **more):
            data = self.data()
            trainer = model.trainer(**options(data=data, checkpoints=True))
            loader = data.loader(batch=4, shuffle=False)
            info = trainer.open_checkpoint(self.path("kept"), every=4, loader=loader, **more)
            return trainer, loader, info

        trainer, loader, _ = kept(self.load("mlp.graft"), "kept", cipher=Toy(), metadata={"app": "mine"})
        for _ in range(6):
            trainer.train_next(loader)
        trainer.save_checkpoint("six")
        trainer.close_checkpoint()
        self.assertRaises(graft.Error, self.context.open_store, self.path("kept"))  # without the cipher
        store = self.context.open_store(self.path("kept"), writable=True, cipher=Toy())
        self.assertEqual(store.find("six").step, 6)
        self.assertEqual([one.is_head for one in store.snapshots].count(True), 1)
        self.assertEqual(store.metadata("six", "app"), "mine")
        self.assertGreater(store.verify(), 0)
        first = str(store.snapshots[0].number)
        self.assertTrue(any(one.difference == "changed" for one in store.diff(first, "six")))
        restored = self.load("mlp.graft")
        self.assertGreater(store.restore(restored, "six"), 0)
        store.tag("six", "again")
        store.untag("six", "again")
        store.branch("six")
        self.assertGreaterEqual(store.prune(1), 0)
        del store, trainer, loader
        model = self.load("mlp.graft")
        trainer, loader, info = kept(model, "kept", cipher=Toy(), resume=True)
        self.assertEqual(info.step, 6)
        while trainer.train_next(loader) is not None:
            pass
        trainer.store()
        self.same_file(model, "trained.graft")

    def test_a_memory_of_examples(self):
        fields = [graft.Field("x", "float32", (5,)), graft.Field("label", "int32", (), "target")]
        with self.context.open_memory(self.path("m"), fields=fields, records=12, policy="age", held_out=0.25, cipher=Toy()) as memory:
            for i in range(14):
                added = memory.add({"x": self.x[i], "label": 0}, f"r{i}", may_export=i == 13)
                self.assertEqual(added.evicted, [] if i < 12 else [f"r{i - 12}"])
            self.assertTrue(memory.add({"x": self.x[13], "label": 0}, "r13").known)
            self.assertRaises(graft.InvalidArgument, memory.add, {"x": self.x[1], "label": 0}, "r13")
            self.assertRaises(ValueError, memory.add, {"x": self.x[1][:3], "label": 0}, "s")
            np.testing.assert_array_equal(memory.read("r9")["x"], self.x[9])
            memory.set_loss("r9", 0.25)
            self.assertEqual((memory.find("r9").loss, memory.find("r8").loss), (0.25, None))
            memory.remove("r13", "r12")
            self.assertRaises(graft.NotFound, memory.find, "r13")
            self.assertEqual([one.id for one in memory.records], sorted(f"r{i}" for i in range(2, 12)))
            held_out = [one.id for one in memory.records if one.held_out]
            self.assertEqual((memory.info.records, memory.info.held_out, memory.info.policy), (10, len(held_out), "age"))
            self.assertEqual(memory.data().samples, 10 - len(held_out))
            self.assertRaises(graft.NotFound, memory.data, "export")
            news = self.data()
            mixed = memory.mix(news, 0.25)
            loader = mixed.loader(batch=4, keyed=True)
            sizes = [len(batch.fields["label"]) for batch in loader]
            self.assertEqual(sum(sizes), mixed.samples)
            del loader
            used = {one.id: memory.first_use(mixed, one.id, batch=4) for one in memory.records}
            self.assertTrue(all(used[name] is None for name in held_out))
            self.assertTrue(all(0 <= first < len(sizes) for first in used.values() if first is not None))
            self.assertEqual(memory.expire(), 0)
        self.assertRaises(graft.InvalidArgument, self.context.open_memory, self.path("m"))  # without the cipher

    def test_models_and_adapters_from_memory(self):
        letters = self.context.load_bytes((DATA / "letters.graft").read_bytes())
        self.assertEqual(letters.inputs, self.load("letters.graft").inputs)
        letters = self.load("letters.graft")  # whose name stands in adapters
        adapters = (DATA / "adapters.graft").read_bytes()
        letters.load_adapters(adapters)
        letters.save_adapters(self.path("again.graft"))
        self.assertEqual(pathlib.Path(self.path("again.graft")).read_bytes(), adapters)
        generator = letters.generator()
        text = generator.generate("abc", max_tokens=6)
        generator.swap_adapters(None)
        generator.swap_adapters(adapters)
        self.assertEqual(generator.generate("abc", max_tokens=6), text)
        del generator
        letters.load_adapters({DATA / "adapters.graft": 0.5, self.path("again.graft"): 0.25})
        letters.merge_adapters()
        letters.set_metadata("app", "mine")
        self.assertEqual(letters.metadata["app"], "mine")
        letters.set_metadata("app", None)
        self.assertNotIn("app", letters.metadata)
        self.assertEqual((letters.signatures, letters.classes), ({}, []))


support.main()
