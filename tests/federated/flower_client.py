"""A client of Flower (https://flower.ai) that trains with graft.

What Flower's NumPyClient asks for, with or without Flower at hand: weights go in and out as a list of arrays, in the order
of their names. As an app of Flower:

    from flower_client import client_app
    app = client_app("model.graft", samples_of)

where samples_of(context) gives the arrays (x, y) of that client.
"""

import graft


class GraftClient:
    """Trains `model` on (x, y): batches in order, `epochs` times for each round. Options are those of graft.Trainer."""

    def __init__(self, model, x, y, *, batch=32, epochs=1, **options):
        self.model = model if isinstance(model, graft.Model) else graft.load(model)
        self.trainer = self.model.trainer(batch=batch, **options)
        self.x, self.y, self.batch, self.epochs = x, y, batch, epochs

    def get_parameters(self, config):
        return [array for _, array in sorted(self.trainer.state_dict().items())]

    def set_parameters(self, parameters):
        names = sorted(self.trainer.state_dict())
        if len(names) != len(parameters):
            raise ValueError(f"The model has {len(names)} weights; {len(parameters)} came.")
        self.trainer.load_state_dict(dict(zip(names, parameters)))

    def fit(self, parameters, config):
        """A round: the server's weights, some epochs, and back with the number of samples, which they weigh by."""
        self.set_parameters(parameters)
        for _ in range(int(config.get("local_epochs", self.epochs))):
            for first in range(0, len(self.x), self.batch):
                metrics = self.trainer.step(self.x[first:first + self.batch], self.y[first:first + self.batch])
        return self.get_parameters(config), len(self.x), {"loss": float(metrics.loss)}

    def evaluate(self, parameters, config):
        self.set_parameters(parameters)
        metrics = self.trainer.evaluate(self.x, self.y)
        return float(metrics.loss), len(self.x), {"accuracy": float(metrics.accuracy)}


def client_app(model, samples_of, **options):
    """A ClientApp of Flower 1.8 or newer."""
    from flwr.client import ClientApp, NumPyClient

    class Client(GraftClient, NumPyClient):
        pass

    def client_fn(context):
        x, y = samples_of(context)
        return Client(model, x, y, **options).to_client()

    return ClientApp(client_fn=client_fn)
