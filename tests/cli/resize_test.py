"""A classifier gets another number of classes: the file, labels by name, a run that goes on, exports.

Usage: resize_test.py GRAFT [-v] [TEST ...]
"""

import shutil

import cli
import files


class Resize(cli.CliTest):
    def tensors(self, model):
        self.graft("export", model, "-o", "out.safetensors")
        return {name: (shape, files.floats(raw))
                for name, (kind, shape, raw) in files.load_safetensors(self.path("out.safetensors")).items()}

    def test_old_rows_stay_and_new_labels_are_taken(self):
        before = self.tensors("mlp.graft")
        said = self.graft("resize", "mlp.graft", "--classes", 12, "--seed", 3, "-o", "wide.graft")
        self.assertEqual(said, "Wrote wide.graft, with 12 classes.\n")
        after = self.tensors("wide.graft")
        changed = {name for name in before if before[name] != after[name]}
        self.assertEqual(len(changed), 2)  # the last layer's weight and bias
        for name in changed:
            shape, numbers = after[name]
            old = before[name][1]
            self.assertEqual(shape[0], 12)
            self.assertEqual(numbers[:len(old)], old)
            self.assertGreater(len(set(numbers[len(old):])), 1)
        self.graft("resize", "mlp.graft", "--classes", 12, "--seed", 3, "-o", "again.graft")
        with open(self.path("wide.graft"), "rb") as one, open(self.path("again.graft"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        images = cli.random_floats(4 * 784, 1)
        cli.save_npy(self.path("x.npy"), images, (4, 1, 28, 28))
        for model, last, good in (("mlp.graft", 11, False), ("wide.graft", 11, True), ("wide.graft", 12, False)):
            cli.save_npy(self.path("y.npy"), [0, 1, 2, last], (4,), "i")
            train = ("train", model, "--data", "npy:x.npy,y.npy", "--batch", 4, "--steps", 1, "--quiet", "-o", "t.graft")
            if good:
                self.graft(*train)
            else:
                self.fails(*train, says=[str(last)])
        self.graft("export", "wide.graft", "-o", "wide.onnx")
        self.graft("convert", "--example", "mlp", "-o", "mlp.onnx")
        self.fails("export", "wide.graft", "-o", "x.onnx", "--source", "mlp.onnx", says=["[12, ", "without --source"])
        self.graft("convert", "wide.onnx", "-o", "back.graft")
        self.assertIn("[batch, 12]", self.graft("info", "back.graft"))

    def test_a_run_goes_on(self):
        images = cli.random_floats(8 * 784, 2)
        cli.save_npy(self.path("x.npy"), images, (8, 1, 28, 28))
        cli.save_npy(self.path("y.npy"), [0, 1, 2, 3, 4, 5, 6, 7], (8,), "i")
        train = ("train", "--data", "npy:x.npy,y.npy", "--batch", 4, "--no-shuffle", "--lr", "0.01",
                 "--checkpoint", "run", "--checkpoint-every", 2, "--quiet")
        self.graft(train[0], "mlp.graft", *train[1:], "--steps", 4, "-o", "t.graft")
        self.graft("resize", "mlp.graft", "--classes", 11, "-o", "wide.graft")
        self.fails(train[0], "wide.graft", *train[1:], "--steps", 6, "-o", "w.graft", says=["run"])  # without --resume
        done = self.run_graft(train[0], "wide.graft", *train[1:], "--resume", "--steps", 6, "-o", "w.graft")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("widened since snapshot", done.stderr)
        shutil.copytree(self.path("run"), self.path("copy"))
        self.graft(train[0], "wide.graft", *train[1:], "--resume", "--steps", 8, "-o", "whole.graft")
        again = [arg if arg != "run" else "copy" for arg in train[1:]]
        self.graft(train[0], "wide.graft", *again, "--resume", "--steps", 8, "-o", "again.graft")
        with open(self.path("whole.graft"), "rb") as one, open(self.path("again.graft"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.fails(train[0], "mlp.graft", *train[1:], "--resume", "--steps", 9, "-o", "x.graft", says=["another head"])

    def test_names_keep_their_numbers(self):
        self.fails("resize", "mlp.graft", "--classes", 10, "-o", "x.graft", says=["has 10 classes, and 10 were asked for"])
        self.fails("resize", "mlp.graft", "--classes", 12, "--head", "nothing", "-o", "x.graft", says=["nothing", "logits"])
        self.fails("resize", "mlp.graft", "--classes", 12, "--class-names", "a", "-o", "x.graft", says=["1 names for 2 new"])
        self.graft("resize", "mlp.graft", "--classes", 2, "--replace", "--class-names", "owl,lynx", "-o", "two.graft")
        self.fails("resize", "two.graft", "--classes", 3, "-o", "x.graft", says=["2 classes by their names"])
        self.graft("resize", "two.graft", "--classes", 3, "--class-names", "adder", "-o", "three.graft")
        # The new class comes first in the alphabet, and last among the model's.
        with open(self.path("rows.csv"), "w") as out:
            out.write("kind," + ",".join(f"p{i}" for i in range(784)) + "\n")
            for kind in ("adder", "owl", "lynx", "adder"):
                out.write(kind + "," + ",".join(f"{number:.4f}" for number in cli.random_floats(784, 5)) + "\n")
        said = self.graft("train", "three.graft", "--data", "csv:rows.csv?label=kind", "--batch", 4, "--steps", 1,
                          "--quiet", "-o", "t.graft")
        self.assertIn("t.graft", said)
        self.assertIn('["owl","lynx","adder"]', self.graft("info", "t.graft", "--json").replace(" ", "").replace('\\"', '"'))


if __name__ == "__main__":
    cli.main()
