"""A memory of examples: adding, listing, erasing and exporting records, and training that mixes them in.

Usage: memory_file_test.py GRAFT [-v] [TEST ...]
"""

import array
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import cli  # noqa: E402


class MemoryFile(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.images = cli.random_floats(24 * 784, 1)
        self.save("old", range(0, 12))
        self.save("new", range(12, 24))

    def save(self, name, rows):
        rows = list(rows)
        cli.save_npy(self.path(f"{name}_x.npy"), [v for row in rows for v in self.images[784 * row:784 * (row + 1)]], (len(rows), 1, 28, 28))
        cli.save_npy(self.path(f"{name}_y.npy"), [row % 3 for row in rows], (len(rows),), "i")

    def add(self, *more, name="old"):
        return self.graft("memory", "add", "m", "--data", f"npy:{name}_x.npy,{name}_y.npy", "--model", "mlp.graft", *more)

    def rows(self):
        return json.loads(self.graft("memory", "list", "m", "--json"))

    def info(self):
        return json.loads(self.graft("memory", "info", "m", "--json"))

    def test_records_come_and_go(self):
        said = self.add("--prefix", "note-", "--held-out", "0.3", "--seed", 2)
        self.assertRegex(said, r"^12 of 12 samples are in the memory, which has 12 records and 38.14 KiB\.\n$")
        self.assertEqual([row["id"] for row in self.rows()], sorted(f"note-{i}" for i in range(12)))
        self.assertEqual({row["id"]: row["class"] for row in self.rows()}["note-5"], 2)
        held_out = [row["id"] for row in self.rows() if row["part"] == "held out"]
        self.assertEqual(len(held_out), self.info()["held_out"])
        self.assertGreater(len(held_out), 0)
        self.assertIn("note-3", self.graft("memory", "list", "m"))
        self.assertIn("12 records, of which", self.graft("memory", "info", "m"))
        # The same once more changes nothing; other contents of an id are refused.
        self.add("--prefix", "note-")
        self.assertEqual(self.info()["records"], 12)
        self.fails("memory", "add", "m", "--data", "npy:new_x.npy,new_y.npy", "--model", "mlp.graft", "--prefix", "note-",
                   says=['has a record "note-0" with another sample'])
        self.assertEqual(self.graft("memory", "remove", "m", "note-3", "note-4"), "Erased 2 records; 10 are left.\n")
        self.fails("memory", "remove", "m", "note-3", says=['The memory has no record "note-3".'])
        with open(self.path("m"), "rb") as file:
            self.assertNotIn(b"note-3", file.read())
        self.assertEqual(self.graft("memory", "expire", "m"), "Erased 0 records; 10 are left.\n")

    def test_a_full_memory_evicts_by_class(self):
        self.add("--records", 6, "--policy", "age", "--prefix", "r", "--held-out", 0)
        self.assertEqual([row["id"] for row in self.rows()], ["r10", "r11", "r6", "r7", "r8", "r9"])

    def test_only_what_may_leave_is_exported(self):
        self.add("--prefix", "a")
        self.fails("memory", "export", "m", "-o", "out", says=["holds no record that may be exported"])
        self.add("--prefix", "b", "--may", "export", "--expires", 30, name="new")
        said = self.graft("memory", "export", "m", "-o", "out")
        self.assertEqual(said, "Wrote 12 records to out: 3 files.\n")
        with open(self.path("out/records.json"), encoding="utf-8") as file:
            records = json.load(file)
        self.assertEqual([one["id"] for one in records], sorted(f"b{i}" for i in range(12)))
        names = [name for name in os.listdir(self.path("out")) if name.endswith(".npy")]
        self.assertEqual(len(names), 2)
        image = next(name for name in names if len(cli.npy_shape(self.path("out/" + name))) > 1)
        second = cli.load_npy(self.path("out/" + image))[784:2 * 784]
        row = 12 + int(records[1]["id"][1:])
        self.assertEqual(second, array.array("f", self.images[784 * row:784 * (row + 1)]).tolist())
        self.assertTrue(all(row["part"] == "none" for row in self.rows() if row["id"].startswith("b")))
        self.fails("memory", "add", "m", "--data", "npy:new_x.npy,new_y.npy", "--may", "sell", says=['"sell" is none of these'])

    def train(self, *more, output="t.graft"):
        self.graft("train", "mlp.graft", "--data", "npy:new_x.npy,new_y.npy", "--batch", 4, "--epochs", 2, "--quiet", "-o", output, *more)
        with open(self.path(output), "rb") as file:
            return file.read()

    def test_training_mixes_it_in_and_forgets_what_is_erased(self):
        known = {}
        for row in range(12):  # ids are hashes of contents
            self.save("one", [row])
            self.add("--held-out", "0.2", name="one")
            known[next(one["id"] for one in self.rows() if one["id"] not in known)] = row
        mixed = ("--memory", "m", "--memory-share", "0.5")
        before = self.train(*mixed)
        self.assertNotEqual(before, self.train("--keyed-order"))
        self.assertEqual(before, self.train(*mixed))
        gone = next(row["id"] for row in self.rows() if row["part"] == "training")
        self.graft("memory", "remove", "m", gone)
        after = self.train(*mixed)
        self.assertNotEqual(before, after)
        # A memory that never had the record, filled in another order.
        os.remove(self.path("m"))
        self.save("old", reversed([row for row in range(12) if row != known[gone]]))
        self.add("--held-out", "0.2")
        self.assertEqual(self.info()["records"], 11)
        self.assertEqual(self.train(*mixed), after)
        self.assertIn("loss", self.graft("eval", "mlp.graft", "--data", "memory:m?part=held-out"))
        self.fails("eval", "mlp.graft", "--data", "memory:m?part=all", says=["must be training or held-out"])
        wrong = ("train", "mlp.graft", "--data", "npy:new_x.npy,new_y.npy")
        self.assertEqual(self.run_graft(*wrong, "--memory", "m", "--no-shuffle").stderr.split(". ")[0],
                         "graft: --no-shuffle excludes --memory")
        self.assertEqual(self.run_graft(*wrong, "--memory-share", "0.5").returncode, 2)

    def test_files_that_are_none_are_refused_in_a_sentence(self):
        self.fails("memory", "info", "none", says=["none"])
        with open(self.path("m"), "wb") as file:
            file.write(b"not a memory" * 9)
        self.fails("memory", "list", "m", says=["It is no memory of graft"])
        os.remove(self.path("m"))
        self.add()
        with open(self.path("m"), "r+b") as file:
            file.seek(-9000, 2)
            file.write(b"?")
        self.fails("memory", "list", "m", says=["is damaged, and others follow it"])


if __name__ == "__main__":
    cli.main()
