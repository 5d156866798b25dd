"""Stores and what is kept of them: the page on their format against what graft writes, and verify's words for one damage."""

import json
import os
import re
import subprocess
import sys

import cli

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def tensors(path):
    """By name: type, shape and bytes of a safetensors file; and its metadata."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    metadata = header.pop("__metadata__")
    return {name: (one["dtype"], one["shape"], data[slice(*one["data_offsets"])]) for name, one in header.items()}, metadata


class StorePageTest(cli.CliTest):
    def agree(self, store, number):
        """The reader that was written from the page alone gives the tensors that graft exports."""
        reader = os.path.join(ROOT, "tools/dev/read_checkpoint.py")
        done = subprocess.run([sys.executable, "-B", reader, self.path(store), str(number), self.path("page.safetensors")],
                              capture_output=True, text=True, timeout=cli.TIMEOUT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.graft("checkpoint", "export", store, number, "-o", "graft.safetensors")
        page, graft = tensors(self.path("page.safetensors")), tensors(self.path("graft.safetensors"))
        self.assertEqual(page[1], graft[1])
        self.assertEqual({name: one[:2] for name, one in page[0].items()}, {name: one[:2] for name, one in graft[0].items()})
        self.assertEqual(page[0], graft[0])
        return page[0]

    def flip_a_bit(self, store, number=1):
        """Of byte 200 of a segment, whose path is returned."""
        path = self.path(f"{store}/segment-{number:016x}")
        with open(path, "r+b") as file:
            file.seek(200)
            byte = file.read(1)[0]
            file.seek(200)
            file.write(bytes([byte ^ 4]))
        return path

    def test_the_pages_own_example(self):
        with open(os.path.join(ROOT, "schema/CHECKPOINT_FORMAT.md")) as file:
            blocks = re.findall(r"```hex (\S+)\n(.*?)```", file.read(), re.S)
        self.assertEqual(len(blocks), 5)
        os.mkdir(self.path("store"))
        for name, text in blocks:
            with open(self.path(f"store/{name}"), "wb") as file:
                file.write(bytes.fromhex(text))
        self.assertEqual(self.agree("store", 1), {"w": ("F32", [1, 2], bytes.fromhex("0000803f00000040"))})

    def test_a_network_with_other_axes(self):
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.graft("train", "lenet.graft", "--data", "digits:?count=40", "--batch", 8, "--steps", 3, "--checkpoint", "store",
                   "--checkpoint-every", 1, "--quiet")
        numbers = [one["number"] for one in json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"]]
        for number in (numbers[0], numbers[-1]):
            found = self.agree("store", number)
            self.assertTrue(any(name.endswith("/exp_avg") for name in found), sorted(found))
        # As the model has them, whose shapes are the source's.
        self.graft("checkpoint", "restore", "store", numbers[-1], "--model", "lenet.graft", "-o", "restored.graft")
        shapes = {one["name"]: one["shape"] for one in json.loads(self.graft("info", "restored.graft", "--json"))["parameters"]}
        for name, shape in shapes.items():
            self.assertEqual(str(found[name][1]), shape, name)

    def test_one_flipped_bit_is_one_problem(self):
        self.graft("train", "mlp.graft", "--data", "digits:?count=100", "--batch", 10, "--steps", 9, "--checkpoint", "store",
                   "--checkpoint-every", 1, "--keep", 20, "--quiet")
        numbers = [one["number"] for one in json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"]]
        self.assertGreater(len(numbers), 2)  # a snapshot is skipped while the one before is being written
        first = self.flip_a_bit("store", numbers[0])
        done = self.run_graft("checkpoint", "verify", "store")
        self.assertEqual(done.returncode, 1)
        lines = done.stdout.splitlines()
        self.assertRegex(done.stderr, r'"store" has 1 problem\.\n\Z')
        self.assertEqual(len(lines), 2, done.stdout)
        self.assertRegex(lines[0], r"segment 1 .*\. \d+ snapshots depend on it: 1, 2, ")
        os.remove(first)
        done = self.run_graft("checkpoint", "verify", "store")
        self.assertEqual(len(done.stdout.splitlines()), 2, done.stdout)

    def test_exports_are_what_their_names_say(self):
        self.graft("train", "mlp.graft", "--data", "digits:?count=20", "--steps", 1, "--checkpoint", "store", "--quiet")
        for name in ("x.gguf", "x.onnx", "x.npz", "x.graft", "x.pt"):
            self.fails("checkpoint", "export", "store", 1, "-o", name, says=["safetensors", name])
            self.assertFalse(os.path.exists(self.path(name)))
        restore = ("checkpoint", "restore", "store", 1, "--model", "mlp.graft", "-o")
        train = ("train", "mlp.graft", "--data", "digits:?count=20", "--steps", 1, "--quiet", "-o")
        for command in (restore, train):
            for name in ("x.gguf", "x.safetensors"):
                self.fails(*command, name, says=[name, ".graft"])

    def test_tags(self):
        self.graft("train", "mlp.graft", "--data", "digits:?count=100", "--batch", 10, "--steps", 4, "--checkpoint", "store",
                   "--checkpoint-every", 1, "--keep", 9, "--quiet")
        rows = json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"]
        first, last = rows[0], rows[-1]
        self.assertGreater(len(rows), 1)
        self.fails("checkpoint", "tag", "store", first["number"], last["number"], says=[f'"{last["number"]}"', "digits"])
        said = self.graft("checkpoint", "restore", "store", last["number"], "--model", "mlp.graft", "-o", "o.graft")
        self.assertIn(f"step {last['step']}.", said)
        for number in (first["number"], last["number"], first["number"]):
            self.graft("checkpoint", "tag", "store", number, "best")
            rows = json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"]
            self.assertEqual([row["number"] for row in rows if row["tags"]], [number])


if __name__ == "__main__":
    cli.main()
