"""Fine-tunes an example network from numpy arrays by the installed package graft, in the current folder. Needs numpy."""

import os
import subprocess
import sys

import graft
import numpy as np

subprocess.run([os.path.join(os.path.dirname(sys.executable), "graft"), "convert", "--example", "mlp", "-o", "mlp.onnx"], check=True)
graft.convert("mlp.onnx", output="mlp.graft")
model = graft.load("mlp.graft")

# Ten classes: one fixed random image each, with noise.
rng = np.random.default_rng(1)
prototypes = rng.standard_normal((10, 1, 28, 28)).astype(np.float32)


def samples(count):
    labels = rng.integers(0, 10, count)
    return prototypes[labels] + 0.5 * rng.standard_normal((count, 1, 28, 28)).astype(np.float32), labels


images, labels = samples(1024)
held_out, held_out_labels = samples(256)
trainer = model.trainer(learning_rate=1e-3, batch=64)
before = trainer.evaluate(held_out, held_out_labels).accuracy
trainer.fit([(images[i:i + 64], labels[i:i + 64]) for i in range(0, 1024, 64)] * 2)
after = trainer.evaluate(held_out, held_out_labels).accuracy
trainer.store()
model.save("tuned.graft")
print(f"accuracy {before:.2f} before, {after:.2f} after")
if before > 0.5 or after < 0.9:
    raise SystemExit("Training did not raise the accuracy to 0.9.")
logits = graft.load("tuned.graft").run({"image": held_out})["logits"]
if not np.array_equal(logits, model.run({"image": held_out})["logits"]):
    raise SystemExit("The saved network computes something else.")
