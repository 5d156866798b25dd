#!/usr/bin/env python3
"""Builds the documents as a site with search: the pages of docs/, each command's help, and the C interface from its headers.

usage: site.py OUT [--graft PROGRAM]      OUT/site is the site, OUT/pages what it is made of
PROGRAM: the command line tool whose help is shown; default: build/cli/tools/graft/graft.
Needs mkdocs and its material theme (Debian: mkdocs-material). A dead link is an error.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/interface"))

from declarations import Declarations  # noqa: E402
from description import Description  # noqa: E402

HEADERS = "runtime/include/graft"
C_PAGES, COMMAND_PAGES = "docs/reference/c", "docs/reference/commands"
PARTS = [("Start", "docs/start"), ("How-to", "docs/how-to"), ("Reference", "docs/reference"), ("C interface", C_PAGES),
         ("Commands", COMMAND_PAGES), ("Why", "docs/why"), ("More", "docs")]
LEFT_OUT = ("docs/README.md",)  # an index for readers of the source folder


def title_of(text):
    return re.search(r"^# (.+)$", text, re.M)[1].replace("`", "")


def cell(text):
    """A text of a header as Markdown: no mark but for `code`."""
    parts = text.split("`")
    return "`".join(re.sub(r"([|<>*_])", r"\\\1", part) if i % 2 == 0 else part.replace("|", "\\|") for i, part in enumerate(parts))


# ---- the C interface

def signature(function):
    parameters = ", ".join(one.ctype + " " + one.name if one.function is None else f"(*{one.name})(...)" for one in function.parameters)
    return f"{function.result} {function.name}({parameters or 'void'});"


def struct_table(layout, described):
    """Members with their defaults and ranges, where the header gives them."""
    fields = {field.name: field for field in described.fields} if described else {}
    rows = ["| member | type | default | |", "|---|---|---|---|"] if described else ["| member | type | |", "|---|---|---|"]
    for member in layout.members:
        if member.name == "struct_size":
            continue
        kind = "function" if member.function else f"{member.ctype}[{member.size}]" if member.size else member.ctype
        field = fields.get(member.name)
        text = cell(field.text if field else member.text)
        if field and field.range:
            low, high = "(" if field.range.low_open else "[", ")" if field.range.high_open else "]"
            text += f" Range: {cell(f'{low}{field.range.low}, {field.range.high}{high}')}."
        if field and field.readers:
            text += f" For: {cell(', '.join(field.readers))}."
        default = ""
        if field:
            default = ", ".join([field.default, *(f"{name} {value}" for name, value in field.defaults.items())])
        cells = [f"`{member.name}`", f"`{kind}`", *([cell(default)] if described else []), text]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def header_page(path, declared, description):
    """A page of one header: what it declares, in its order."""
    text = path.read_text(encoding="utf-8")
    about = " ".join(re.sub(r"^\s*\*(?!/)", "", re.match(r"/\*(.*?)\*/", text, re.S)[1], flags=re.M).split())
    lines = [f"# {path.name}", "", cell(about), ""]
    order = {}
    for name in [*declared.handles, *declared.layouts, *declared.callbacks, *declared.functions, *description.enums]:
        if name in declared.handles:
            found = re.search(rf"typedef struct {name} {name};", text)
        elif name in declared.layouts:
            found = re.search(rf"typedef struct {name} \{{", text)
        elif name in description.enums:
            found = re.search(rf"typedef enum {name}\b", text)
        else:
            found = re.search(rf"GRAFT_API [^;]*\b{name}\(|typedef [^;]*\(\*{name}\)", text)
        if found:
            order[found.end()] = name
    for _, name in sorted(order.items()):
        lines += [f"## {name}", ""]
        if name in declared.handles:
            lines += [cell(declared.handles[name]) or "A handle.", ""]
        elif name in declared.layouts:
            layout = declared.layouts[name]
            lines += [cell(layout.text), "", *struct_table(layout, description.structs.get(name)), ""]
        elif name in description.enums:
            lines += ["| constant | value | |", "|---|---|---|"]
            lines += [f"| `{one.c_name}` | {one.value} | {cell(one.text)} |" for one in description.enums[name].constants] + [""]
        else:
            function = declared.functions.get(name) or declared.callbacks[name]
            lines += ["```c", signature(function), "```", "", cell(function.text), ""]
    return "\n".join(lines)


def c_pages(pages):
    declared, description = Declarations(ROOT / HEADERS), Description(ROOT / HEADERS)
    rows = []
    for path in sorted((ROOT / HEADERS).glob("*.h")):
        write(pages / C_PAGES / f"{path.stem}.md", header_page(path, declared, description))
        rows.append(f"- [{path.name}]({path.stem}.md)")
    write(pages / C_PAGES / "index.md", "\n".join(["# All headers", "", "Written from the headers in `runtime/include/graft`.", "", *rows]) + "\n")


# ---- the commands

def help_of(graft, *command):
    done = subprocess.run([graft, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{graft} {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.rstrip()


def help_page(graft, *command):
    """The help of a command, with a table for each group of flags, and the same of the commands below it."""
    text = help_of(graft, *command, "--help")
    if "--help-all" in text:
        text = help_of(graft, *command, "--help-all")
    lines, below = ["#" * len(command) + f" graft {' '.join(command)}", ""], []
    group = ""
    for line in text.split("\n"):
        if re.fullmatch(r"\w[\w -]*:", line):
            group = line[:-1]
            if group not in ("Example", "Examples"):
                lines += ["", f"**{group}**", "", "| name | what it does |", "|---|---|"]
            continue
        flag = re.fullmatch(r"  (\S.*?)(?: {2,}(\S.*))?", line)
        if group in ("Example", "Examples"):
            lines += ["", "```", line.strip(), "```"] if line.strip() else []
        elif flag and group:
            name = flag[1].replace("|", "\\|")
            lines.append(f"| `{name}` | {cell(flag[2] or '')} |")
            if group == "Subcommands":
                below.append(flag[1])
        elif line.startswith("      ") and lines[-1].endswith("|  |"):
            lines[-1] = lines[-1][:-2] + cell(line.strip()) + " |"  # a long flag has its text on the next line
        else:
            lines += [cell(line), ""]
    for name in below:
        lines += ["", *help_page(graft, *command, name)]
    return lines


def command_pages(pages, graft):
    names = re.findall(r"^  ([a-z][a-z-]*) {2,}\S", help_of(graft, "--help"), re.M)
    if not names:
        sys.exit(f"{graft} --help names no command.")
    for name in names:
        write(pages / COMMAND_PAGES / f"{name}.md", "\n".join(help_page(graft, name)) + "\n")
    write(pages / COMMAND_PAGES / "index.md", "\n".join(["# All commands", "", "What `graft NAME --help-all` says.", "",
                                                          *(f"- [graft {name}]({name}.md)" for name in names)]) + "\n")


# ---- the site

def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def linked(pages, page, text):
    """The text of a page of the repository, with links that lead to pages or to copies of files; folders become names."""
    def target(match):
        shown, link = match[1], match[2]
        path, _, anchor = link.partition("#")
        if "://" in link or not path:
            return match[0]
        there = pathlib.Path(os.path.normpath(ROOT / page.parent / path))
        name = there.relative_to(ROOT).as_posix()
        if not there.exists():
            sys.exit(f"{page}: there is no {name}.")
        if name == HEADERS or name.startswith(f"{HEADERS}/") and name.endswith(".h"):
            name = f"{C_PAGES}/{'index' if name == HEADERS else there.stem}.md"
        elif name in LEFT_OUT:
            name = "README.md"
        elif there.is_dir():
            return f"{shown} (`{name}`)" if name not in shown else shown
        elif there.suffix != ".md":
            (pages / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(there, pages / name)
        return f"[{shown}]({os.path.relpath(name, page.parent)}{'#' + anchor if anchor else ''})"
    return re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", target, text)


def repository_pages():
    for path in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("platform/**/README.md")),
                 *sorted(ROOT.glob("tests/**/*.md")), *sorted(ROOT.glob("schema/*.md"))]:
        page = pathlib.Path(path).relative_to(ROOT) if pathlib.Path(path).is_absolute() else pathlib.Path(path)
        if page.as_posix() not in LEFT_OUT:
            yield page


def navigation(pages):
    listed = [{"graft": "README.md"}]
    for title, folder in PARTS:
        found = sorted((pages / folder).glob("*.md"), key=lambda path: (path.name != "index.md", path.name))
        listed.append({title: [{title_of(path.read_text(encoding="utf-8")): path.relative_to(pages).as_posix()} for path in found]})
    bindings = sorted((pages / "platform").glob("*/README.md"))
    listed.insert(4, {"Languages": [{title_of(path.read_text(encoding="utf-8")): path.relative_to(pages).as_posix()} for path in bindings]})
    return listed


def first_sentence(text):
    for line in text.split("\n"):
        if line and line[0].isalpha():
            return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.split(". ")[0]).rstrip(".:")
    return ""


def llms_txt(pages, nav):
    """The index that programs read (llmstxt.org): each page with a sentence."""
    lines = ["# graft", "", "> graft runs and fine-tunes neural networks as Vulkan compute shaders, where the data is.", ""]
    for part in nav[1:]:
        (title, listed), = part.items()
        lines += [f"## {title}", ""]
        for entry in listed:
            (name, path), = entry.items()
            said = first_sentence((pages / path).read_text(encoding="utf-8"))
            lines.append(f"- [{name}]({path}){': ' + said if said else ''}")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--graft", default=str(ROOT / "build/cli/tools/graft/graft"))
    given = parser.parse_args()
    if shutil.which("mkdocs") is None:
        sys.exit("mkdocs is not here (Debian: mkdocs-material).")
    pages, site = given.out / "pages", given.out / "site"
    shutil.rmtree(pages, ignore_errors=True)
    c_pages(pages)
    command_pages(pages, given.graft)
    for page in repository_pages():
        write(pages / page, linked(pages, page, (ROOT / page).read_text(encoding="utf-8")))
    nav = navigation(pages)
    write(pages / "llms.txt", llms_txt(pages, nav))
    palette = [{"media": f"(prefers-color-scheme: {scheme})", "scheme": theme} for scheme, theme in (("light", "default"), ("dark", "slate"))]
    # JSON is YAML.
    write(given.out / "mkdocs.yml", json.dumps({
        "site_name": "graft", "docs_dir": str(pages.resolve()), "site_dir": str(site.resolve()), "nav": nav, "use_directory_urls": False,
        "theme": {"name": "material", "font": False, "palette": palette, "features": ["navigation.top"]},
        "plugins": ["search"], "markdown_extensions": ["tables", "fenced_code", {"toc": {"permalink": True}}]}, indent=1))
    sys.exit(subprocess.run(["mkdocs", "build", "--strict", "--quiet", "--clean", "-f", given.out / "mkdocs.yml"], check=False).returncode)


if __name__ == "__main__":
    main()
