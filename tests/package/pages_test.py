"""The commands of docs/start and docs/how-to, page by page in one folder, print what the pages say.

    /usr/bin/python3 tests/package/pages_test.py GRAFT [PAGE ...]

A line after "$" runs; the lines up to the next one have to be parts of lines that it prints, with numbers, times and the
device's name as they come, and "..." for any. A command that prints an error by its page may fail, others may not. Pages
about language models need TinyStories-656K of GRAFT_TEST_DATA (or shared/data beside the repository), which a hub of this
process serves, pages with PyTorch need it; without, they are skipped, which is said. PAGE: these alone, after docs/README.md.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/cli"))

import hub_test  # noqa: E402

DATA = pathlib.Path(os.environ.get("GRAFT_TEST_DATA", ROOT / "../shared/data")) / "llm-tinystories-656k"
FIRST = "../README", "README", "start/first-run", "start/pytorch", "start/lora", "how-to/share-an-adapter", "how-to/run-a-model"
STORIES = {"start/lora"} | {f"how-to/{name}" for name in (
    "share-an-adapter", "add-tokens", "learn-from-preferences", "distill", "search-with-embeddings", "generate-text", "quantize")}
TORCH = {"start/pytorch", "how-to/train-on-a-table"}


def plain(line):
    """A line without what differs from run to run: numbers, times, the device, alignment."""
    line = re.sub(r"\([^()]*\d m?s\b[^()]*\)", "", line)
    line = re.sub(r"\bon \S+ \([^()]*(\([^()]*\))?[^()]*\)", "on DEVICE", line)
    line = re.sub(r"-?\d[\d.,:e+-]*( [kMG]?i?B| [kMG])?", "#", line)
    return " ".join(line.split())


def steps(text):
    """(command, expected lines) of the fenced blocks of a page; scripts of the page as commands that write them."""
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S):
        if block.group(1) == "python":
            name = re.findall(r"`(\w+\.py)`", text[:block.start()])[-1]
            yield f"cat > {name} <<'END'\n{block.group(2)}END", []
        elif not block.group(1):
            command, expected = None, []
            for line in block.group(2).splitlines():
                if line.startswith("$ ") or (command and not expected and (command.endswith(("\\", "&")) or command.count('"') % 2)):
                    if line.startswith("$ ") and command:
                        yield command, expected
                    command, expected = (line[2:], []) if line.startswith("$ ") else (f"{command}\n{line}", [])
                elif command and line.strip() and line.strip() != "...":
                    expected.append(line)
            if command:
                yield command, expected


def run_page(name, folder, environment):
    faults = []
    for command, expected in steps((ROOT / f"docs/{name}.md").read_text(encoding="utf-8")):
        done = subprocess.run(["bash", "-c", environment["SHELL_STATE"] + command], cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        if re.match(r"[A-Z_]+=", command):  # a variable of the shell: for the commands after it
            environment["SHELL_STATE"] += command + "\n"
        printed = [plain(line) for line in done.stdout.splitlines()]
        missing = [line for line in expected if not any(plain(line) in one for one in printed)]
        if missing or (done.returncode and not any(line.startswith("graft: ") for line in expected)):
            faults.append(f"docs/{name}.md: $ {command}\nexit status {done.returncode}; not printed:\n" + "\n".join(missing) +
                          f"\nprinted:\n{done.stdout[-3000:]}")
    return faults


def main():
    graft, chosen = os.path.abspath(sys.argv[1]), sys.argv[2:]
    pages = sorted(str(page.relative_to(ROOT / "docs"))[:-3] for page in (ROOT / "docs/how-to").glob("*.md"))
    pages = [*FIRST, *(page for page in pages if page not in FIRST), "start/install", "start/android"]
    with_torch = subprocess.run(["/usr/bin/python3", "-c", "import torch, onnx"], capture_output=True).returncode == 0
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, target in (("tools", ROOT / "tools"), ("tests", ROOT / "tests"),
                             ("bin/graft", graft), ("bin/python3", "/usr/bin/python3")):
            pathlib.Path(folder, name).parent.mkdir(exist_ok=True)
            pathlib.Path(folder, name).symlink_to(target)
        hub = hub_test.Hub()
        if DATA.is_dir():
            hub.repositories["raincandy-u/TinyStories-656K"] = {
                path.name: path.read_bytes() for path in DATA.iterdir() if path.suffix in (".json", ".safetensors")}
        environment = dict(os.environ, HF_ENDPOINT=f"http://127.0.0.1:{hub.server_port}", HF_TOKEN="", no_proxy="127.0.0.1", PATH=f"{folder}/bin:{os.environ['PATH']}", XDG_CACHE_HOME=f"{folder}/cache",
                           PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore", SHELL_STATE="", COLUMNS="200")
        for page in pages:
            if chosen and page not in chosen and page not in FIRST[:2]:
                continue
            if (page in STORIES and not DATA.is_dir()) or (page in TORCH and not with_torch):
                print(f"{page}: skipped, without its {'model' if page in STORIES else 'PyTorch'}", flush=True)
                continue
            faults = run_page(page, folder, environment)
            print(f"{page}: {len(faults)} commands do otherwise", flush=True)
            failed += faults
    print("\n\n".join(failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
