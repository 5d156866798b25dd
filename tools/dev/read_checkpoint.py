#!/usr/bin/env python3
"""Reads a checkpoint store by schema/CHECKPOINT_FORMAT.md alone: a second opinion on what graft writes.

    read_checkpoint.py STORE                  head, snapshots and steps, as JSON
    read_checkpoint.py STORE NUMBER OUT       writes every stream of a snapshot to OUT/<worker>.<index>, checked
    read_checkpoint.py STORE NUMBER OUT.safetensors
                                              writes its tensors, as `graft checkpoint export` does

Needs libzstd and libxxhash (Debian: libzstd1, libxxhash0). Recovers nothing and reads no encrypted stores: what is not
whole is an error.
"""

import ctypes
import json
import os
import struct
import sys

MAGICS = {"ROOT": b"GRFR", "snapshot": b"GRFS", "segment": b"GRFD", "journal": b"GRFJ"}
KINDS = "parameter optimizer accumulator schedule rng data_cursor metrics config other".split()
NO_PARENT = 0xFFFFFFFF
MAX_CHUNK = 4194304
ELEMENTS = {1: ("F32", 4), 2: ("I32", 4), 3: ("I32", 4), 4: ("F16", 2), 5: ("BF16", 2)}  # by number: type, bytes


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_128bits.restype = Hash128
XXHASH.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
ZSTD = ctypes.CDLL("libzstd.so.1")
ZSTD.ZSTD_decompress.restype = ctypes.c_size_t
ZSTD.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
ZSTD.ZSTD_isError.argtypes = [ctypes.c_size_t]


def hash128(data):
    value = XXHASH.XXH3_128bits(bytes(data), len(data))
    return struct.pack("<QQ", value.low, value.high)


def require(condition, what):
    if not condition:
        raise ValueError(what)


def decompress(data, limit):
    out = ctypes.create_string_buffer(limit)
    size = ZSTD.ZSTD_decompress(out, limit, data, len(data))
    require(not ZSTD.ZSTD_isError(size), "a chunk does not decompress")
    return out.raw[:size]


class Table:
    """A FlatBuffers table: fields by their order in the schema."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        vtable = at - struct.unpack_from("<i", data, at)[0]
        size = struct.unpack_from("<H", data, vtable)[0]
        self.fields = struct.unpack_from(f"<{(size - 4) // 2}H", data, vtable + 4)

    def place(self, field):
        return self.at + self.fields[field] if field < len(self.fields) and self.fields[field] else None

    def number(self, field, kind, default=0):
        place = self.place(field)
        return default if place is None else struct.unpack_from("<" + kind, self.data, place)[0]

    def vector(self, field):
        """Where the first element is, and how many there are."""
        place = self.place(field)
        if place is None:
            return 0, 0
        place += struct.unpack_from("<I", self.data, place)[0]
        return place + 4, struct.unpack_from("<I", self.data, place)[0]

    def text(self, field):
        start, size = self.vector(field)
        return self.data[start:start + size].decode()

    def offsets(self, field):
        start, count = self.vector(field)
        for at in range(start, start + 4 * count, 4):
            yield at + struct.unpack_from("<I", self.data, at)[0]


def parse_snapshot(tables):
    root = Table(tables, struct.unpack_from("<I", tables, 0)[0])
    snapshot = {"chunk_bytes": root.number(0, "I"), "step": root.number(1, "Q"), "loss": root.number(2, "d"),
                "wall_clock_ms": root.number(3, "q"), "tags": [], "metadata": {}, "streams": [], "chunks": []}
    for at in root.offsets(4):
        size = struct.unpack_from("<I", tables, at)[0]
        snapshot["tags"].append(tables[at + 4:at + 4 + size].decode())
    for at in root.offsets(5):
        pair = Table(tables, at)
        snapshot["metadata"][pair.text(0)] = pair.text(1)
    for at in root.offsets(6):
        table = Table(tables, at)
        start, count = table.vector(4)
        frozen = table.place(6)
        snapshot["streams"].append({
            "name": table.text(0), "kind": KINDS[table.number(1, "B", KINDS.index("other"))],
            "element": table.number(2, "B"), "bytes": table.number(3, "Q"), "worker": table.number(5, "I"),
            "frozen": None if frozen is None else tables[frozen:frozen + 16].hex(),
            "chunks": struct.unpack_from(f"<{count}I", tables, start) if count else ()})
    start, count = root.vector(7)
    for i in range(count):
        fields = struct.unpack_from("<16sQQQIIIBBBB", tables, start + 56 * i)
        snapshot["chunks"].append(dict(zip(("hash", "segment", "offset", "checksum", "stored", "decoded", "parent",
                                            "codec", "compression", "width", "reserved"), fields)))
    return snapshot


def from_planes(planes, count, width):
    return [int.from_bytes(bytes(planes[b * count + i] for b in range(width)), "little") for i in range(count)]


def apply_code(code, parent, width):
    sign, mask = 1 << (8 * width - 1), (1 << 8 * width) - 1
    ordered = parent + sign if parent < sign else ~parent & mask
    value = (ordered + (code // 2 if code % 2 == 0 else -(code + 1) // 2)) & mask
    return value - sign if value >= sign else ~value & mask


def undo_codec(chunk, data, parent):
    size, width = chunk["decoded"], chunk["width"]
    count = size // width
    rest = data[len(data) - (size - count * width):]
    require(chunk["codec"] == 4 or len(data) == size, "a chunk has a wrong size")
    if chunk["codec"] == 0:
        return data
    before = [] if parent is None else [int.from_bytes(parent[i * width:(i + 1) * width], "little")
                                        for i in range(count)]
    if chunk["codec"] == 4:
        changed = struct.unpack_from("<I", data, 0)[0]
        first_code = len(data) - len(rest) - changed * width
        codes, elements, at, done = from_planes(data[first_code:], changed, width), before, 0, 0
        for gap in data[4:first_code]:
            at += gap
            if gap < 255:
                elements[at] = apply_code(codes[done], elements[at], width)
                at, done = at + 1, done + 1
        require(done == changed, "gaps and codes do not fit")
    else:
        elements = from_planes(data, count, width)
        if chunk["codec"] == 2:
            elements = [apply_code(code, p, width) for code, p in zip(elements, before)]
        if chunk["codec"] == 3:
            elements = [x ^ p for x, p in zip(elements, before)]
    return b"".join(x.to_bytes(width, "little") for x in elements) + rest


class Store:
    def __init__(self, path):
        self.path = path
        self.store = None
        self.next, self.head, self.journal, _ = self.header("ROOT", self.read("ROOT"))

    def read(self, name):
        with open(os.path.join(self.path, name), "rb") as file:
            return file.read()

    def header(self, name, data):
        magic, version, store, number, a, b, c = struct.unpack_from("<4sIQQQQQ", data)
        kind = name.split("-")[0]
        require(magic == MAGICS[kind] and version == 1, f"{name} has another magic or version (or is encrypted)")
        covered = data[:48] + (data[64:] if kind in ("ROOT", "snapshot") else b"")
        require(hash128(covered) == data[48:64], f"{name} has a wrong hash")
        require(self.store in (None, store), f"{name} is of another store")
        require(kind == "ROOT" or name == f"{kind}-{number:016x}", f"{name} is number {number}")
        self.store = store
        return number, a, b, c

    def snapshots(self):
        for name in sorted(os.listdir(self.path)):
            if name.startswith("snapshot-") and len(name) == 25 and int(name[9:], 16) < self.next:
                yield int(name[9:], 16)

    def snapshot(self, number):
        name = f"snapshot-{number:016x}"
        data = self.read(name)
        _, size, parent, _ = self.header(name, data)
        require(len(data) == 64 + size, f"{name} has a wrong size")
        return dict(parse_snapshot(data[64:]), number=number, parent=parent)

    def chunk(self, snapshot, index):
        chunk = snapshot["chunks"][index]
        require(chunk["decoded"] <= MAX_CHUNK, "a chunk is too large")
        name = f"segment-{chunk['segment']:016x}"
        with open(os.path.join(self.path, name), "rb") as file:
            self.header(name, file.read(64))
            file.seek(chunk["offset"])
            data = file.read(chunk["stored"])
        require(hash128(data)[:8] == struct.pack("<Q", chunk["checksum"]), "a chunk has a wrong checksum")
        if chunk["compression"] == 1:
            data = decompress(data, chunk["decoded"])
        require(chunk["parent"] == NO_PARENT or chunk["parent"] < index, "a parent stands after its child")
        parent = None if chunk["parent"] == NO_PARENT else self.chunk(snapshot, chunk["parent"])
        data = undo_codec(chunk, data, parent)
        require(hash128(data) == chunk["hash"], "a chunk has a wrong hash")
        return data

    def stream(self, snapshot, stream):
        data = b"".join(self.chunk(snapshot, i) for i in stream["chunks"])
        require(len(data) == stream["bytes"], f"{stream['name']} has a wrong size")
        return data

    def steps(self):
        """Of the current journal, if it follows the head."""
        name = f"journal-{self.journal:016x}"
        data = self.read(name)
        _, follows, _, _ = self.header(name, data)
        require(follows == self.head, "the journal follows another snapshot")
        chain, at, steps = data[48:64], 64, []
        while at + 32 <= len(data):
            size, kind, step = struct.unpack_from("<IIQ", data, at)
            payload = data[at + 32:at + 32 + size]
            if len(payload) < size or hash128(chain + data[at:at + 16] + payload) != data[at + 16:at + 32]:
                break
            steps.append({"kind": kind, "step": step, "payload": payload.hex()})
            chain, at = data[at + 16:at + 32], at + 32 + size
        return steps


def parse_layouts(data):
    """By name: the sizes as stored, and which axis of the source model each of them is."""
    layouts, at = {}, 0

    def take(kind, count=1):
        nonlocal at
        size = struct.calcsize("<" + kind) * count
        require(at + size <= len(data), "the tensor layouts end early")
        at += size
        return struct.unpack_from(f"<{count}{kind}", data, at - size)

    while at < len(data):
        name = bytes(take("B", take("I")[0])).decode()
        sizes = take("Q", take("I")[0])
        axes = take("I", take("I")[0]) or tuple(range(len(sizes)))
        require(sorted(axes) == list(range(len(sizes))), f"{name} has a wrong order of axes")
        layouts[name] = sizes, axes
    return layouts


def in_source_order(data, width, sizes, axes):
    """The source model's shape, and the elements in its order."""
    shape, strides = [0] * len(sizes), [0] * len(sizes)
    step = width
    for i in reversed(range(len(sizes))):
        shape[axes[i]], strides[axes[i]] = sizes[i], step
        step *= sizes[i]
    require(step == len(data), "a tensor has a wrong size")
    places = [0]
    for size, stride in zip(shape, strides):
        places = [place + i * stride for place in places for i in range(size)]
    return shape, b"".join(data[place:place + width] for place in places)


def write_tensors(store, snapshot, path):
    streams = {s["name"]: s for s in snapshot["streams"] if s["worker"] == 0 and s["frozen"] is None}
    layouts = parse_layouts(store.stream(snapshot, streams["tensor_layouts"]))
    header, body = {"__metadata__": {"step": str(snapshot["step"])}}, b""
    for name, stream in streams.items():
        if name not in layouts:
            continue
        kind, width = ELEMENTS[stream["element"]]
        shape, data = in_source_order(store.stream(snapshot, stream), width, *layouts[name])
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def main(arguments):
    store = Store(arguments[0])
    if len(arguments) == 1:
        rows = []
        for number in store.snapshots():
            snapshot = store.snapshot(number)
            del snapshot["chunks"]
            rows.append(dict(snapshot, streams=[dict(s, chunks=len(s["chunks"])) for s in snapshot["streams"]]))
        print(json.dumps({"head": store.head, "snapshots": rows, "steps": store.steps()}, indent=1))
        return
    snapshot = store.snapshot(int(arguments[1]))
    if arguments[2].endswith(".safetensors"):
        write_tensors(store, snapshot, arguments[2])
        return
    os.makedirs(arguments[2], exist_ok=True)
    for index, stream in enumerate(snapshot["streams"]):
        if stream["frozen"] is None:
            data = store.stream(snapshot, stream)
            with open(os.path.join(arguments[2], f"{stream['worker']}.{index}"), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    main(sys.argv[1:])
