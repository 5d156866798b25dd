"""Every declaration of the C headers: handles, structs with all members, callbacks and functions.

description.py reads the comments of options; this module reads what a language needs to call C.
"""

import dataclasses
import pathlib
import re


@dataclasses.dataclass
class Member:
    """A member of a struct or a parameter of a function."""
    name: str
    ctype: str  #: as in "const char*"; "function" where `function` is set
    size: str = ""  #: of an array: a number or a macro's name
    function: "Function | None" = None
    text: str = ""  #: the comment


@dataclasses.dataclass
class Function:
    name: str
    result: str
    parameters: list
    text: str = ""


@dataclasses.dataclass
class Layout:
    """A struct with all its members, struct_size and counts too, in C's order."""
    name: str
    members: list
    text: str = ""


COMMENT = r"(?:/\*(?! ----)(?P<text>(?:(?!\*/).)*)\*/\s*)?"  # a title of a section belongs to no declaration
POINTER_TO_FUNCTION = re.compile(r"(?P<result>[\w ]+?\*?)\s*\(\*(?P<name>\w+)\)\((?P<parameters>.*)\)", re.S)


def plain(ctype):
    """A type without `struct` and with its stars close to it: const char* const*."""
    return re.sub(r"\s*\*", "*", " ".join(ctype.replace("struct ", "").split())).replace("*const", "* const")


def member_of(text):
    """`const char* name`, `int64_t dims[8]` or `void (*log)(void* user)`."""
    text = " ".join(text.split())
    pointed = POINTER_TO_FUNCTION.fullmatch(text)
    if pointed:
        return Member(pointed["name"], "function", function=function_of(**pointed.groupdict()))
    match = re.fullmatch(r"(.*?[\s*])(\w+)(?:\[(\w+)\])?", text)
    return Member(match[2], plain(match[1]), match[3] or "")


def parameters_of(text):
    """Parted at commas that are in no parentheses; `void` is none."""
    parts, depth, last = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(last)
            last = ""
        else:
            last += c
    return [member_of(part) for part in [*parts, last] if part.strip() not in ("", "void")]


def function_of(name, result, parameters, text=""):
    return Function(name, plain(result), parameters_of(parameters), " ".join((text or "").split()))


def members_of(body):
    """Of a struct; `uint64_t a, b;` is two."""
    found = []
    for match in re.finditer(COMMENT + r"(?P<declared>[^;/]+);(?:[ \t]*/\*(?P<after>(?:(?!\*/).)*)\*/)?", body, re.S):
        declared, text = match["declared"].strip(), " ".join((match["after"] or match["text"] or "").split())
        if "(" in declared or "," not in declared:
            names = [declared]
        else:
            first, *others = declared.split(",")
            kind = re.fullmatch(r"(.*[\s*])\w+(?:\[\w+\])?", first.strip())[1]
            names = [first, *(f"{kind} {other}" for other in others)]
        found += [dataclasses.replace(member_of(one), text=text) for one in names]
    return found


class Declarations:
    def __init__(self, folder):
        self.handles = {}  #: their comments by name
        self.layouts, self.callbacks, self.functions, self.macros = {}, {}, {}, {}
        for path in sorted(pathlib.Path(folder).glob("*.h")):
            self.read(path.read_text(encoding="utf-8"))
        for layout in self.layouts:
            self.handles.pop(layout, None)

    def read(self, text):
        text = re.sub(r"^ \*(?!/) ?", "   ", text, flags=re.M)  # a star before each line of a comment
        for match in re.finditer(r"^#define (GRAFT_\w+) (-?\w+)", text, re.M):
            self.macros[match[1]] = match[2]
        text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
        for match in re.finditer(COMMENT + r"typedef struct (?P<name>graft_\w+) (?P=name);", text, re.S):
            self.handles[match["name"]] = " ".join((match["text"] or "").split())
        for match in re.finditer(COMMENT + r"typedef struct (?P<name>graft_\w+) \{(?P<body>.*?)\n\} (?P=name);", text, re.S):
            self.layouts[match["name"]] = Layout(match["name"], members_of(match["body"]), " ".join((match["text"] or "").split()))
        for match in re.finditer(COMMENT + r"typedef (?P<result>[\w ]+?\*?) ?\(\*(?P<name>graft_\w+)\)\((?P<parameters>[^;]*)\);", text, re.S):
            self.callbacks[match["name"]] = function_of(**match.groupdict())
        for match in re.finditer(COMMENT + r"GRAFT_API (?P<result>[\w ]+?\**) ?(?P<name>graft_\w+)\((?P<parameters>[^;]*)\);", text, re.S):
            self.functions[match["name"]] = function_of(**match.groupdict())
