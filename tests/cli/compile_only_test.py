"""A device that only compiles: nothing is run, trained or written on it, but plans are made (short_driver.cpp)."""

import json
import os

import cli
from cli import LanguageTest, save_npy

LIBRARY = os.environ.get("GRAFT_TEST_SHORT_DRIVER", "")
ENVIRONMENT = {**os.environ, "GRAFT_TEST_NO_HARDWARE": "1"}


class CompileOnly(LanguageTest):
    def files(self):
        return sorted((folder, sorted(names)) for folder, _, names in os.walk(self.folder))

    def test_nothing_runs_on_it_and_nothing_is_written(self):
        save_npy(self.path("x.npy"), [0.5] * 784 * 4, (4, 1, 28, 28))
        save_npy(self.path("y.npy"), [1, 2, 3, 4], (4,), "q")
        data = ("--data", "npy:x.npy,y.npy")
        before = self.files()
        for command in (("run", "mlp.graft", "--input", "image=x.npy", "--out", "out"),
                        ("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--wrt", "image", "--out", "o"),
                        ("train", "mlp.graft", *data, "--steps", 2, "-o", "trained.graft", "--metrics", "m.jsonl",
                         "--svg", "loss.svg", "--tensorboard", "board", "--checkpoint", "store"),
                        ("train", "mlp.graft", *data, "--steps", 2, "--workers", 2, "--accumulate", 2, "-o", "t.graft"),
                        ("eval", "mlp.graft", *data, "--confusion", "confusion.svg"),
                        ("compare", "mlp.graft", "mlp.graft", *data),
                        ("simulate", "mlp.graft", *data, "--clients", 2, "-o", "trained.graft"),
                        ("generate", "tiny.graft", "--tokens", "1,2", "--max-tokens", 2),
                        ("verify", "mlp.graft"),
                        ("bench", "mlp.graft"),
                        ("bench", "mlp.graft", "--tune"),
                        ("devices", "--self-test")):
            with self.subTest(command=command[0]):
                self.fails(*command, "--vulkan-library", LIBRARY, "--cache", self.path("cache"), env=ENVIRONMENT,
                           says=["only compiles kernels", "nothing runs on it"])
                self.assertEqual(self.files(), before)

    def test_plans_are_made_for_it(self):
        done = self.run_graft("plan", "mlp.graft", "--vulkan-library", LIBRARY, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, self.graft("plan", "mlp.graft"))

    def test_kernels_are_compiled_for_it(self):
        done = self.run_graft("bench", "kernels", "tiny.graft", "--compile-only", "--json", "--vulkan-library", LIBRARY,
                              env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stderr)
        kernels = json.loads(done.stdout)["kernels"]
        used = {plan for kernel in kernels for plan in kernel["used_by"]}
        self.assertEqual(used, {"inference", "decode", "training step"})
        self.assertTrue(all(kernel["compile_seconds"] > 0 and kernel["dispatches"] > 0 for kernel in kernels))
        names = [(kernel["kernel"], str(kernel["constants"])) for kernel in kernels]
        self.assertEqual(len(set(names)), len(names), "each once")
        self.assertIn("adam_step__f32_table", {name for name, _ in names})
        # Any other device may only compile, too.
        here = json.loads(self.graft("bench", "kernels", "tiny.graft", "--compile-only", "--json"))
        self.assertEqual({(k["kernel"], str(k["constants"])) for k in here["kernels"]}, set(names))
        self.fails("bench", "kernels", says=["--compile-only"])
        self.refused("bench", "device", "--compile-only", names="--compile-only")


if __name__ == "__main__":
    cli.main()
