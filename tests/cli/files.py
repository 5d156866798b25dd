"""safetensors and GGUF files, read and written by hand: what tests compare graft's own with."""

import json
import struct

SIZES = {"F32": 4, "F16": 2, "BF16": 2}
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 12: (256, 144),
          13: (256, 176), 14: (256, 210), 30: (1, 2)}  # elements and bytes by ggml's number
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def load_safetensors(path):
    """name -> (dtype, shape, bytes)."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out[name] = entry["dtype"], tuple(entry["shape"]), data[start + begin:start + end]
    return out


def save_safetensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, _, raw in tensors.values()))


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self, kind):
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += struct.calcsize("<" + kind)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind != 9:
            return self.number(NUMBERS[kind])
        element, count = self.number("I"), self.number("Q")
        return element, [self.value(element) for _ in range(count)]


def load_gguf(path):
    """key -> (type, value), in order; name -> (ggml type, dims, bytes)."""
    with open(path, "rb") as file:
        reader = Reader(file.read())
    assert reader.data[:4] == b"GGUF"
    reader.at = 4
    reader.number("I")
    tensor_count, key_count = reader.number("Q"), reader.number("Q")
    keys = {}
    for _ in range(key_count):
        key, kind = reader.text(), reader.number("I")
        keys[key] = kind, reader.value(kind)
    places = []
    for _ in range(tensor_count):
        name, rank = reader.text(), reader.number("I")
        dims = tuple(reader.number("Q") for _ in range(rank))
        places.append((name, dims, reader.number("I"), reader.number("Q")))
    alignment = keys.get("general.alignment", (4, 32))[1]
    start = -(-reader.at // alignment) * alignment
    tensors = {}
    for name, dims, kind, offset in places:
        count = 1
        for dim in dims:
            count *= dim
        elements, size = BLOCKS[kind]
        tensors[name] = kind, dims, reader.data[start + offset:start + offset + count // elements * size]
    return keys, tensors


def floats(raw):
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def pack(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def neighbours(rows, heads):
    """Rows of heads as GGUF files of Llama order them: those that turn together next to each other."""
    size = len(rows) // heads
    return [rows[head * size + half * (size // 2) + i]
            for head in range(heads) for i in range(size // 2) for half in range(2)]
