"""Help of commands, and what a mistyped command or flag gets."""

import re

import cli


class HelpTest(cli.CliTest):
    def groups(self, *command):
        """The flags of a help text by the group that lists them."""
        groups, title = {}, None
        for line in self.graft(*command).splitlines():
            if re.fullmatch(r"[A-Z]\w*:", line):
                title = line[:-1]
            flag = re.match(r"  (?:-\w,)?(--[\w-]+)", line)
            if flag and title:
                groups.setdefault(title, []).append(flag[1])
        return groups

    def test_help_lists_what_is_used_most_and_help_all_the_rest(self):
        for command in ("convert", "plan", "train", "eval", "generate", "chat", "simulate"):
            short, all_flags = self.groups(command, "--help"), self.groups(command, "--help-all")
            listed, known = ({flag for flags in groups.values() for flag in flags} for groups in (short, all_flags))
            self.assertLess(listed, known, command)
            self.assertLessEqual(len(listed), 16, command)
            said = int(re.search(rf"graft {command} --help-all lists (\d+) more", self.graft(command, "--help"))[1])
            self.assertEqual(said, len(known - listed), command)
            self.assertRegex(self.graft(command, "--help"), rf"Examples?:\n  graft {command} ")

    def test_each_flag_of_train_is_in_a_group(self):
        groups = self.groups("train", "--help-all")
        self.assertEqual(groups.pop("Options"), ["--help", "--help-all"])
        self.assertEqual(list(groups), ["Data", "Steps", "Loss", "Adapters", "Optimizer", "Schedule", "Memory", "Precision",
                                        "Checkpoints", "Evaluation", "Output", "Workers", "Device"])
        self.assertIn("--max-time", groups["Steps"])
        self.assertIn("--lora", groups["Adapters"])

    def test_mistyped_words(self):
        for arguments, says in (
                (["trian"], 'There is no command "trian"; did you mean train?'), (["frobnicate"], 'There is no command "frobnicate".'),
                (["train", "mlp.graft", "--data", "digits:", "--epoch", "1"], "graft train has no flag --epoch; did you mean --epochs?"),
                (["train", "mlp.graft", "--data", "digits:", "--frobnicate=1"], "graft train has no flag --frobnicate. graft"),
                (["info", "mlp.graft", "more"], '"more" is one argument more than graft info takes.'),
                (["checkpoint", "lst"], "graft checkpoint has no command lst; did you mean list?"),
                (["checkpoint"], "graft checkpoint needs one of: list, "), (["train", "mlp.graft"], "--data is required."),
                (["convert", "--exampel", "lenet", "-o", "x.onnx"], "graft convert has no flag --exampel; did you mean --example?"),
                (["bench", "device", "--jsn"], "graft bench has no flag --jsn; did you mean --json?")):
            with self.subTest(arguments=arguments):
                said = self.refused(*arguments, names=says)
                self.assertTrue(said.startswith("graft: "), said)
                self.assertEqual(said.count("\n"), 1, said)


if __name__ == "__main__":
    cli.main()
