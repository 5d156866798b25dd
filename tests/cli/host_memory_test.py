"""Host memory of every reader: at most a stated multiple of the file and a constant, for files made to take much."""

import gzip
import json
import os
import resource
import struct
import unittest
import zlib

import cli

MIB = 1 << 20
SIZE = 6 * MIB  # of each file, unpacked
# docs/reference/formats.md: what a reader may take is this many times the (unpacked) file and this much on top.
TIMES, BESIDE = 32, 128 * MIB


def gguf(keys, tensors):
    """Bytes of a GGUF file with keys and tensor entries given as bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    return head + b"".join(keys) + b"".join(tensors)


def text(value):
    return struct.pack("<Q", len(value)) + value


def numbered(make, size):
    """make(0), make(1), .. until they fill `size` bytes."""
    out, total, i = [], 0, 0
    while total < size:
        out.append(make(i))
        total += len(out[-1])
        i += 1
    return out


class Table:
    """A table of a FlatBuffers file: for each field None, a number of 4 bytes, or what it leads to (bytes of a string or
    of a list, a Table, or a list of Tables)."""

    def __init__(self, *fields):
        self.fields = fields


def flatbuffer(root, identifier=b"TFL3"):
    """The file, in which each object stands once, however often it is led to."""
    out, places, wanted = bytearray(8), {}, []
    out[4:8] = identifier

    def lead(at, to):
        wanted.append((at, to))

    def put(one):
        out.extend(bytes(-len(out) % 4))
        if isinstance(one, Table):
            vtable = len(out)
            out.extend(struct.pack("<HH", 4 + 2 * len(one.fields), 4 + 4 * len(one.fields)))
            out.extend(b"".join(struct.pack("<H", 0 if value is None else 4 + 4 * i) for i, value in enumerate(one.fields)))
            out.extend(bytes(-len(out) % 4))
            places[id(one)] = at = len(out)
            out.extend(struct.pack("<i", at - vtable) + bytes(4 * len(one.fields)))
            for i, value in enumerate(one.fields):
                if isinstance(value, int):
                    struct.pack_into("<I", out, at + 4 + 4 * i, value)
                elif value is not None:
                    lead(at + 4 + 4 * i, value)
        elif isinstance(one, list):
            places[id(one)] = at = len(out)
            out.extend(struct.pack("<I", len(one)) + bytes(4 * len(one)))
            for i, value in enumerate(one):
                lead(at + 4 + 4 * i, value)
        else:  # (entries, bytes), with a zero behind it as strings have
            places[id(one)] = len(out)
            out.extend(struct.pack("<I", one[0]) + one[1] + b"\0")

    lead(0, root)
    done = 0
    while done < len(wanted):
        at, to = wanted[done]
        done += 1
        if id(to) not in places:
            put(to)
        struct.pack_into("<I", out, at, places[id(to)] - at)
    return bytes(out)


def ints(*values):
    return len(values), struct.pack(f"<{len(values)}i", *values)


def tflite(tensors, operators):
    """One graph of float tensors; Table(code, inputs, outputs) are its operators, all additions."""
    graph = Table(tensors, ints(0), ints(1), operators)
    return flatbuffer(Table(3, [Table(0)], [graph], None, [Table()]))


def field(number, data):
    """A protobuf field that holds bytes."""
    size, n = b"", len(data)
    while n >= 128:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


def sum_onnx():
    """y = x + w of two numbers: what weights are read for."""
    def value(name):
        return field(1, name) + field(2, field(1, b"\x08\x01" + field(2, field(1, b"\x08\x02"))))
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Add")
    weight = b"\x08\x02\x10\x01" + field(8, b"w") + field(9, bytes(8))
    graph = field(1, node) + field(2, b"g") + field(5, weight) + field(11, value(b"x")) + field(12, value(b"y"))
    return b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11")


def checkpoint(program, keys=b"]", storages=b""):
    """A file of PyTorch's older form, which holds the pickle `program`."""
    magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"
    return b"".join(b"\x80\x02" + part + b"." for part in (magic, b"M\xe9\x03", b"}", program, keys)) + storages


def pickled(letters):
    return b"X" + struct.pack("<I", len(letters)) + letters


def tensor(shape, storage=b"a"):
    """Puts a tensor on the stack: what torch.save() writes of one."""
    place = b"(" + pickled(b"storage") + b"ctorch\nFloatStorage\n" + pickled(storage) + pickled(b"cpu") + b"K\x01tQ"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + place + b"K\x00" + shape + b"K\x01\x85tR"


def number(value):
    return b"J" + struct.pack("<i", value)


class HostMemoryTest(cli.CliTest):
    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return name

    def peak(self, *arguments):
        """Largest resident memory of the command, in bytes: it may fail, in a sentence."""
        pid = os.fork()
        if pid == 0:
            out = os.open(self.path("said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(out, 1)
            os.dup2(out, 2)
            os.chdir(self.folder)
            resource.setrlimit(resource.RLIMIT_CPU, (cli.TIMEOUT, cli.TIMEOUT))  # what takes longer is no reader
            os.execv(cli.GRAFT, [cli.GRAFT, *map(str, arguments)])
        _, status, usage = os.wait4(pid, 0)
        with open(self.path("said"), errors="replace") as file:
            said = file.read()
        self.assertTrue(os.WIFEXITED(status) and os.WEXITSTATUS(status) in (0, 1), said[-300:])
        if os.WEXITSTATUS(status) == 1:
            self.assertIn("graft: ", said)
            self.assertLess(len(said), 4096, "a sentence")
        return usage.ru_maxrss * 1024, said

    def bounded(self, name, data, *command, unpacked=0):
        self.write(name, data)
        size = unpacked or len(data)
        least, _ = self.peak("--version")
        with self.subTest(file=name):
            peak, said = self.peak(*command)
            if os.environ.get("GRAFT_PRINT"):
                print(f"{name}: {(peak - least) / size:.1f} times {size / MIB:.1f} MiB; {said[:150]!r}")
            self.assertLess(peak - least, TIMES * size + BESIDE)

    def test_json(self):
        flat, nested = b"[" + b"0," * (SIZE // 2) + b"0]", b"[" + b"[]," * (SIZE // 3) + b"[]]"
        members = json.dumps({f"k{i}": 0 for i in range(SIZE // 14)}).encode()
        for kind, data in ("flat", flat), ("nested", nested), ("members", members):
            self.bounded(f"{kind}.json", data, "plan", "mlp.graft", "--caps", f"{kind}.json")
            os.makedirs(self.path(kind), exist_ok=True)
            self.write(f"{kind}/adapter_config.json", b'{"peft_type":"LORA","r":1,"lora_alpha":1}')
            self.bounded(f"{kind}/adapter_model.safetensors", struct.pack("<Q", len(data)) + data, "convert", kind, "--base",
                         "mlp.graft", "-o", "o.graft")
            self.bounded(f"{kind}/config.json", data, "convert", kind, "-o", "o.graft")

    def test_gguf(self):
        keys = numbered(lambda i: text(b"k%d" % i) + struct.pack("<IB", 0, 1), SIZE)
        self.bounded("keys.gguf", gguf(keys, []), "convert", "keys.gguf", "-o", "o.graft")
        tensors = numbered(lambda i: text(b"t%d" % i) + struct.pack("<IQIQ", 1, 1, 0, 0), SIZE)
        self.bounded("tensors.gguf", gguf([], tensors), "convert", "tensors.gguf", "-o", "o.graft")
        count = SIZE // 8
        strings = text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, count) + text(b"") * count
        self.bounded("strings.gguf", gguf([strings], []), "convert", "strings.gguf", "-o", "o.graft")
        count = SIZE
        numbers = text(b"n") + struct.pack("<IIQ", 9, 0, count) + bytes(count)
        self.bounded("numbers.gguf", gguf([numbers], []), "convert", "numbers.gguf", "-o", "o.graft")

    def test_onnx(self):
        for name, part in {"nodes": field(1, b""), "named": field(1, field(4, b"Relu")), "inputs": field(11, b""),
                           "initializers": field(5, b""), "attributes": field(1, field(5, b"") * 1000)}.items():
            graph = part * (SIZE // len(part))
            self.bounded(f"{name}.onnx", b"\x08\x08" + field(7, graph) + field(8, b"\x10\x11"), "convert", f"{name}.onnx",
                         "-o", "o.graft")

    def test_tflite(self):
        x, y = (Table(ints(1, 4), None, None, (1, name)) for name in (b"x", b"y"))
        # A file that is read, and not refused for how it is written.
        self.bounded("plain.tflite", tflite([x, y], [Table(None, ints(0, 0), ints(1))]), "convert", "plain.tflite", "-o", "o.graft")
        self.assertTrue(os.path.exists(self.path("o.graft")))
        long = Table(ints(1, 4), None, None, (1000, b"n" * 1000))
        shared, wide = (1000, b"m" * 1000), ints(*[0] * 1000)
        op, many = Table(None, ints(0, 0), ints(1)), Table(None, wide, ints(1))
        own = [Table(None, None, None, shared) for _ in range(SIZE // 32)]
        chain = [Table(None, (1, struct.pack("<i", 0)), ints(1)) for _ in range(SIZE // 48)]
        for name, tensors, operators in (("tensor", [x, y] + [long] * (SIZE // 4), [op]), ("name", [x, y] + own, [op]),
                                         ("operator", [x, y], [op] * (SIZE // 4)), ("inputs", [x, y], [many] * (SIZE // 4)),
                                         ("names", [long, y], chain), ("small", [x, y] + [Table()] * (SIZE // 4), [op])):
            with self.subTest(name):
                self.bounded(f"{name}.tflite", tflite(tensors, operators), "convert", f"{name}.tflite", "-o", "o.graft")

    def test_pickle(self):
        self.write("sum.onnx", sum_onnx())

        def keeps(key):  # takes what is on top into the memo, and off the stack
            return b"q" + bytes([key]) + b"0"

        one = tensor(number(2) + b"\x85")
        two_numbers = b"]" + pickled(b"a") + b"a", struct.pack("<Qff", 2, 1, 2)
        self.bounded("plain.pt", checkpoint(b"}" + pickled(b"w") + one + b"s", *two_numbers), "convert", "sum.onnx",
                     "--weights", "plain.pt", "-o", "o.graft")
        self.assertTrue(os.path.exists(self.path("o.graft")), "a file that is read, and not refused for how it is written")

        half, third = pickled(b"m" * (SIZE // 2)), pickled(b"k" * (SIZE // 3))
        wide = b"}(" + b"".join(pickled(b"k") + b"N" for _ in range(SIZE // 16)) + b"u"
        shared = b"(" + b"".join(pickled(b"%d" % i) + b"h\x00" for i in range(SIZE // 28)) + b"u"
        names = b"}" + pickled(b"n" * 900) + b"h\x00s"
        doubling = b"}" + pickled(b"a" * 30) + b"h\x01s" + pickled(b"b" * 30) + b"h\x01sq\x010"
        size = b"]q\x000ctorch\nSize\nh\x00Rq\x010h\x00h\x01a0h\x01"  # of which the only number is itself
        itself = b"}q\x00" + pickled(b"a") + b"h\x00s"
        million = struct.pack("<Q", SIZE // 8) + bytes(SIZE // 2)
        programs = {  # made one by one: what this process holds hides as much of what graft takes
            "values": lambda: (b"N" * SIZE,),
            "nested": lambda: (b"N" + b"\x85" * SIZE,),
            "remembered": lambda: (b")\x94" * (SIZE // 2),),
            "marks": lambda: (b"(" * SIZE,),
            "globals": lambda: (half + keeps(0) + b"h\x00h\x00\x93" * (SIZE // 10),),
            "lines": lambda: (b"c" + b"m" * 60000 + b"\n" + b"n" * 60000 + b"\n" + b"q\x00" + b"h\x00" * SIZE,),
            "dicts": lambda: (wide + keeps(0) + b"}" + shared,),
            "names": lambda: (one + keeps(1) + b"}" + pickled(b"t") + b"h\x01s" + keeps(1) + doubling * 20 + b"h\x01",
                      *two_numbers),
            "long": lambda: (one + keeps(0) + names + b"0" + names + shared, *two_numbers),
            "views": lambda: (tensor(number(SIZE // 8) + b"\x85") + keeps(0) + b"}" + shared, two_numbers[0], million),
            "itself": lambda: (itself,),
            "size": lambda: (b"}" + pickled(b"w") + tensor(size) + b"s", *two_numbers),
            "deep": lambda: (b"".join(b"}" + pickled(b"a") for _ in range(SIZE // 7)) + b"N" + b"s" * (SIZE // 7),),
            "claims": lambda: (b"X\xff\xff\xff\xff",),
            "claims_more": lambda: (b"\x8d" + b"\xff" * 8,),
            "storage": lambda: (b"}" + pickled(b"w") + one + b"s", two_numbers[0], struct.pack("<Q", 2**61)),
            "keys": lambda: (b"}" + pickled(b"w") + tensor(number(2) + b"\x85", b"k" * (SIZE // 3)) + b"s",
                     b"](" + third + b"q\x00" + b"h\x00" * (SIZE // 24) + b"e", bytes(SIZE // 3)),
        }
        for name, parts in programs.items():
            self.bounded(f"{name}.pt", checkpoint(*parts()), "convert", "sum.onnx", "--weights", f"{name}.pt", "-o", "o.graft")

    def test_data(self):
        train = ("train", "mlp.graft", "--steps", 1, "--quiet", "--data")
        self.images(4)
        self.labels([0, 1, 2, 3])
        self.graft(*train, "npy:x.npy,y.npy")  # what is compiled and remembered by now
        rows = b"0,1\n" * (SIZE // 4)
        self.bounded("short.csv", rows, *train, "csv:short.csv")
        self.bounded("long.csv", b"0," * (SIZE // 2), *train, "csv:long.csv")
        self.bounded("bomb.npy.gz", gzip.compress(bytes(SIZE)), *train, "npy:bomb.npy.gz,y.npy", unpacked=SIZE)
        self.bounded("a.idx", struct.pack(">IIII", 0x803, 2**31, 2**31, 2**31) + bytes(SIZE), *train, "idx:a.idx,a.idx")

    def test_media(self):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        def png(side):
            head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
            return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(side * (side + 1)))) + chunk(b"IEND", b"")

        wav = b"RIFF" + struct.pack("<I", 36 + 10000) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 1, 2, 2, 16)
        train = ("train", "mlp.graft", "--steps", 1, "--quiet", "--batch", 1, "--read-threads", 1, "--data")
        os.makedirs(self.path("pictures/a"))
        os.makedirs(self.path("sounds/a"))
        self.write("pictures/a/first.png", png(28))
        self.peak(*train, "folder:pictures?resize=28x28")  # what is compiled and remembered by now
        for side in 3600, 8192:
            self.bounded("pictures/a/large.png", png(side), *train, "folder:pictures?resize=28x28&skip=1")
        self.bounded("sounds/a/slow.wav", wav + b"data" + struct.pack("<I", 10000) + bytes(10000), *train,
                     "wav:sounds?rate=16000")
        self.bounded("sounds/a/slow.wav", wav + b"data" + struct.pack("<I", 10000) + bytes(10000), *train,
                     "wav:sounds?rate=16000&length=784")

    def test_models(self):
        self.bounded("zeros.graft", b"GRAFT" + bytes(SIZE), "info", "zeros.graft")
        with open(self.path("mlp.graft"), "rb") as file:
            model = file.read()
        self.bounded("grown.graft", model + bytes(SIZE), "info", "grown.graft")


class TextMemoryTest(HostMemoryTest, cli.LanguageTest):
    test_json = test_gguf = test_onnx = test_tflite = test_pickle = test_data = test_media = test_models = None

    def test_texts(self):
        train = ("train", "tiny.graft", "--steps", 1, "--quiet", "--batch", 1, "--data")
        for name, data in {"short.jsonl": b'{"text":"a"}\n' * (SIZE // 13), "long.jsonl": b'{"text":"' + b"a" * SIZE + b'"}\n',
                           "wide.jsonl": b'{"text":"a","x":[' + b"0," * (SIZE // 2) + b"0]}\n"}.items():
            self.bounded(name, data, *train, f"jsonl:{name}")
        self.bounded("a.txt", b"a b c\n\n" * (SIZE // 7), *train, "text:a.txt")

    def test_tokenizers(self):
        vocabulary = json.dumps({"version": "1.0", "model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(SIZE // 20)},
                                                             "merges": ["a b"] * (SIZE // 16)}}).encode()
        os.makedirs(self.path("folder"))
        self.write("folder/config.json", b'{"model_type":"llama","architectures":["LlamaForCausalLM"]}')
        self.bounded("folder/tokenizer.json", vocabulary, "convert", "folder", "-o", "o.graft")
        self.bounded("own.json", vocabulary, *("train", "tiny.graft", "--steps", 1, "--quiet", "--batch", 1, "--data"),
                     "text:a.txt?tokenizer=own.json")


if __name__ == "__main__":
    cli.main()
