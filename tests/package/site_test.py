"""The documents as a site: built without a warning or a dead link, with every command, every C function and every page.

usage: site_test.py GRAFT       skipped where mkdocs is missing
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main(graft):
    if shutil.which("mkdocs") is None:
        print("skipped: mkdocs is not here (Debian: mkdocs-material)")
        return 77
    with tempfile.TemporaryDirectory(prefix="graft_site_") as folder:
        out = pathlib.Path(folder)
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/docs/site.py", out, "--graft", graft], capture_output=True, text=True, check=False)
        if done.returncode != 0 or "WARNING" in done.stdout + done.stderr:
            sys.exit(f"site.py ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        pages, site = out / "pages", out / "site"
        listed = re.findall(r"^- \[[^\]]*\]\(([^)]+)\)", (pages / "llms.txt").read_text(encoding="utf-8"), re.M)
        missing = [path for path in listed if not (pages / path).is_file()]
        for page in ROOT.glob("docs/**/*.md"):
            name = page.relative_to(ROOT).as_posix()
            if name not in listed and name != "docs/README.md":
                missing.append(f"{name} in llms.txt")
        c_interface = "".join(path.read_text(encoding="utf-8") for path in (pages / "docs/reference/c").glob("*.md"))
        for header in (ROOT / "runtime/include/graft").glob("*.h"):
            for function in re.findall(r"^GRAFT_API [^;(]*?\b(graft_\w+)\(", header.read_text(encoding="utf-8"), re.M):
                if f"\n## {function}\n" not in c_interface:
                    missing.append(f"{function} in the C interface's pages")
        for name in ("train", "convert", "checkpoint", "bench"):
            if "`--help`" not in (pages / f"docs/reference/commands/{name}.md").read_text(encoding="utf-8").replace("-h,", ""):
                missing.append(f"the flags of graft {name}")
        # What search finds.
        index = (site / "search/search_index.json").read_text(encoding="utf-8")
        missing += [word for word in ("graft_trainer_options", "--budget", "Troubleshooting") if word not in index]
        if missing:
            sys.exit("The site lacks " + ", ".join(missing) + ".")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
