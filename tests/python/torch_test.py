"""Networks of PyTorch through the Python package: the same outputs, gradients and losses as PyTorch's own."""

import support

torch = support.torch()

import graft
import numpy as np
from support import FORWARD_TOLERANCE, GRADIENT_TOLERANCE, error
from torch import nn

# Differences grow from step to step while two trainings drift apart, as in tests/torch/parity.py.
CURVE_TOLERANCE = 2e-3


def network():
    """With what a fine-tune meets: convolution, batch norm, an elementwise op, pooling, a linear head.

    No bias before the batch norm: its gradient is rounding alone, which AdamW scales up to steps of full size.
    """
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(4 * 9, 3))


def samples(count):
    torch.manual_seed(2)
    labels = torch.randint(0, 3, (count,))
    return torch.randn(3, 1, 8, 8)[labels] + 0.5 * torch.randn(count, 1, 8, 8), labels


class Encoder(nn.Module):
    """As BERT is: tokens, places and segments looked up, attention that sees all of a text and none of its padding."""

    def __init__(self, masked=True, width=16):
        super().__init__()
        torch.manual_seed(5)
        self.tokens, self.places, self.segments = nn.Embedding(23, width), nn.Embedding(32, width), nn.Embedding(2, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm, self.out, self.masked = nn.LayerNorm(width), nn.Linear(width, width), masked

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        x = self.tokens(input_ids)
        if self.masked:
            places = torch.cumsum(torch.ones_like(input_ids), 1) - 1
            x = x + self.places(places) + self.segments(token_type_ids)
        scores = self.query(x) @ self.key(x).transpose(-1, -2) / 4
        if self.masked:
            scores = scores + (1 - attention_mask[:, None, :].float()) * -1e4
        return self.norm(x + self.out(scores.softmax(-1) @ self.value(x)))


class Torch(support.PackageTest):
    def test_vectors_of_texts_are_those_of_an_encoder(self):
        texts = [[1, 5, 7], [2], [22, 3, 9, 4, 4, 8, 1, 17, 11, 3, 2, 2, 19, 5, 6, 7, 8, 9], [4, 5, 6]]
        for masked in (True, False):
            net = Encoder(masked).eval()
            names = ["input_ids", "attention_mask", "token_type_ids"][:3 if masked else 1]
            example = tuple(torch.ones(2, 6, dtype=torch.int64) for _ in names)
            model = self.converted(net, example, f"{masked}.graft", output_names=["last_hidden_state"], input_names=names,
                                   dynamic_axes={name: {1: "seq"} for name in [*names, "last_hidden_state"]})
            states = []
            for text in texts:
                given = torch.tensor([text])
                states.append(net(given, torch.ones_like(given), torch.zeros_like(given)).detach()[0])
            for pooling, pool in (("mean", lambda x: x.mean(0)), ("last", lambda x: x[-1]), ("cls", lambda x: x[0])):
                found = model.embedder(pooling=pooling, length=20, batch=2).embed(texts)
                self.assertLess(error(found, torch.stack([pool(x) for x in states])), FORWARD_TOLERANCE, (masked, pooling))

    def test_outputs_are_those_of_the_module(self):
        x, _ = samples(6)
        net = network()
        with torch.no_grad():
            net(x)  # running statistics that are not the fresh ones
        for mode in (True, False):
            net.train(mode)
            before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
            model = self.converted(net, x[:2], f"{mode}.graft")
            for name, tensor in net.state_dict().items():
                self.assertTrue(torch.equal(tensor, before[name]), f"conversion changed {name}")
            self.assertEqual(net.training, mode)
            self.assertEqual([info.shape for info in model.inputs], [("batch", 1, 8, 8)])
            self.assertEqual([name for name, _ in model.named_parameters()], [name for name, _ in net.named_parameters()])
            net.eval()
            self.assertLess(error(model.run({"input": x})["output"], net(x).detach()), FORWARD_TOLERANCE)

    def test_dropout_works_in_training_and_not_in_runs(self):
        net = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, 3)).train()
        x = torch.randn(8, 64)
        model = self.converted(net, x)
        net.eval()
        self.assertLess(error(model.run({"input": x})["output"], net(x).detach()), FORWARD_TOLERANCE)
        trainer = model.trainer(batch=8, learning_rate=1e-12)  # so small that no weight moves
        losses = [trainer.step(x, torch.zeros(8, dtype=torch.int64)).loss for _ in range(3)]
        self.assertEqual(len(set(losses)), 3, "each step drops other numbers")

    def test_gradients_are_those_of_the_module(self):
        x, _ = samples(4)
        net = network().eval()
        model = self.converted(net, x)
        cotangent = torch.randn(4, 3)
        x.requires_grad_()
        names = ["input"] + [name for name, _ in net.named_parameters()]
        expected = torch.autograd.grad(net(x), [x, *net.parameters()], cotangent)
        session = model.session(of="output", wrt=names)
        inputs = {"input": x, "cotangent": cotangent}
        in_one = session.run(inputs)
        in_pieces = model.gradients(inputs, of="output", wrt=names, micro_batch=2)
        for name, gradient in zip(names, expected):
            self.assertLess(error(in_one[f"grad:{name}"], gradient), GRADIENT_TOLERANCE, name)
            self.assertLess(error(in_pieces[name], gradient), GRADIENT_TOLERANCE, name)

    def test_twenty_steps_have_the_same_losses(self):
        x, labels = samples(20 * 8)
        net = network().train()
        model = self.converted(net, x[:8])
        optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
        trainer = model.trainer(learning_rate=2e-3, weight_decay=0.01, batch=8)
        batches = [(x[i:i + 8], labels[i:i + 8]) for i in range(0, len(x), 8)]
        expected = []
        for some, of in batches:
            loss = nn.functional.cross_entropy(net(some), of)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(float(loss.detach()))
        metrics = trainer.fit(batches, progress=False)
        self.assertEqual([row.step for row in metrics], list(range(1, 21)))
        for step, (row, loss) in enumerate(zip(metrics, expected)):
            self.assertLess(abs(row.loss - loss) / loss, CURVE_TOLERANCE, f"step {step}")
        self.assertLess(metrics[-1].loss, 0.85 * metrics[0].loss, "there was something to learn")
        # What was learnt, running statistics included, in sessions of both.
        trainer.store()
        net.eval()
        self.assertLess(error(model.run({"input": x[:8]})["output"], net(x[:8]).detach()), CURVE_TOLERANCE)
        self.assertAlmostEqual(trainer.evaluate(x, labels).loss,
                               float(nn.functional.cross_entropy(net(x), labels).detach()), delta=CURVE_TOLERANCE)

    def test_weights_go_to_the_module_and_back(self):
        x, labels = samples(8)
        model = self.converted(network().train(), x)
        trainer = model.trainer(batch=8, learning_rate=1e-2)
        for _ in range(3):
            trainer.step(x, labels)
        trained = trainer.state_dict()
        self.assertFalse(np.array_equal(trained["0.weight"], model.state_dict()["0.weight"]), "until it is stored")
        trainer.store()
        self.assertEqual(list(trained), list(model.state_dict()))
        for name, array in model.state_dict().items():
            np.testing.assert_array_equal(array, trained[name], name)
        other = network().eval()
        self.assertGreater(error(model.run({"input": x})["output"], other(x).detach()), 0.01)
        other.load_state_dict({name: torch.from_numpy(array) for name, array in trained.items()})
        self.assertLess(error(model.run({"input": x})["output"], other(x).detach()), FORWARD_TOLERANCE)
        # And from a module, into a trainer in mid-run and into a model.
        torch.manual_seed(5)
        with torch.no_grad():
            for tensor in other.state_dict().values():
                if tensor.is_floating_point():
                    tensor.add_(0.1 * torch.rand_like(tensor))
        trainer.load_state_dict(other.state_dict())
        expected = nn.functional.cross_entropy(other(x), labels)
        self.assertAlmostEqual(trainer.evaluate(x, labels).loss, float(expected.detach()), delta=FORWARD_TOLERANCE)
        with self.assertRaisesRegex(graft.InvalidArgument, "Trainer"):
            model.load_state_dict(other.state_dict())
        del trainer
        model.load_state_dict(other.state_dict())
        self.assertLess(error(model.run({"input": x})["output"], other(x).detach()), FORWARD_TOLERANCE)
        with self.assertRaisesRegex(ValueError, "5.weight"):
            model.load_state_dict({name: array for name, array in trained.items() if name != "5.weight"})
        model.load_state_dict({"5.bias": np.zeros(3, np.float32)}, strict=False)
        with self.assertRaisesRegex(ValueError, "5.bias"):
            model.load_state_dict({"5.bias": np.zeros(4, np.float32)}, strict=False)

    def test_groups_and_a_learning_rate_that_changes(self):
        x, labels = samples(8)
        model = self.converted(network().train(), x)
        before = model.state_dict()
        trainer = model.trainer(batch=8, learning_rate=1e-2, groups=[{"pattern": "5.*", "learning_rate_scale": 1e-12}])
        trainer.step(x, labels)
        after = trainer.state_dict()
        self.assertLess(error(after["5.weight"], before["5.weight"]), 1e-6)
        self.assertGreater(error(after["0.weight"], before["0.weight"]), 1e-3)
        self.assertEqual(trainer.learning_rate, 1e-2)
        trainer.learning_rate = 1e-12
        self.assertEqual(trainer.step(x, labels).learning_rate, 1e-12)
        self.assertLess(error(trainer.state_dict()["0.weight"], after["0.weight"]), 1e-6)

    def test_losses_have_the_values_of_pytorch(self):
        f = nn.functional
        torch.manual_seed(3)
        net = nn.Linear(6, 4)
        x, labels = torch.randn(8, 6), torch.arange(8) % 4
        model = self.converted(net, x)
        y = net(x).detach()
        ones, numbers, weights = f.one_hot(labels, 4).float(), torch.randn(8, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])
        shares = torch.softmax(numbers, 1)
        p = torch.softmax(y, 1)[torch.arange(8), labels]
        for options, target, expected in (
                ({"loss": "cross_entropy", "class_weights": weights}, labels, f.cross_entropy(y, labels, weights)),
                ({"loss": "focal", "focal_gamma": 1.5}, labels, -((1 - p) ** 1.5 * p.log()).mean()),
                ({"loss": "bce", "pos_weight": [2]}, ones,
                 f.binary_cross_entropy_with_logits(y, ones, pos_weight=torch.tensor([2.0]))),
                ({"loss": "huber", "huber_delta": 0.5}, numbers, f.huber_loss(y, numbers, delta=0.5)),
                ({"loss": "smooth_l1", "smooth_l1_beta": 0.5}, numbers, f.smooth_l1_loss(y, numbers, beta=0.5)),
                ({"loss": "kl"}, shares, f.kl_div(torch.log_softmax(y, 1), shares, reduction="batchmean")),
                ({"losses": "0.25*mse:output"}, numbers, 0.25 * f.mse_loss(y, numbers))):
            found = model.trainer(batch=8, **options).evaluate(x, target).loss
            self.assertAlmostEqual(found, float(expected), delta=1e-5 * float(expected), msg=f"{options}")

    def test_a_loss_that_the_module_computes_needs_no_target(self):
        class Own(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(6, 4)

            def forward(self, x):
                return (self.layer(x) ** 2).mean(1)

        torch.manual_seed(3)
        net = Own()
        x = torch.randn(8, 6)
        trainer = self.converted(net, x).trainer(batch=8, loss="output", optimizer="sgd", learning_rate=0.1)
        self.assertEqual([part.name for part in trainer.sample], ["x"])
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(4):
            loss = net(x).mean()
            self.assertAlmostEqual(trainer.evaluate(x).loss, float(loss.detach()), delta=1e-5)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.assertAlmostEqual(trainer.step(x).loss, float(loss.detach()), delta=1e-5)
        with self.assertRaises(ValueError):
            trainer.step(x, x)
        with self.assertRaises(ValueError):
            self.converted(network(), samples(2)[0]).trainer(batch=2).step(samples(2)[0])

    def test_every_optimizer_learns(self):
        torch.manual_seed(3)
        x = torch.randn(16, 8)
        labels = x[:, :4].argmax(1)
        model = self.converted(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), x)
        for name, rate in (("lion", 0.01), ("rmsprop", 0.01), ("adagrad", 0.1), ("adafactor", 0.05), ("lamb", 0.05),
                           ("muon", 0.05), ("adamw_8bit", 0.02)):
            trainer = model.trainer(batch=16, optimizer=name, learning_rate=rate, ema=0.5)
            losses = [trainer.step(x, labels).loss for _ in range(10)]
            self.assertLess(losses[-1], 0.8 * losses[0], name)

    def test_frozen_parameters_stay(self):
        x, labels = samples(8)
        net = network()
        net[0].weight.requires_grad_(False)
        model = self.converted(net, x)
        self.assertNotIn("0.weight", [name for name, _ in model.named_parameters()])
        trainer = model.trainer(batch=8)
        trainer.step(x, labels)
        trainer.store()
        np.testing.assert_array_equal(model.state_dict(frozen=True)["0.weight"], net[0].weight.detach())
        self.assertFalse(np.array_equal(model.state_dict()["5.weight"], net[5].weight.detach()))

    def test_several_inputs_and_outputs_and_named_axes(self):
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(10, 4)

            def forward(self, tokens, scale):
                found = self.table(tokens) * scale[:, None, None]
                return found, found.sum((1, 2))

        net = Two()
        tokens, scale = torch.randint(0, 10, (2, 5)), torch.randn(2)
        model = self.converted(net, (tokens, scale), dynamic_axes={"tokens": {1: "seq"}, "output0": {1: "seq"}})
        self.assertEqual([(i.name, i.dtype, i.shape) for i in model.inputs],
                         [("tokens", "int32", ("batch", "seq")), ("scale", "float32", ("batch",))])
        tokens, scale = torch.randint(0, 10, (3, 7)), torch.randn(3)
        outputs = model.run({"tokens": tokens, "scale": scale})
        for name, expected in zip(("output0", "output1"), net(tokens, scale)):
            self.assertLess(error(outputs[name], expected.detach()), FORWARD_TOLERANCE)

    def test_what_does_not_convert_says_all(self):
        class Odd(nn.Module):
            def forward(self, x):
                return torch.bernoulli(x.sigmoid()).unique()

        with self.assertRaises(graft.Unsupported) as raised:
            graft.convert(Odd(), torch.randn(2, 3, 3), self.path("odd.graft"))
        self.assertIn("Unique", str(raised.exception))
        self.assertIn("Unique", raised.exception.report.text)
        with self.assertRaises(TypeError):
            graft.convert(network(), torch.randn(2, 1, 8, 8))
        with self.assertRaises(TypeError):
            graft.convert(42, torch.randn(2), self.path("odd.graft"))


if __name__ == "__main__":
    support.main()
