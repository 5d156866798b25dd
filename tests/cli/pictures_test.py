"""Folders of pictures and fields by name from the command line: trained on, gone on with, evaluated, refused."""

import os
import shutil
import signal
import struct
import subprocess
import time
import zlib

import cli
from cli import CliTest, random_floats, save_npy


def gray_png(values, width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes(values[y * width:(y + 1) * width]) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Pictures(CliTest):
    CHANGES = "?flip=yes&random_crop=2&rotate=10&jitter=0.2&cutout=4"

    def setUp(self):
        super().setUp()
        # Classes differ in brightness; their names are not in the order in which they are made.
        for number, name in enumerate(("zebra", "ant", "moth")):
            os.makedirs(self.path(f"pictures/{name}"))
            for i in range(8):
                noise = random_floats(784, 100 * number + i)
                self.picture(f"pictures/{name}/{i}.png", [int(60 + 60 * number + 50 * v) for v in noise])

    def picture(self, name, values, width=28, height=28):
        with open(self.path(name), "wb") as file:
            file.write(gray_png(values, width, height))

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_classes_stay_with_the_model(self):
        self.graft("train", "mlp.graft", "--data", "folder:pictures", "--eval-split", "0.25", "--batch", 8, "--steps", 6,
                   "--quiet", "-o", "tuned.graft")
        self.assertIn('["ant","moth","zebra"]', self.graft("info", "tuned.graft"))
        # A part of the classes keeps its numbers; a class that the model never saw has none.
        os.makedirs(self.path("some"))
        shutil.copytree(self.path("pictures/zebra"), self.path("some/zebra"))
        with open(self.path("list.csv"), "w") as file:
            file.writelines(f"{i}.png,2\n" for i in range(8))
        by_number = self.graft("eval", "tuned.graft", "--data", "folder:pictures/zebra?list=list.csv")
        self.assertEqual(self.graft("eval", "tuned.graft", "--data", "folder:some"), by_number)
        shutil.copytree(self.path("pictures/ant"), self.path("some/bee"))
        self.fails("eval", "tuned.graft", "--data", "folder:some", says=('class "bee"', "none of the 3"))

    def test_changes_go_on_to_the_same_bits(self):
        flags = ("--data", "folder:pictures" + self.CHANGES, "--batch", 5, "--accumulate", 2, "--steps", 30, "--seed", 3,
                 "--quiet")
        self.graft("train", "mlp.graft", *flags, "--read-threads", 1, "-o", "whole.graft")
        self.graft("train", "mlp.graft", *flags, "--read-threads", 3, "-o", "threads.graft")
        self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("threads.graft"))
        command = [cli.GRAFT, "train", "mlp.graft", *map(str, flags), "--checkpoint", "store", "--checkpoint-every", "4",
                   "--metrics", "metrics.jsonl", "-o", "killed.graft"]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + cli.TIMEOUT
        while process.poll() is None and time.monotonic() < until:  # killed in the middle of an epoch, or at its end
            if os.path.exists(self.path("metrics.jsonl")) and self.bytes_of("metrics.jsonl").count(b"\n") > 6:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.002)
        process.wait(cli.TIMEOUT)
        self.graft(*command[1:], "--resume")
        self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("killed.graft"))

    def test_workers_share_the_pictures(self):
        flags = ("train", "mlp.graft", "--data", "folder:pictures" + self.CHANGES, "--batch", 4, "--accumulate", 2, "--steps",
                 5, "--quiet")
        self.graft(*flags, "--workers", 2, "-o", "two.graft")
        self.graft(*flags, "-o", "one.graft")
        self.assertEqual(self.bytes_of("one.graft"), self.bytes_of("two.graft"))

    def test_bad_folders_change_nothing(self):
        train = ("train", "mlp.graft", "--batch", 8, "--steps", 4, "--quiet", "-o", "kept.graft", "--data")
        shutil.copy(self.path("mlp.graft"), self.path("kept.graft"))
        kept = self.bytes_of("kept.graft")
        os.makedirs(self.path("empty/none"))
        self.fails(*train, "folder:empty", says=('"empty"', "no file that ends in .jpg"))
        self.picture("pictures/ant/wide.png", [0] * 784, 56, 14)
        self.fails(*train, "folder:pictures", says=("ant/wide.png", "56 x 14", "resize=HEIGHTxWIDTH"))
        self.graft("eval", "mlp.graft", "--data", "folder:pictures?resize=28x28")
        with open(self.path("pictures/ant/wide.png"), "wb") as file:
            file.write(gray_png([0] * 784, 28, 28)[:60])
        self.fails(*train, "folder:pictures", says=("ant/wide.png", "is damaged"))
        with open(self.path("pictures/ant/wide.png"), "wb") as file:
            file.write(gray_png([], 65535, 65535))
        self.fails(*train, "folder:pictures", says=("ant/wide.png", "65535 x 65535"))
        self.assertEqual(self.bytes_of("kept.graft"), kept)

    def test_fields_by_name(self):
        self.images(8)
        save_npy(self.path("y.npy"), [i % 3 for i in range(8)], (8,), "q")
        self.graft("eval", "mlp.graft", "--data", "npy:image=x.npy;label=y.npy")
        self.fails("eval", "mlp.graft", "--data", "npy:picture=x.npy;label=y.npy",
                   says=('no field for the model\'s input "image"',))
        self.fails("eval", "mlp.graft", "--data", "npy:image=x.npy,table=x.npy;label=y.npy",
                   says=('has "table"', 'its inputs and targets are "image"'))
        # Integers become floats where the input is one.
        save_npy(self.path("whole.npy"), [i % 5 for i in range(8 * 784)], (8, 1, 28, 28), "q")
        self.graft("eval", "mlp.graft", "--data", "npy:image=whole.npy;label=y.npy")
        self.graft("eval", "mlp.graft", "--data", "digits:?count=32&skip=32")


cli.main()
