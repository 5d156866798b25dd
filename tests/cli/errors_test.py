"""Errors as a user sees them: exit status, one sentence on stderr, and what was there before stays."""

import math
import os
import resource
import stat
import subprocess

import cli
from cli import CliTest, load_npy, save_npy

ABSURD = 4611686018427387904  # 2^62


class Usage(CliTest):
    def test_exit_status_0_for_help_and_2_for_bad_usage(self):
        for arguments in (["--help"], ["--version"], ["run", "--help"], ["devices"]):
            self.graft(*arguments)
        for arguments in ([], ["frobnicate"], ["run"], ["run", "mlp.graft"], ["run", "mlp.graft", "--no-such-flag"],
                          ["train", "mlp.graft"], ["train", "mlp.graft", "--data", "digits:", "--batch", "many"]):
            done = self.run_graft(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertNotEqual(done.stderr + done.stdout, "", arguments)


class BadFiles(CliTest):
    def commands(self, model):
        """Every command that takes a model."""
        return (["info", model], ["plan", model, "--mode", "infer"], ["run", model, "--input", "image=x.npy", "--out", "o"],
                ["grad", model, "--input", "image=x.npy", "--of", "logits", "--wrt", "image", "--out", "o"],
                ["train", model, "--data", "digits:?count=8", "-o", "t.graft"], ["eval", model, "--data", "digits:?count=8"],
                ["verify", model])

    def test_missing_files_are_named(self):
        self.images(1)
        for command in self.commands("nowhere.graft"):
            self.fails(*command, says=["nowhere.graft"])
        self.fails("convert", "nowhere.onnx", "-o", "o.graft", says=["nowhere.onnx"])
        self.fails("run", "mlp.graft", "--input", "image=nowhere.npy", "--out", "o", says=["nowhere.npy"])
        self.fails("train", "mlp.graft", "--data", "npy:nowhere.npy,y.npy", says=["nowhere.npy"])
        self.fails("eval", "mlp.graft", "--data", "idx:nowhere.gz,no.gz", says=["nowhere.gz"])
        self.assertEqual(sorted(os.listdir(self.folder)), ["mlp.graft", "x.npy"])

    def test_truncated_and_foreign_models_are_refused(self):
        self.images(1)
        with open(self.path("mlp.graft"), "rb") as file:
            whole = file.read()
        contents = {"empty": b"", "head": whole[:64], "half": whole[:len(whole) // 2], "less": whole[:-1],
                    "text": b"not a model\n" * 100, "flipped": whole[:100] + bytes([whole[100] ^ 1]) + whole[101:]}
        for name, data in contents.items():
            with open(self.path(f"{name}.graft"), "wb") as file:
                file.write(data)
            for command in self.commands(f"{name}.graft"):
                self.fails(*command, says=[f"{name}.graft"])
        self.assertFalse(os.path.exists(self.path("t.graft")))
        self.fails("info", ".", says=["."])
        self.fails("convert", "text.graft", "-o", "o.graft", says=["text.graft"])
        self.fails("run", "mlp.onnx", "--input", "image=x.npy", "--out", "o", says=["graft convert"])

    def test_bad_arrays_are_refused(self):
        self.images(2)
        with open(self.path("x.npy"), "rb") as file:
            whole = file.read()
        for name, data in {"short": whole[:-4], "empty": b"", "text": b"1,2,3\n", "long": whole + b"\0"}.items():
            with open(self.path(f"{name}.npy"), "wb") as file:
                file.write(data)
            self.fails("run", "mlp.graft", "--input", f"image={name}.npy", "--out", "o", says=[f"{name}.npy"])


class BadRequests(CliTest):
    def setUp(self):
        super().setUp()
        self.images(2)
        save_npy(self.path("flat.npy"), [0.0] * 1568, (2, 784))
        save_npy(self.path("small.npy"), [0.0] * 1458, (2, 1, 27, 27))
        save_npy(self.path("whole.npy"), [0] * 1568, (2, 1, 28, 28), "i")
        save_npy(self.path("dy.npy"), [1.0] * 20, (2, 10))

    def run_fails(self, *arguments, says):
        self.fails("run", "mlp.graft", "--out", "o", *arguments, says=says)

    def grad_fails(self, *arguments, says):
        self.fails("grad", "mlp.graft", "--input", "image=x.npy", "--out", "o", *arguments, says=says)

    def test_run_names_shapes_types_and_inputs(self):
        self.run_fails("--input", "image=small.npy", says=["image", "[2, 1, 28, 28]", "[2, 1, 27, 27]"])
        self.run_fails("--input", "image=flat.npy", says=["image", "28", "[2, 784]"])
        self.run_fails("--input", "image=whole.npy", says=["image", "f32", "i32"])
        self.run_fails("--input", "picture=x.npy", says=["no input", "picture", "image"])
        self.run_fails("--input", "image=x.npy", "--input", "picture=x.npy", says=["picture"])
        self.run_fails("--input", "image=x.npy", "--input", "image=x.npy", says=["twice"])
        self.run_fails("--input", "image", says=["NAME=VALUE"])
        self.run_fails(says=["image", "--input"])
        self.run_fails("--input", "image=x.npy", "--bind", "batch=3", says=["batch", "3", "2"])
        self.run_fails("--input", "image=x.npy", "--bind", "seq=3", says=["seq"])
        self.assertFalse(os.path.exists(self.path("o")))

    def test_grad_says_why_a_gradient_cannot_be(self):
        self.grad_fails("--of", "nothing", "--wrt", "image", says=["nothing", "logits"])
        self.grad_fails("--of", "logits", "--wrt", "nothing", "--cotangent", "dy.npy", says=["nothing"])
        self.grad_fails("--of", "logits", "--wrt", "image", says=["cotangent"])
        self.grad_fails("--of", "logits", "--wrt", "image", "--cotangent", "x.npy", says=["cotangent", "[2, 10]"])
        self.grad_fails("--of", "image", "--wrt", "fc1.weight", "--cotangent", "x.npy", says=["fc1.weight"])
        self.assertFalse(os.path.exists(self.path("o")))

    def test_an_integer_input_has_no_gradient(self):
        # input "ids" (int64 [2]) picks rows of the table: Gather.
        model = onnx_gather()
        with open(self.path("table.onnx"), "wb") as file:
            file.write(model)
        self.graft("convert", "table.onnx", "-o", "table.graft")
        save_npy(self.path("ids.npy"), [1, 0], (2,), "i")
        save_npy(self.path("rows.npy"), [1.0] * 6, (2, 3))
        for train_mode in ([], ["--train-mode"]):
            self.fails("grad", "table.graft", "--input", "ids=ids.npy", "--of", "rows", "--cotangent", "rows.npy",
                       "--wrt", "ids", "--out", "o", *train_mode, says=["ids", "i32"])
            self.graft("grad", "table.graft", "--input", "ids=ids.npy", "--of", "rows", "--cotangent", "rows.npy",
                       "--wrt", "table", "--out", "g", *train_mode)
            self.assertEqual(load_npy(self.path("g/table.npy"), (4, 3)), [1.0] * 6 + [0.0] * 6)

    def test_train_names_what_is_wrong(self):
        train = ("train", "mlp.graft", "-o", "t.graft", "--data")
        self.fails(*train, "nonsense:", says=["nonsense"])
        self.fails(*train, "digits:", "--loss", "nonsense", says=["nonsense"])
        self.refused(*train, "digits:", "--optimizer", "nonsense", names="nonsense")
        self.fails(*train, "digits:", "--loss-of", "nothing", says=["nothing"])
        self.fails(*train, "digits:", "--budget", "1KiB", says=["budget"])
        self.fails(*train, "digits:", "--budget", "much", says=["much"])
        self.fails("train", "mlp.graft", "--data", "digits:", "-o", "nowhere/t.graft", says=["nowhere", "no folder"])
        for option in ("--epochs", "--steps", "--seq"):
            done = self.run_graft(*train, "digits:", option, "0")
            self.assertEqual((done.returncode, "1 or more" in done.stderr), (2, True), option)
        self.labels([0, 10], "y.npy")  # classes are 0 to 9
        self.fails(*train, "npy:x.npy,y.npy", says=["10"])
        self.labels([0], "y.npy")
        self.fails(*train, "npy:x.npy,y.npy", says=["y.npy"])
        self.assertFalse(os.path.exists(self.path("t.graft")))

    def test_absurd_sizes_are_refused_at_once(self):
        says = [str(ABSURD)]
        self.fails("plan", "mlp.graft", "--mode", "infer", "--bind", f"batch={ABSURD}", says=says)
        self.fails("plan", "mlp.graft", "--mode", "train", "--bind", f"batch={ABSURD}", says=says)
        self.fails("info", "mlp.graft", "--bind", f"batch={ABSURD}", says=says)
        self.run_fails("--input", "image=x.npy", "--bind", f"batch={ABSURD}", says=says)
        self.fails("plan", "mlp.graft", "--mode", "infer", "--bind", f"batch={2 ** 64}", says=[str(2 ** 64)])
        for size in ("-1", "0", "1.5", "x", ""):
            self.fails("plan", "mlp.graft", "--mode", "infer", "--bind", f"batch={size}", says=["--bind"])

    def test_nan_is_refused_or_goes_in_and_comes_out(self):
        values = [0.5] * 1568
        values[5] = math.nan  # of sample 0
        save_npy(self.path("x.npy"), values, (2, 1, 28, 28))
        self.run_fails("--input", "image=x.npy", says=['"image"', "nan at [0, 0, 0, 5]"])
        logits = self.outputs("mlp.graft", flags=["--allow-non-finite"])
        self.assertTrue(all(map(math.isnan, logits[:10])), logits)
        self.assertTrue(all(map(math.isfinite, logits[10:])), logits)
        for value in (math.inf, -math.inf, 3e38):
            save_npy(self.path("x.npy"), [value] * 1568, (2, 1, 28, 28))
            self.assertEqual(len(self.outputs("mlp.graft", flags=["--allow-non-finite"])), 20)


class FullDisk(CliTest):
    """No space is left: the old file stays, byte for byte, and nothing half-written beside it."""

    def every_writer(self, folder, **options):
        self.images(4)
        self.labels([0, 1, 2, 3])
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")  # another model than the old file's
        train = ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--quiet"]
        self.graft(*train, "--lora", "r=2", "-o", "adapter.graft")
        self.graft(*train, "--checkpoint", "store")
        target = os.path.join(folder, "old.graft")
        with open(target, "rb") as file:
            before = file.read()
        restore = ["checkpoint", "restore", "store", 1, "--model", "mlp.graft"]
        for command in (["convert", "lenet.onnx", "-o", target], [*train, "-o", target],
                        ["export", "mlp.graft", "--format", "safetensors", "-o", target],
                        ["merge", "mlp.graft", "--adapter", "adapter.graft", "-o", target], [*restore, "-o", target],
                        ["checkpoint", "export", "store", 1, "-o", target]):
            self.fails(*command, says=["old.graft"], **options)
            with open(target, "rb") as file:
                self.assertEqual(file.read(), before, command)
            self.assertEqual(os.listdir(folder), ["old.graft"], command)
        self.graft("info", target)

    def test_a_limit_on_the_size_of_files(self):
        os.mkdir(self.path("full"))
        with open(self.path("mlp.graft"), "rb") as old, open(self.path("full/old.graft"), "wb") as new:
            new.write(old.read())

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        # Python ignores SIGXFSZ; left so, a write beyond the limit is an error, not a signal.
        self.every_writer(self.path("full"), preexec_fn=limit, restore_signals=False)

    def test_pictures_and_traces_are_the_old_ones_or_whole(self):
        self.images(4)
        self.labels([0, 1, 2, 3])
        train = ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", "3", "--quiet"]
        self.graft(*train)  # what is remembered of the device is written by now

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))

        for command in (["plan", "mlp.graft", "--mode", "infer", "--svg", "old"],
                        ["plan", "mlp.graft", "--mode", "infer", "--html", "old"], [*train, "--svg", "old"],
                        [*train, "--profile", "old"]):
            with open(self.path("old"), "w") as file:
                file.write("what was there")
            before = os.listdir(self.folder)
            self.fails(*command, says=["old"], preexec_fn=limit, restore_signals=False)
            with open(self.path("old")) as file:
                self.assertEqual(file.read(), "what was there", command)
            self.assertEqual(os.listdir(self.folder), before, command)

    def test_a_full_file_system(self):
        size = os.path.getsize(self.path("mlp.graft"))
        folder = self.path("full")
        os.mkdir(folder)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={size + 100_000}", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        with open(self.path("mlp.graft"), "rb") as old, open(f"{folder}/old.graft", "wb") as new:
            new.write(old.read())
        self.every_writer(folder)

    def test_a_full_device(self):
        # A node of its own: a test that fails must not put a file in the place of the machine's.
        full = self.path("full")
        try:
            os.mknod(full, stat.S_IFCHR | 0o666, os.stat("/dev/full").st_rdev)
        except OSError as refusal:
            self.skipTest(f"a device cannot be made here: {refusal}")
        self.images(4)
        self.labels([0, 1, 2, 3])
        train = ("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--quiet")
        self.fails(*train, "-o", full, says=[full])
        self.fails(*train, "--metrics", full, says=[full])
        self.fails("convert", "--example", "lenet", "-o", full, says=[full])
        self.assertTrue(stat.S_ISCHR(os.stat(full).st_mode))

    def test_results_that_cannot_be_printed(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([cli.GRAFT, "info", self.path("mlp.graft"), "--json"], stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=cli.TIMEOUT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("graft: ", done.stderr)


def field(number, contents):
    if isinstance(contents, int):
        return bytes([number << 3, contents])
    contents = contents.encode() if isinstance(contents, str) else contents
    assert len(contents) < 128
    return bytes([number << 3 | 2, len(contents)]) + contents


def onnx_gather():
    """rows [2, 3] = Gather(table [4, 3], ids int64 [2]) as an ONNX file."""
    def value(name, kind, dims):
        shape = b"".join(field(1, field(1, n)) for n in dims)
        return field(1, name) + field(2, field(1, field(1, kind) + field(2, shape)))

    table = field(1, 4) + field(1, 3) + field(2, 1) + field(8, "table") + field(9, bytes(range(48)))
    node = field(1, "table") + field(1, "ids") + field(2, "rows") + field(3, "pick") + field(4, "Gather")
    # A graph of more than 127 bytes: its length takes two.
    graph = (field(1, node) + field(2, "g") + field(5, table) + field(11, value("ids", 7, [2])) +
             field(12, value("rows", 1, [2, 3])))
    length = bytes([len(graph) & 127 | 128, len(graph) >> 7])
    return field(1, 8) + bytes([7 << 3 | 2]) + length + graph + field(8, field(2, 13))


if __name__ == "__main__":
    cli.main()
