"""graft recipes: the list, what get writes and refuses, and each recipe from end to end with little training.

Usage: recipes_test.py GRAFT [-v] [TEST ...]. A recipe whose data are downloaded takes them from GRAFT_TEST_DATA (or
shared/data next to the repository) and is skipped without. Bounds are far from what was measured: they tell a recipe that
works from one that does not, on every device.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

import cli  # noqa: E402

DATA = pathlib.Path(os.environ.get("GRAFT_TEST_DATA", ROOT / "../shared/data")).resolve()
RECIPES = ROOT / "tools/graft/recipes"
FACTS = ["data", "license", "size", "sha256", "memory", "time", "result", "measured"]


class RecipesTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("bin"))
        os.symlink(cli.GRAFT, self.path("bin/graft"))

    def data(self, name):
        if not (DATA / name).is_dir():
            self.skipTest(f"{DATA / name} is not there")
        return str(DATA / name)

    def run_recipe(self, name, folder="recipe", fails=False, **environment):
        """Writes the recipe and runs it as the last line says; returns what it prints, and its errors at the end."""
        said = self.graft("recipes", "get", name, folder)
        command = said.splitlines()[-1].removeprefix("Next: ")
        done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, timeout=600,
                              env=dict(os.environ, PATH=f"{self.path('bin')}:{os.environ['PATH']}", GRAFT_RECIPE_SMALL="1",
                                       **environment))
        self.assertEqual(done.returncode != 0, fails, f"{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def accuracies(self, said):
        """Of the lines of graft eval, in percent."""
        return [float(percent) for percent in re.findall(r"^loss .*accuracy ([\d.]+)%", said, re.M)]


class Command(RecipesTest):
    def test_list(self):
        recipes = json.loads(self.graft("recipes", "--json"))
        listed = self.graft("recipes")
        sources = {path.name: path for path in RECIPES.iterdir() if path.is_dir()}
        self.assertEqual([recipe["name"] for recipe in recipes], sorted(sources))
        for recipe in recipes:
            with self.subTest(recipe["name"]):
                self.assertEqual(recipe["files"], sorted(["common.sh", *(path.name for path in sources[recipe["name"]].iterdir())]))
                self.assertEqual([fact for fact in recipe if fact in FACTS], FACTS)
                self.assertTrue(all(recipe[fact] for fact in FACTS))
                for shown in (recipe["name"], recipe["title"], recipe["memory"], recipe["time"]):
                    self.assertIn(shown, listed)
        self.assertIn("graft recipes get NAME DIR", listed)

    def test_get_writes_the_files_and_replaces_none(self):
        said = self.graft("recipes", "get", "add-class", "a folder/inner")
        self.assertEqual(said, "Wrote a folder/inner: README.md, common.sh, run.sh, train.json.\nNext: sh 'a folder/inner/run.sh'\n")
        for file in [RECIPES / "common.sh", *(RECIPES / "add-class").iterdir()]:
            self.assertEqual(pathlib.Path(self.path("a folder/inner"), file.name).read_bytes(), file.read_bytes())
        self.fails("recipes", "get", "add-class", "a folder/inner", says=["README.md\" exists already"])
        os.remove(self.path("a folder/inner/README.md"))
        self.fails("recipes", "get", "add-class", "a folder/inner", says=["common.sh\" exists already"])
        self.assertFalse(os.path.exists(self.path("a folder/inner/README.md")))

    def test_what_is_unknown(self):
        self.fails("recipes", "get", "add-clas", "x", says=["There is no recipe \"add-clas\"; did you mean add-class?"])
        self.fails("recipes", "get", "frobnicate", "x", says=["There is no recipe \"frobnicate\".", "graft recipes lists all"])
        self.assertFalse(os.path.exists(self.path("x")))
        self.refused("recipes", "get", "add-class", names="DIR is required")
        self.refused("recipes", "gte", names="did you mean get?")

    def test_scripts_are_posix_shell(self):
        for script in RECIPES.glob("**/*.sh"):
            done = subprocess.run(["sh", "-n", script], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), script)

    def test_damaged_data_are_refused(self):
        data = pathlib.Path(self.data("sensor-ucr-uea"), "BasicMotions_TRAIN.ts").read_bytes()
        pathlib.Path(self.path("BasicMotions_TRAIN.ts")).write_bytes(data[:-1])
        said = self.run_recipe("watch-gestures", fails=True, DATA=self.folder)
        self.assertIn("BasicMotions_TRAIN.ts is not the file that this recipe was measured with", said)


class Recipe(RecipesTest):
    def test_add_class(self):
        before, after, all_classes = self.accuracies(self.run_recipe("add-class"))
        # 9 of 10 samples that a guess would get wrong; 10% is a guess, and a forgotten class costs ten points.
        self.assertGreater(before, 85)
        self.assertGreater(after, before - 10)
        self.assertGreater(all_classes, 85)
        self.assertIn("<svg", pathlib.Path(self.path("recipe/confusion.svg")).read_text())

    def test_gate_and_roll_back(self):
        said = self.run_recipe("gate-and-roll-back")
        self.assertIn("The gate holds. Wrote live.graft.", said)
        self.assertIn("live.graft is the released model again", said)
        with open(self.path("recipe/live.graft.gate.json")) as file:
            self.assertFalse(json.load(file)["passed"])
        data = ["--data", "digits:?split=test&count=200", "--json"]
        refused, released, passed = (json.loads(self.graft("eval", f"recipe/{name}.graft", *data))["accuracy"]
                                     for name in ("live.rejected", "live", "before"))
        # A rate of 1 leaves a guess. The update that passed may be worse by the margin, and 200 samples are few.
        self.assertLess(refused, 0.5)
        self.assertGreater(released, 0.85)
        self.assertGreater(passed, released - 0.03)

    def test_federated_digits(self):
        said = self.run_recipe("federated-digits")
        rounds = [float(percent) for percent in re.findall(r"^round .*accuracy ([\d.]+)%", said, re.M)]
        self.assertEqual(len(rounds), 4)
        self.assertLess(rounds[0], 30)  # untrained
        self.assertGreater(rounds[-1], 70)
        self.assertGreater(self.accuracies(said)[-1], rounds[-1] - 10)  # a round by hand does not undo it
        delta, model = (os.path.getsize(self.path(f"recipe/{name}")) for name in ("mine.delta", "digits.graft"))
        self.assertLess(delta, model / 3)  # a byte for each weight of four

    def test_fits_phone(self):
        said = self.run_recipe("fits-phone")
        self.assertIn("It fits Adreno 630", said)
        self.assertIn("graft: Training does not fit a budget of 64.00 MiB", said)
        total, budget, last = (int(number.replace(",", "")) for number in re.findall(r"^  total .*  ([\d,]+)$", said, re.M))
        self.assertGreater(total, 256 << 20)
        self.assertLessEqual(budget, 256 << 20)
        self.assertLessEqual(last, 64 << 20)
        self.assertIn("<svg", pathlib.Path(self.path("recipe/memory.html")).read_text())

    def test_sensor_forecast(self):
        said = self.run_recipe("sensor-forecast")
        yesterday, now, network = (float(number) for number in re.findall(r"(?:yesterday\"|now\"|network): ([\d.]+)", said))
        self.assertLess(yesterday, now)  # the series has days
        self.assertLess(network, 0.9 * yesterday)
        pathlib.Path(self.path("mine.txt")).write_text("".join(f"{hour % 24}\n" for hour in range(600)))
        self.assertIn('"as yesterday": 0.00;', self.run_recipe("sensor-forecast", "mine", READINGS=self.path("mine.txt")))

    def test_watch_gestures(self):
        data = self.data("sensor-ucr-uea")
        said = self.run_recipe("watch-gestures", DATA=data)
        self.assertGreater(self.accuracies(said)[-1], 80)  # 25 is a guess
        budget, taken = 512, float(re.search(r"([\d.]+) KiB of device memory", said)[1])
        self.assertLessEqual(taken, budget)

    def test_spoken_commands(self):
        with tarfile.open(pathlib.Path(self.data("audio-fsdd-digits"), "recordings.tar.gz")) as archive:
            archive.extractall(self.path("speech"))
        before, after, _, both = self.accuracies(self.run_recipe("spoken-commands", DATA=self.path("speech")))
        self.assertGreater(after, before + 15)
        self.assertGreater(both, 60)  # 10 is a guess

    def test_photo_sorter(self):
        with tarfile.open(pathlib.Path(self.data("img-cifar10-jpg"), "cifar10-jpg.tar.gz")) as archive:
            archive.extractall(self.path("photos"))
        network = "pretrainedResnet.tflite"
        pathlib.Path(self.path("photos"), network).write_bytes(pathlib.Path(self.data("tflite-mlperf-tiny"), network).read_bytes())
        said = self.run_recipe("photo-sorter", DATA=self.path("photos"))
        self.assertGreater(self.accuracies(said)[-1], 60)  # 33 is a guess
        self.assertLess(float(re.search(r"Training 2 tensors .*: ([\d.]+) MiB", said)[1]), 64)

    def test_defects(self):
        said = self.run_recipe("defects")
        self.assertGreater(self.accuracies(said)[-1], 80)  # 50 is a guess
        self.assertEqual(len(list(pathlib.Path(self.path("recipe/pictures/train")).glob("*/*.bmp"))), 40)

    def test_keyboard(self):
        said = self.run_recipe("keyboard", MODEL=self.data("llm-tinystories-656k"), DATA=self.data("text-tinyshakespeare"))
        before = [float(number) for number in re.findall(r"^before: .*perplexity ([\d.]+)", said, re.M)]
        after = [float(number) for number in re.findall(r"^  after it: .*perplexity ([\d.]+)", said, re.M)]
        self.assertEqual((len(before), len(after)), (3, 3))
        self.assertLess(after[0], 0.8 * before[0])  # 0.73 of it, after a night over 200 lines
        # A night begins with the adapter of the night before, or with the one before that, where the gate refused.
        for night in (1, 2):
            self.assertAlmostEqual(before[night], min(before[night - 1], after[night - 1]), delta=1e-3 * before[night])
        self.assertTrue(os.path.exists(self.path("recipe/keyboard.graft")))

    def test_notes_search(self):
        said = self.run_recipe("notes-search", MODEL=self.data("llm-tinystories-656k"), DATA=self.data("text-instruct-rasbt"))
        found = [float(percent) for percent in re.findall(r"held-out .*accuracy ([\d.]+)%", said)]
        self.assertGreater(found[-1], found[0] + 5)  # of 20 notes each
        self.assertEqual(len(re.findall(r"^-?[01]\.\d{3} \S", said, re.M)), 3)
        # A note finds itself.
        with open(self.path("recipe/notes.jsonl")) as file:
            note = next(text for text in (json.loads(line)["text"] for line in file) if not re.search(r"[\"\\\\]", text))
        done = subprocess.run(["sh", self.path("recipe/search.sh"), note], capture_output=True, text=True,
                              env=dict(os.environ, PATH=f"{self.path('bin')}:{os.environ['PATH']}"))
        self.assertIn(f"1.000 {note}", done.stdout.splitlines()[1], done.stderr)

    def test_lora_smollm2(self):
        said = self.run_recipe("lora-smollm2", MODEL=self.data("llm-tinystories-656k"), DATA=self.data("text-instruct-rasbt"),
                               BUDGET="8MiB")
        held_out = [float(number) for number in re.findall(r"held-out .*perplexity ([\d.]+)", said)]
        self.assertLess(held_out[-1], 0.8 * held_out[0])
        self.assertLessEqual(float(re.search(r"([\d.]+) MiB of device memory", said)[1]), 8)
        self.assertTrue(os.path.exists(self.path("recipe/peft/adapter_model.safetensors")))
        self.assertEqual(pathlib.Path(self.path("recipe/adapter.gguf")).read_bytes()[:4], b"GGUF")


if __name__ == "__main__":
    cli.main()
