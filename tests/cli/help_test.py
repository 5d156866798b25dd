"""Help of commands, and what a mistyped command or flag gets."""

import re
import shutil
import subprocess

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

    def test_every_command_takes_help_all(self):
        commands = re.findall(r"^  ([a-z]+) ", self.graft("--help").split("Subcommands:")[1], flags=re.M)
        self.assertGreater(len(commands), 20)
        for command in [*([name] for name in commands), ["checkpoint", "list"], ["delta", "make"]]:
            self.assertIn("--help", self.graft(*command, "--help-all"), command)

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

    def completed(self, *words):
        """What bash offers for the last of these words."""
        with open(self.path("completion.bash"), "w") as file:
            file.write(self.graft("completion", "bash"))
        script = 'source completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _graft; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", *words], cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_bash_completes_commands_flags_and_files(self):
        self.assertEqual(self.completed("graft", "tr"), ["train"])
        self.assertEqual(self.completed("graft", "train", "--warm"), ["--warmup", "--warm-start"])
        self.assertEqual(self.completed("graft", "checkpoint", "l"), ["list"])
        self.assertEqual(self.completed("graft", "checkpoint", "list", "--j"), ["--json"])
        self.assertEqual(self.completed("graft", "info", "mlp."), ["mlp.graft"])
        self.assertEqual(self.completed("graft", "generate", "--prompts"), ["--prompts"])

    def test_other_shells_and_man_read_what_is_written(self):
        checks = {"zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}
        for shell, command in checks.items():
            script = self.graft("completion", shell)
            self.assertIn("--max-time" if shell == "zsh" else "-l max-time", script)
            if shutil.which(shell):
                done = subprocess.run(command, input=script, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)
        self.fails("completion", "csh", says=['There is no completion for "csh"'])
        for name in ("", "train", "checkpoint", "bench", "convert"):
            page = self.graft("manual", *([name] if name else []))
            self.assertTrue(page.startswith(".TH graft"), name)
            if shutil.which("groff"):
                done = subprocess.run(["groff", "-man", "-Tascii", "-ww", "-z"], input=page, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)


if __name__ == "__main__":
    cli.main()
