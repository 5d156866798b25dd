"""What graft plan --passes tells of the passes over the graph."""

import json

import cli
from cli import CliTest


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


if __name__ == "__main__":
    cli.main()
