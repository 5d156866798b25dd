"""Writes tones/ and tones-test/, folders of recordings, for docs/how-to/train-on-recordings.md."""

import math, pathlib, random, struct, wave
random.seed(0)
for part, count in ("tones", 60), ("tones-test", 20):
    for kind, low in ("high", 1500), ("low", 300):
        folder = pathlib.Path(part, kind)
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(count):
            rate = low * random.uniform(0.8, 1.2)
            with wave.open(str(folder / f"{i}.wav"), "wb") as file:
                file.setnchannels(1), file.setsampwidth(2), file.setframerate(8000)
                file.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(6.283 * rate * t / 8000) + random.gauss(0, 2000))) for t in range(4000)))
