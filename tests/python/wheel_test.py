"""What pip installs runs by itself: the package and its libraries, from a folder that has nothing to do with the build."""

import os
import subprocess
import sys

import support

PROGRAM = """
import graft, graft._c_convert
import os, sys
import numpy as np

here = os.path.dirname(graft.__file__)
with open("/proc/self/maps") as maps:
    loaded = {line.split()[-1] for line in maps if "libgraft" in line}
assert len(loaded) == 2 and all(os.path.dirname(path) == here for path in loaded), loaded
graft.convert("mlp.onnx", output="m.graft")
try:
    context = graft.Context(os.environ.get("GRAFT_TEST_DEVICE"))
except graft.NotFound:
    context = graft.Context("none")
print(context.load("m.graft").inputs[0].shape, graft.__version__)
"""


class Wheel(support.PackageTest):
    def test_it_runs_where_it_is_installed(self):
        self.example()
        for isolation in ([], ["--no-build-isolation"]):
            with self.subTest(isolation=isolation):
                self.check_install(isolation)

    def check_install(self, isolation):
        build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(support.graft.__file__))))
        target = self.path("installed" + "".join(isolation))
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", *isolation, "--no-deps", "--no-index",
             "--disable-pip-version-check", "--break-system-packages", "--root-user-action=ignore", "--target", target,
             f"{support.SOURCE}/platform/python"], env={**os.environ, "GRAFT_BUILD": build}, capture_output=True, text=True)
        if "No module named pip" in done.stderr:
            self.skipTest("pip is not installed")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": target, "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"('batch', 1, 28, 28) {support.graft.__version__}\n")


if __name__ == "__main__":
    support.main()
