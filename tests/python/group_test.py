"""Several workers of one run, and a run as its app shows it."""

import math
import os
import queue
import threading

import support

import graft
import numpy as np


def batch(seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((8, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, 8)


class Post:
    """One of the threads' ends, as an app would write it: bytes go through queues."""

    def __init__(self, rank, boxes):
        self.rank, self.size, self.boxes = rank, len(boxes), boxes
        self.rounds, self.failure = 0, ""

    def exchange(self, out, into, deadline):
        self.rounds += 1
        for to in range(self.size):
            self.boxes[to][self.rank].put([bytes(part[to]) for part in out])
        for sender in range(self.size):
            for part, sent in zip(into, self.boxes[self.rank][sender].get(timeout=60)):
                part[sender][:] = sent

    def leave(self, failure):
        self.failure = failure


def posts():
    boxes = [[queue.Queue() for _ in range(2)] for _ in range(2)]
    return [Post(rank, boxes) for rank in range(2)]


class Groups(support.PackageTest):
    def worker(self, end, said, **options):
        """Three steps; said[rank] is the weights, or what was raised."""
        rank = len(said) if end is None else None
        try:
            context = graft.Context(os.environ.get("GRAFT_TEST_DEVICE"))
            trainer = context.load(self.path("mlp.graft")).trainer(batch=8, micro_batch=2, group=end, **options)
            if end is not None:
                self.assertEqual(trainer.join(), 0)
                rank = trainer.rank[0]
                self.assertEqual(trainer.rank[1], 2)
                self.assertEqual(trainer.share(8), range(4 * rank, 4 * rank + 4))
            for seed in range(3):
                x, y = batch(seed)
                if end is not None:
                    others = [i for i in range(8) if i not in trainer.share(8)]
                    x[others] = y[others] = 0  # nobody looks at them
                trainer.step(x, y)
            if end is not None:
                trainer.gather()
                self.assertEqual(trainer.trouble, "")
                self.assertTrue(trainer.request_whole() or rank != 0)
                self.assertTrue(trainer.conclude())
                with self.assertRaises(graft.InvalidArgument):
                    trainer.meet()  # nobody is gone
            said[rank] = trainer.state_dict()
        except Exception as failure:
            said[getattr(end, "rank", rank)] = failure

    def together(self, ends, **options):
        self.example()
        said = {}
        threads = [threading.Thread(target=self.worker, args=(end, said), kwargs=options) for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said

    def assert_as_one(self, said):
        alone = {}
        self.worker(None, alone)
        for rank in range(2):
            self.assertIsInstance(said[rank], dict, said[rank])
            for name, weights in alone[0].items():
                np.testing.assert_array_equal(said[rank][name], weights)

    def test_threads_end_with_the_bits_of_one(self):
        group = graft.ThreadGroup(2, shard_optimizer=True)
        self.assert_as_one(self.together([group[0], group[1]]))

    def test_an_apps_own_group_ends_with_the_bits_of_one(self):
        ends = posts()
        self.assert_as_one(self.together(ends))
        self.assertGreater(ends[0].rounds, 3)
        self.assertEqual(ends[0].rounds, ends[1].rounds)

    def test_what_an_exchange_raises_is_the_calls_error(self):
        for raised, kind in ((TimeoutError("nobody came"), graft.Timeout), (ConnectionError("cut off"), graft.IoError),
                             (RuntimeError("a bug"), graft.InvalidArgument)):
            ends = posts()
            for end in ends:
                end.exchange = lambda out, into, deadline, raised=raised: (_ for _ in ()).throw(raised)
            said = self.together(ends)
            for rank in range(2):
                self.assertIsInstance(said[rank], kind)
                self.assertIn(str(raised), str(said[rank]))

    def test_views_end_with_the_call(self):
        ends, kept = posts(), []
        given = ends[0].exchange
        ends[0].exchange = lambda out, into, deadline: (given(out, into, deadline), kept.extend(out[0] + into[0]))
        self.assert_as_one(self.together(ends))
        self.assertGreater(len(kept), 0)
        for view in kept:
            with self.assertRaises(ValueError):
                bytes(view)

    def test_what_is_no_end_is_refused(self):
        model = self.example()
        with self.assertRaises(TypeError):
            model.trainer(group=graft.ThreadGroup(2))
        with self.assertRaises(AttributeError):
            model.trainer(group=object())
        with self.assertRaises(graft.InvalidArgument):
            graft.ThreadGroup(0)


class Runs(support.PackageTest):
    def test_a_model_of_the_weights_so_far(self):
        model = self.example()
        before = model.state_dict()
        trainer = model.trainer(batch=8, clip_norm=1)
        with self.assertRaises(graft.NotFound):
            trainer.last_step()
        x, y = batch()
        trainer.step(x, y)
        step = trainer.last_step()
        self.assertEqual((step.step, step.skipped, step.learning_rate), (1, False, 1e-3))
        self.assertTrue(step.gradient_norm > 0 and math.isnan(step.loss_scale))
        now, expected = trainer.copy(), trainer.state_dict()
        with self.assertRaises(graft.InvalidArgument):
            trainer.copy(ema=True)
        trainer.step(x, y)
        del trainer, model  # what the copy borrows stays
        for name, weights in now.state_dict().items():
            np.testing.assert_array_equal(weights, expected[name])
            self.assertFalse(np.array_equal(weights, before[name]))
        self.assertEqual(now.run({"image": x})["logits"].shape, (8, 10))

    def test_a_gate_tells_of_each_condition(self):
        model = self.example()
        x, y = batch()
        data = self.context.data_of({"image": x}, {"label": y.astype(np.int32)})
        found = model.gate(data, "accuracy>=0,loss<=0", old=model, batch=8)
        self.assertFalse(found.passed)
        self.assertEqual([(row.metric, row.holds, row.no_worse) for row in found.rows],
                         [("accuracy", True, True), ("loss", False, True)])
        self.assertEqual((found.now, found.before), (found.rows[0].now, found.rows[0].before))


if __name__ == "__main__":
    support.main()
