"""Numbers out of range and flags without effect are refused under their own names, before anything runs."""

import cli


class FlagsTest(cli.CliTest):
    TRAIN = ("train", "mlp.graft", "--data", "digits:?count=20", "--quiet")

    def test_numbers(self):
        for flag, values in {
                "--epochs": ("1e20", "0", "-1", "nan", "1.5", "99999999999999999999"), "--batch": ("-1", "0", "4x", str(2**62)),
                "--accumulate": ("0", "many"), "--beta1": ("1", "-0.1", "nan"), "--beta2": ("1", "inf"),
                "--lr": ("nan", "inf", "-1", "1e999", "1e-3x"), "--eps": ("-1e-8",), "--momentum": ("1", "-0.5"),
                "--weight-decay": ("-0.1", "nan"), "--label-smoothing": ("1.5", "-0.1"), "--seed": ("-1", "1e3"),
                "--eval-split": ("0", "1", "nan"), "--clip-norm": ("-1", "inf"), "--gamma": ("-1",), "--keep": ("0",),
                "--warmup": ("-1",), "--step-size": ("0",), "--checkpoint-every": ("-5",), "--profile-steps": ("0",),
                "--growth-interval": ("0",), "--loss-scale": ("-2",)}.items():
            for value in values:
                with self.subTest(flag=flag, value=value):
                    self.assertIn(value, self.refused(*self.TRAIN, flag, value, names=flag))
        self.refused("verify", "mlp.graft", "--tolerance", "nan", names="--tolerance")
        self.refused("generate", "mlp.graft", "--prompt", "a", "--top-p", "2", names="--top-p")
        self.refused("generate", "mlp.graft", "--prompt", "a", "--max-tokens", "-1", names="--max-tokens")
        self.refused("eval", "mlp.graft", "--data", "digits:", "--batch", "0", names="--batch")

    def test_flags_without_effect(self):
        for flags, says in (
                (("--momentum", "0.9"), "with --optimizer adamw"), (("--nesterov",), "with --optimizer adamw"),
                (("--optimizer", "sgd", "--nesterov"), "without --momentum"),
                (("--optimizer", "sgd", "--beta1", "0.5"), "with --optimizer sgd"),
                (("--loss", "mse", "--label-smoothing", "0.1"), "with --loss mse"),
                (("--final-lr", "0.1"), "with --schedule constant"), (("--gamma", "0.5"), "with --schedule constant"),
                (("--growth-interval", "5"), "without a loss scale"), (("--keep", "3"), "without --checkpoint"),
                (("--profile-steps", "3"), "without --profile"), (("--on-mismatch", "stop"), "without --resume")):
            with self.subTest(flags=flags):
                self.assertIn(says, self.refused(*self.TRAIN, *flags, names="has no effect"))
        self.refused("plan", "mlp.graft", "--momentum", "0.9", names="--momentum")
        for flags in (("--curve",), ("--fetch", "logits"), ("--optimizer", "sgd"), ("--lr", "0.1"), ("--lora", "r=2"), ("--clip-norm", "1")):
            self.refused("plan", "mlp.graft", "--mode", "infer", *flags, names=flags[0])
        for flags in (("--bind", "batch=2"), ("--tolerance", "1"), ("--seed", "3"), ("--device", "0"), ("--cache", "none")):
            self.refused("verify", "mlp.graft", "--deep", *flags, names=flags[0])
        for command in (("device", "mlp.graft"), ("ops", "mlp.graft"), ("device", "--filter", "gemm"), ("device", "--seq", "4"), ("device", "--tune"), ("device", "--caps", "small"),
                        ("startup", "mlp.graft", "--filter", "a"), ("startup", "mlp.graft", "--repeat", "3"), ("startup", "mlp.graft", "--cache", "none"),
                        ("startup", "mlp.graft", "--bind", "batch=2"), ("ops", "--nodes"), ("ops", "--no-steps"), ("kernels", "--compile-only", "--repeat", "3"),
                        ("kernels", "--compile-only", "--bind", "batch=2"), ("mlp.graft", "--filter", "a"), ("mlp.graft", "--alone"), ("mlp.graft", "--dump", "d"), ("ops", "--tune", "--precision", "f16")):
            self.refused("bench", *command, names="has no effect" if "--dump" not in command else "--dump")
        for flags in (("--seq", "4"), ("--no-steps",), ("--nodes",), ("--processor-time",)):
            self.fails("bench", "mlp.graft", *flags, says=[flags[0], "has no effect"])
        generate, convert = ("generate", "mlp.graft", "--prompt", "a"), ("convert", "mlp.onnx", "-o", "o.graft")
        example = ("convert", "--example", "mlp", "-o", "o.onnx")
        for command in ((*generate, "--top-k", "3"), (*generate, "--seed", "3"), (*generate, "--json", "--echo"),
                        ("export", "mlp.graft", "-o", "o.gguf", "--source", "mlp.onnx"),
                        ("export", "mlp.graft", "-o", "o.onnx", "--in-place"), (*example, "--bind", "batch=2"),
                        (*example, "--base", "mlp.graft"), (*example, "--json"),
                        (*convert, "--base", "mlp.graft", "--expand"), (*convert, "--base", "mlp.graft", "--json")):
            with self.subTest(command=command):
                self.refused(*command, names="has no effect with")

    def test_numbers_within_specs(self):
        self.images(4)
        self.labels([0, 1, 2, 3])
        train = ("train", "mlp.graft", "--steps", "1", "--quiet", "--data")
        for flag, specs in {
                "--lora": {"r=0": "option r (rank) is 0", "r=x": 'option r is "x"', "r=1e3": "whole number",
                           "r=99999999999999999999": "option r is", "r=4097": "1 to 4096", "alpha=nan": "option alpha is nan",
                           "alpha=-1": "option alpha is -1", "alpha=": "option alpha", "dropout=1": "option dropout is 1",
                           "r=2,rank=4": "given twice", "size=4": '"size"', "init=svd": "default or pissa",
                           "init=pissa,dora=yes": "do not go together", "init=pissa,r=2049": "1 to 2048 with init=pissa",
                           "init=pissa,r=2000": "directions to begin with"},
                "--group": {"*:lr=-1": "lr must be a number", "*:lr=nan": "not nan", "*:weight_decay=1e999": "not 1e999",
                            "*:weight_decay=1e31": "from 0 to 1e+30", "*:lr=": '"lr="', "*:": '"*:"', "*": '"*"',
                            "*:lr=1,lr=2": "gives lr", "*:size=1": '"size"'}}.items():
            for spec, says in specs.items():
                with self.subTest(flag=flag, spec=spec):
                    self.fails(*train, "digits:?count=8", flag, spec, says=[says])
        for spec, says in {"skip=-1": "skip=-1", "skip=4": "skip=4 leaves nothing", "count=0": "count=0 must be 1 to 4",
                           "count=1e20": "count=1e20", "count=": "count=",
                           "normalize=0,0": "normalize",
                           "normalize=nan,1": "normalize", "normalize=0,1e999": "normalize", "size=3": '"size"'}.items():
            with self.subTest(data=spec):
                self.fails(*train, "npy:x.npy,y.npy?" + spec, says=[says])
        self.graft(*train, "npy:x.npy,y.npy?skip=1&count=9")  # as far as there are any
        self.graft(*train, "npy:x.npy,y.npy?skip=1&count=3", "--lora", "r=2,alpha=4", "--group", "*:lr=0.5,weight_decay=0")

    def test_a_refused_resume_says_which_number(self):
        steps = (*self.TRAIN, "--steps", "2", "--checkpoint", "store")
        self.graft(*steps, "--lr", "1e-3")
        said = self.fails(*steps, "--resume", "--lr", "5e-3", says=["learning rate 0.005 now, 0.001 then"])
        self.assertNotIn("0x", said)

    def test_deep_json_is_refused(self):
        for name, text in {"brackets": "[" * 200000 + "]" * 200000, "objects": '{"a":' * 200000 + "1" + "}" * 200000,
                           "open": "[" * 200000}.items():
            with open(self.path(f"{name}.json"), "w") as file:
                file.write(text)
            with self.subTest(name=name):
                self.fails("plan", "mlp.graft", "--caps", f"{name}.json", says=["nests more than 64 deep"])

    def test_text_of_files_is_cut(self):
        with open(self.path("caps.json"), "w") as file:
            file.write('{"limits": {"max_push_constants": "%s"}}' % ("long " * 1000))
        done = self.run_graft("plan", "mlp.graft", "--caps", "caps.json")
        self.assertEqual(done.returncode, 1)
        self.assertLess(len(done.stderr), 400)


if __name__ == "__main__":
    cli.main()
