"""Kernels as the compilers of phones' and AMD's GPUs make them, without those GPUs: none spills or fails to compile.

Label compilers. GRAFT_PHONE_COMPILERS names a build of Mesa's freedreno driver with its no-hardware shim (meson setup
-Dvulkan-drivers=freedreno -Dtools=drm-shim); what is not there is skipped. AMD's needs Debian's mesa-vulkan-drivers.
"""

import glob
import json
import os
import sys

import cli
from cli import CliTest

MESA = os.environ.get("GRAFT_PHONE_COMPILERS", "")
SHIM = glob.glob(f"{MESA}/src/freedreno/drm-shim/libfreedreno_noop_drm_shim.so") if MESA else []
TURNIP = glob.glob(f"{MESA}/src/freedreno/vulkan/libvulkan_freedreno.so") if MESA else []
RADV = glob.glob("/usr/share/vulkan/icd.d/radeon_icd.*.json")
# Multiply-adds per instruction in the inner loop of the product, which were 0.22 with loads of single numbers.
LEAST_ADRENO = 0.4
LEAST_AMD = 0.5  # of the whole loop over blocks; 0.48 was the loop within a block alone, without loads from memory


class Compilers(CliTest):
    def setUp(self):
        super().setUp()
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")

    def kernels(self, name, environment):
        done = self.run_graft("bench", "kernels", "lenet.graft", "--compile-only", "--batch", 32, "--json",
                              env={**os.environ, **environment, "MESA_SHADER_CACHE_DISABLE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)  # nor does any kernel spill or use scratch memory
        out = json.loads(done.stdout)
        self.assertIn(name, out["device"])
        self.assertNotIn("untold", out)
        for kernel in out["kernels"]:
            with self.subTest(kernel=kernel["kernel"]):
                self.assertGreater(kernel["instructions"], 0)
                self.assertGreater(kernel["registers"], 0)
                self.assertEqual(kernel["spills"], 0)
        return out["kernels"]

    def product(self, kernels):
        """Multiply-adds per instruction in the inner loop of the best product: others lack whole fours."""
        loops = [k["inner_loop"] for k in kernels if k["kernel"].startswith("matmul__f32") and "inner_loop" in k]
        return max(loop["products"] / loop["instructions"] for loop in loops)

    def test_adreno(self):
        if not TURNIP or not SHIM:
            self.skipTest("GRAFT_PHONE_COMPILERS names no build of Mesa's freedreno driver with its shim")
        with open(self.path("icd.json"), "w") as icd:
            json.dump({"file_format_version": "1.0.0", "ICD": {"api_version": "1.3.0", "library_path": TURNIP[0]}}, icd)
        for gpu in (630, 660, 730, 740, 750):
            with self.subTest(gpu=gpu):
                kernels = self.kernels(f"Adreno (TM) {gpu}", {
                    "FD_GPU_ID": str(gpu), "LD_PRELOAD": SHIM[0],
                    "VK_DRIVER_FILES": self.path("icd.json"), "VK_ICD_FILENAMES": self.path("icd.json")})
                self.assertGreater(self.product(kernels), LEAST_ADRENO)

    def test_amd(self):
        if not RADV:
            self.skipTest("Debian's mesa-vulkan-drivers is not here")
        for gpu in ("navi21", "gfx1100", "vega10", "polaris10"):
            with self.subTest(gpu=gpu):
                kernels = self.kernels(gpu.upper(), {"RADV_FORCE_FAMILY": gpu, "VK_DRIVER_FILES": RADV[0],
                                                     "VK_ICD_FILENAMES": RADV[0]})
                self.assertGreater(self.product(kernels), LEAST_AMD)


if __name__ == "__main__":
    if not TURNIP and not RADV:
        print("skipped: there is no compiler of another GPU here (GRAFT_PHONE_COMPILERS, mesa-vulkan-drivers)")
        sys.exit(cli.NO_DEVICE)
    cli.main()
