"""The client of Flower: rounds of three clients, by Flower's own simulation where it is installed, and by hand."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../python"))

import support  # noqa: E402
from support import PackageTest, np  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from flower_client import GraftClient, client_app  # noqa: E402

CLIENTS, ROUNDS, SAMPLES = 3, 3, 40


def samples_of(client):
    """Classes that a line of the image tells apart; a client has two of three of them."""
    random = np.random.default_rng(client)
    y = random.choice([k for k in range(3) if k != client % 3], SAMPLES - 5 * client).astype(np.int32)
    x = random.normal(0, 0.3, (len(y), 1, 28, 28)).astype(np.float32)
    x[np.arange(len(y)), 0, 9 * y] += 2
    return x, y


class Flower(PackageTest):
    OPTIONS = dict(optimizer="sgd", learning_rate=0.05, batch=8)

    def test_rounds_by_hand(self):
        model = self.example("mlp")
        clients = [GraftClient(model, *samples_of(k), **self.OPTIONS) for k in range(CLIENTS)]
        weights = clients[0].get_parameters({})
        first = clients[0].evaluate(weights, {})[0]
        for _ in range(ROUNDS):
            fitted = [client.fit(weights, {}) for client in clients]
            total = sum(count for _, count, _ in fitted)
            weights = [sum(arrays[i].astype(np.float64) * count / total for arrays, count, _ in fitted).astype(np.float32)
                       for i in range(len(weights))]
        for client in clients:
            loss, count, metrics = client.evaluate(weights, {})
            self.assertEqual(count, len(client.x))
            self.assertLess(loss, first / 2)
            self.assertGreater(metrics["accuracy"], 0.8)
        with self.assertRaises(ValueError):
            clients[0].fit(weights[1:], {})

    def test_rounds_by_flower(self):
        try:
            import flwr
        except ImportError:
            self.skipTest("Flower is not installed: no package flwr")
        from flwr.server import ServerApp, ServerAppComponents, ServerConfig
        from flwr.server.strategy import FedAvg
        from flwr.simulation import run_simulation
        print("Flower", flwr.__version__)
        model = self.example("mlp")
        losses = []

        def server_fn(context):
            def fit_metrics(results):
                losses.append(sum(n * m["loss"] for n, m in results) / sum(n for n, _ in results))
                return {}
            strategy = FedAvg(min_available_clients=CLIENTS, fit_metrics_aggregation_fn=fit_metrics)
            return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=ROUNDS))

        app = client_app(model, lambda context: samples_of(context.node_config["partition-id"]), **self.OPTIONS)
        run_simulation(server_app=ServerApp(server_fn=server_fn), client_app=app, num_supernodes=CLIENTS)
        self.assertEqual(len(losses), ROUNDS)
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    support.main()
