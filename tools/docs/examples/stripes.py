"""Writes train/ and test/, folders of striped images, for docs/how-to/train-on-images.md."""

import pathlib, random, struct, zlib
random.seed(0)
def png(rows):  # eight bits of gray
    raw = b"".join(b"\0" + bytes(row) for row in rows)
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
for part, count in ("train", 200), ("test", 50):
    for kind in "horizontal", "vertical":
        folder = pathlib.Path(part, kind)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            wide, shift = random.randint(3, 8), random.randint(0, 8)
            pixel = lambda x, y: min(255, max(0, int(127 + 100 * (((y if kind == "horizontal" else x) + shift) // wide % 2) + random.gauss(0, 40))))
            (folder / f"{i}.png").write_bytes(png([[pixel(x, y) for x in range(32)] for y in range(32)]))
