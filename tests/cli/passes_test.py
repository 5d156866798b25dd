"""What graft plan --passes tells of the passes over the graph, and that they lose no name."""

import json

import cli
from cli import CliTest, load_npy, random_floats, save_npy


class Passes(CliTest):
    def setUp(self):
        super().setUp()
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")

    def passes(self, *mode):
        plan = json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=4", "--json", "--passes", *mode))
        return plan["passes"]

    def test_each_pass_begins_where_the_one_before_ended(self):
        for mode in ((), ("--mode", "infer")):
            passes = self.passes(*mode)
            for before, after in zip(passes, passes[1:]):
                self.assertEqual(before["nodes_after"], after["nodes_before"])
            for one in passes:
                self.assertEqual(sum(one["changes"].values()), one["nodes_after"] - one["nodes_before"], one)
            # The importer leaves each convolution and pooling between transposes; a layout takes most of them away.
            layouts = [one for one in passes if one["pass"] == "choose layouts"]
            self.assertLess(sum(one["changes"].get("transpose", 0) for one in layouts), 0)

    def test_the_text_has_a_line_for_each(self):
        text = self.graft("plan", "lenet.graft", "--bind", "batch=4", "--passes")
        for one in self.passes():
            line = next(line for line in text.splitlines() if line.startswith(f"  {one['pass']} "))
            self.assertIn("nodes", line)

    def test_nothing_is_told_unasked(self):
        self.assertNotIn("passes", json.loads(self.graft("plan", "lenet.graft", "--bind", "batch=4", "--json")))

    def test_values_on_the_way_are_fetched_by_the_names_that_info_lists(self):
        save_npy(self.path("x.npy"), random_floats(2 * 28 * 28, 1), (2, 1, 28, 28))
        self.assertIn("pool1 ", self.graft("info", "lenet.graft"))
        self.graft("run", "lenet.graft", "--input", "image=x.npy", "--fetch", "relu1,pool1", "--out", "out")
        rows = load_npy(self.path("out/relu1.npy"), (2, 20, 24, 24))
        pooled = load_npy(self.path("out/pool1.npy"), (2, 20, 12, 12))
        places = [(plane * 24 + 2 * y) * 24 + 2 * x for plane in range(40) for y in range(12) for x in range(12)]
        self.assertEqual(pooled, [max(rows[p], rows[p + 1], rows[p + 24], rows[p + 25]) for p in places])
        self.graft("run", "lenet.graft", "--input", "image=x.npy", "--out", "plain")
        self.assertEqual(load_npy(self.path("out/logits.npy")), load_npy(self.path("plain/logits.npy")))
        self.fails("run", "lenet.graft", "--input", "image=x.npy", "--fetch", "pool9", "--out", "out", says=["pool9"])


if __name__ == "__main__":
    cli.main()
