"""A flipped bit in a model's weights, and what each command says of it. All bits of all bytes: unit/model_damage."""

import random

import cli




class DamageTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.images(8)
        self.labels([i % 10 for i in range(8)])
        with open(self.path("mlp.graft"), "rb") as file:
            self.sound = file.read()

    def damage(self, byte, bit, name="bad.graft"):
        changed = bytearray(self.sound)
        changed[byte] ^= 1 << bit
        with open(self.path(name), "wb") as file:
            file.write(changed)

    def commands(self, model):
        data = ["--data", "npy:x.npy,y.npy"]
        return {
            "train": ["train", model, *data, "--steps", 1, "--quiet", "-o", "out.graft"],
            "export": ["export", model, "-o", "out.safetensors"],
            "verify": ["verify", model],
            "verify --deep": ["verify", model, "--deep"],
            "eval": ["eval", model, *data],
            "run": ["run", model, "--input", "image=x.npy", "--out", "out"],
            "run --check": ["run", model, "--check", "--input", "image=x.npy", "--out", "out"],
        }

    def test_sound_files_pass(self):
        for command in self.commands("mlp.graft").values():
            self.graft(*command)

    def test_a_sample_of_flips(self):
        pick = random.Random(7)
        first, last = 65536, 65600  # in the first segment, which begins with a bias
        flips = [(first, 0), (first + 3, 7)] + [(pick.randrange(first, last), pick.randrange(8)) for _ in range(3)]
        for byte, bit in flips:
            self.damage(byte, bit)
            for name, command in self.commands("bad.graft").items():
                with self.subTest(command=name, byte=byte, bit=bit):
                    self.fails(*command, says=["damaged", "bytes 65536 to"])

    def test_deep_names_all(self):
        self.damage(65536, 3)
        done = self.run_graft("verify", "bad.graft", "--deep")
        self.assertRegex(done.stdout, r"^\S+  bytes 65536 to \d+ of the file are damaged\n$")

    def test_merge_and_its_adapter(self):
        self.graft("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", 1, "--quiet", "--lora", "r=2", "-o",
                   "a.graft")
        self.graft("merge", "mlp.graft", "--adapter", "a.graft", "-o", "m.graft")
        self.damage(65540, 1)
        self.fails("merge", "bad.graft", "--adapter", "a.graft", "-o", "n.graft", says=["damaged"])
        with open(self.path("a.graft"), "rb") as file:
            self.sound = file.read()
        self.damage(65536, 1, "bad_adapter.graft")
        self.fails("merge", "mlp.graft", "--adapter", "bad_adapter.graft", "-o", "n.graft", says=["damaged"])

    def test_adapters_of_another_base(self):
        self.graft("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", 1, "--quiet", "--lora", "r=2", "-o",
                   "a.graft")
        self.graft("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", 1, "--quiet", "-o", "other.graft")
        self.fails("merge", "other.graft", "--adapter", "a.graft", "-o", "n.graft",
                   says=["made for \"mlp.graft\"", "\"other.graft\""])
        self.graft("merge", "other.graft", "--adapter", "a.graft", "--any-base", "-o", "n.graft")

    def test_restore(self):
        self.graft("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--steps", 2, "--quiet", "--checkpoint", "store")
        self.graft("checkpoint", "restore", "store", 1, "--model", "mlp.graft", "-o", "r.graft")
        self.damage(65540, 1)
        self.fails("checkpoint", "restore", "store", 1, "--model", "bad.graft", "-o", "r.graft", says=["damaged"])


if __name__ == "__main__":
    cli.main()
