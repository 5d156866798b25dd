"""Checks the prose and the links of graft's documents.

    python3 tools/dev/prose.py [ROOT] [--list N]

The median sentence of all pages has at most 16 words, no sentence and no table cell more than 40, and no banned word
occurs. Code, addresses and headings do not count. Every relative link leads to a file, every anchor to a heading.
Prints a line for each violation; the exit status is 1 if there is any. --list prints the N longest sentences.
"""

import pathlib
import re
import statistics
import sys

MEDIAN, LONGEST = 16, 40
PAGES = "README.md", "tools/graft/recipes/*/README.md", "CHANGELOG.md", "SECURITY.md", "docs/**/*.md", "platform/*/README.md"
LINKED = PAGES + ("CONTRIBUTING.md", "schema/*.md", "platform/**/README.md")
# Pages that are not rewritten yet: their links are checked, their sentences are not.
EXEMPT = {"docs/testing.md", "docs/trust.md"}
BANNED = re.compile(
    r"\b(mended|anew|whoever|whosoever|whatsoever|whose|whereof|thereof|therein|therewith|beside|behind|alone|pace|picture|pictures"
    r"|figures|slots|kept|no number|so many|of its own|of their own|stands? in|stands? for|go(?:es)? on|going on|is no|are no|put on"
    r"|spelled out|spells out|counted output|no end|such as are|in place of|gives? way|as of|and nothing else)\b", re.I)


def pages(root, patterns):
    return sorted({page for pattern in patterns for page in root.glob(pattern)
                   if not {"build", "node_modules"} & set(page.relative_to(root).parts)})


def plain(text):
    """Text without markup: inline code becomes one word, a link its text."""
    text = re.sub(r"``.+?``|`[^`]*`", "CODE", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_|]{1,3}", " ", re.sub(r"https?://\S+", "CODE", text)).strip()


def units(page):
    """(line, text, whether it is a table's cell) for each paragraph, list item and cell of a page, code left out."""
    paragraph, first, fenced = [], 0, False
    for number, line in enumerate(page.splitlines() + [""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        row = line.lstrip().startswith("|")
        item = re.match(r"\s*([-*+]|\d+\.)\s+", line)
        if paragraph and (fence or fenced or row or item or not line.strip() or line.startswith("#")):
            yield first, " ".join(paragraph), False
            paragraph = []
        if fence or fenced or not line.strip() or re.match(r"#|\s*\|?[-:| ]+\|[-:| ]*$|<", line):
            continue
        if row:
            yield from ((number, cell, True) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")))
            continue
        first = first if paragraph else number
        paragraph.append(line[item.end():] if item else line.strip())


def sentences(text):
    return [one for one in re.split(r"(?<=[.!?])[\")\]]*\s+", plain(text)) if re.search(r"\w", one)]


def words(sentence):
    return len(re.findall(r"[\w'’.%/+-]*\w[\w'’.%/+-]*", sentence))


def prose_problems(name, text):
    """(problems, lengths of the sentences outside of tables) of a page."""
    problems, lengths = [], []
    for line, unit, cell in units(text):
        for sentence in sentences(unit):
            count = words(sentence)
            lengths += [] if cell else [(count, name, line, sentence)]
            if count > LONGEST:
                problems.append(f"{name}:{line}: a sentence of {count} words (at most {LONGEST}): {sentence[:90]} ...")
            if re.match(r"What\b[^?]*\.$", sentence):
                problems.append(f"{name}:{line}: begins with \"What\" and is not a question: {sentence[:90]}")
            problems += [f"{name}:{line}: banned: \"{found.group(0)}\": {sentence[:90]}" for found in BANNED.finditer(sentence)]
    return problems, lengths


def anchors(text):
    found = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one).lower()).replace(" ", "-") for one in found}


def link_problems(page, name, text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for address in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", address):
            continue
        path, _, anchor = address.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name}: {address} leads to no file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{name}: {address} leads to no heading"


def main():
    arguments = sys.argv[1:]
    shown = int(arguments.pop(arguments.index("--list") + 1)) if "--list" in arguments else 0
    root = pathlib.Path(next((one for one in arguments if one != "--list"), ".")).resolve()
    problems, lengths = [], []
    for page in pages(root, LINKED):
        name, text = str(page.relative_to(root)), page.read_text(encoding="utf-8")
        problems += link_problems(page, name, text)
        if page in pages(root, PAGES) and name not in EXEMPT:
            more, counted = prose_problems(name, text)
            problems, lengths = problems + more, lengths + counted
    for count, name, line, text in sorted(lengths, reverse=True)[:shown]:
        print(f"{count} {name}:{line}: {text}")
    median = statistics.median(count for count, *_ in lengths)
    problems += [f"The median sentence has {median:g} words (at most {MEDIAN})."] if median > MEDIAN else []
    print("\n".join(problems + [f"{len(lengths)} sentences: median {median:g} words, longest {max(lengths)[0]}; {len(problems)} problems."]))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
