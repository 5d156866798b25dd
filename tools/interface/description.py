"""What the C headers say: enums, and structs with their fields and the tags at the end of each comment.

A tag is a word with a colon at the end of a comment, and reads as a sentence:
    /* Decay of the mean of squares. Default: 0.999; lion 0.99. Range: [0, 1). For: adamw, lion. Flag: --beta2. */
    double beta2;
"""

import dataclasses
import pathlib
import re

TAGS = ("Default", "Range", "Unit", "For", "Flag", "Name")
INFINITY = ("inf", "-inf")


class Wrong(Exception):
    """A header that breaks a rule of the description."""


@dataclasses.dataclass
class Range:
    low: str
    high: str
    low_open: bool
    high_open: bool


@dataclasses.dataclass
class Field:
    name: str
    ctype: str
    text: str = ""  #: what it is, without the tags
    default: str = ""
    defaults: dict = dataclasses.field(default_factory=dict)  #: by the name of an enum's constant
    range: "Range | None" = None
    unit: str = ""
    readers: tuple = ()  #: names of losses, optimizers or schedules; empty: all
    flag: str = ""
    count: str = ""  #: the field that counts what this one points to
    section: str = ""  #: of the struct, as in "loss"

    @property
    def is_switch(self):
        return self.ctype == "int"

    @property
    def is_text(self):
        return self.ctype == "const char*"

    @property
    def is_list_of_names(self):
        return self.is_text and "separated by commas" in self.text

    @property
    def is_real(self):
        return self.ctype == "double"

    @property
    def is_whole(self):
        return re.fullmatch(r"u?int(32|64)_t", self.ctype) is not None

    @property
    def is_number(self):
        return self.is_real or self.is_whole

    @property
    def is_none(self):
        """No value is a default of its own."""
        return self.default.split(",")[0] == "none"

    def value_for(self, name):
        return self.defaults.get(name, self.default)


@dataclasses.dataclass
class Constant:
    c_name: str
    value: int
    text: str
    name: str  #: as in graft_loss's "cross_entropy"
    word: str  #: as the command line says it


@dataclasses.dataclass
class Enum:
    name: str
    constants: list

    def constant(self, name):
        for constant in self.constants:
            if constant.name == name:
                return constant
        raise Wrong(f"{self.name} has no constant {name}.")


@dataclasses.dataclass
class Struct:
    name: str
    text: str
    fields: list
    is_element: bool = False  #: of an array: it has no struct_size


def tags_of(comment, where):
    """The text before the tags, and the tags."""
    flat = " ".join(comment.split())
    found = list(re.finditer(r"(?:^|(?<=\. )|(?<=\.\)) )(" + "|".join(TAGS) + r"): ", flat))
    tags = {}
    for i, match in enumerate(found):
        end = found[i + 1].start() if i + 1 < len(found) else len(flat)
        value = flat[match.end():end].strip()
        if not value.endswith("."):
            raise Wrong(f"{where}: the tag {match.group(1)} does not end with a full stop.")
        if match.group(1) in tags:
            raise Wrong(f"{where}: the tag {match.group(1)} is there twice.")
        tags[match.group(1)] = value[:-1]
    return flat[:found[0].start()].strip() if found else flat, tags


def range_of(text, where):
    match = re.fullmatch(r"([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])", text)
    if not match:
        raise Wrong(f"{where}: the range {text} is not like [0, 1).")
    for end in match.group(2, 3):
        if end not in INFINITY:
            float(end)
    return Range(match.group(2), match.group(3), match.group(1) == "(", match.group(4) == ")")


def fill(field, comment, where):
    field.text, tags = tags_of(comment, where)
    first, *others = tags.get("Default", "").split(";")
    field.default = first.strip()
    for pair in ",".join(others).split(","):
        if pair.strip():
            name, value = pair.split()
            field.defaults[name] = value
    if "Range" in tags:
        field.range = range_of(tags["Range"], where)
    field.unit = tags.get("Unit", "")
    if field.unit not in ("", "s"):
        raise Wrong(f"{where}: the unit {field.unit} is not known.")
    field.readers = tuple(name.strip() for name in tags.get("For", "").split(",") if name.strip())
    field.flag = tags.get("Flag", "")


SECTION = re.compile(r"\s*/\* ---- (\w+).*?---- \*/")
MEMBER = re.compile(r"\s*(?:/\*(?P<comment>(?:(?!\*/).)*)\*/)?\s*(?P<type>(?:const )?(?:struct )?\w+(?: ?\*)?(?: const\*)?)\s*"
                    r"(?:(?P<name>\w+)|\(\*(?P<function>\w+)\)\([^;]*\));", re.S)


def fields_of(name, body):
    fields, at, section = [], 0, ""
    while body[at:].strip():
        begins = SECTION.match(body, at)
        if begins:
            section, at = begins[1].lower(), begins.end()
            continue
        match = MEMBER.match(body, at)
        if not match:
            raise Wrong(f"{name}: cannot read {' '.join(body[at:at + 80].split())!r}.")
        at = match.end()
        ctype = "function" if match["function"] else match["type"].replace("struct ", "").replace(" *", "*")
        field = Field(match["name"] or match["function"], ctype, section=section)
        if field.name == "struct_size":
            continue
        if field.ctype == "size_t" and field.name.endswith(("_count", "_bytes")):
            fields[-1].count = field.name
            continue
        fill(field, match["comment"] or "", f"{name}.{field.name}")
        fields.append(field)
    return fields


def common_prefix(names):
    """The words that all names begin with, as in GRAFT_SERVER_; a name keeps its last word."""
    words = [name.split("_")[:-1] for name in names]
    shared = [first for first, *others in zip(*words) if all(other == first for other in others)]
    return "".join(f"{word}_" for word in shared[:next((i for i, pair in enumerate(zip(*words)) if len(set(pair)) > 1), len(shared))])


def constants_of(enum, body):
    prefix = ""
    found = re.findall(r"(GRAFT_\w+)\s*=\s*(-?\d+),?\s*(?:/\*(.*?)\*/)?", body, flags=re.S)
    names = [name for name, _, _ in found]
    if len(names) > 1:
        prefix = common_prefix(names)
    constants = []
    for c_name, value, comment in found:
        text, tags = tags_of(comment, f"{enum}.{c_name}")
        name = c_name[len(prefix or "GRAFT_"):].lower()
        constants.append(Constant(c_name, int(value), text, name, tags.get("Name", name)))
    return constants


class Description:
    def __init__(self, folder):
        self.structs, self.enums = {}, {}
        self.headers = []  #: those with such structs
        for path in sorted(pathlib.Path(folder).glob("*.h")):
            before = len(self.structs)
            self.read(path.read_text(encoding="utf-8"))
            if len(self.structs) > before:
                self.headers.append(path.name)

    def read(self, text):
        for match in re.finditer(r"typedef enum (graft_\w+)[^{]*\{(.*?)\}\s*\1;", text, flags=re.S):
            self.enums[match[1]] = Enum(match[1], constants_of(match[1], match[2]))
        for match in re.finditer(r"(?:/\*((?:(?!\*/).)*)\*/\s*)?typedef struct (graft_\w+)\s*\{(.*?)\}\s*\2;", text, flags=re.S):
            if "Default:" in match[3]:  # others are written by hand
                self.structs[match[2]] = Struct(match[2], " ".join((match[1] or "").split()), fields_of(match[2], match[3]),
                                                "struct_size" not in match[3])

    def check(self):
        """Each field has a default that its type and range allow; each name is a constant's."""
        for struct in self.structs.values():
            names = {c.name for f in struct.fields if f.ctype in self.enums for c in self.enums[f.ctype].constants}
            for field in struct.fields:
                where = f"{struct.name}.{field.name}"
                if not field.default:
                    raise Wrong(f"{where} has no default.")
                for name in (*field.defaults, *field.readers):
                    if name not in names and name not in {f.name for f in struct.fields}:
                        raise Wrong(f"{where} names {name}, which is no constant and no field of the struct.")
                for value in (field.default, *field.defaults.values()):
                    self.check_value(field, value, where)

    def check_value(self, field, value, where):
        if field.ctype in self.enums:
            self.enums[field.ctype].constant(value)
        elif field.is_switch and value not in ("0", "1"):
            raise Wrong(f"{where} is a switch; its default is {value}.")
        elif field.is_number and not value.startswith("GRAFT_"):
            number, r = float(value), field.range
            if r and not (float(r.low) <= number <= float(r.high)) or r and (
                    (r.low_open and number == float(r.low)) or (r.high_open and number == float(r.high))):
                raise Wrong(f"{where}: the default {value} is out of the range.")
        elif not field.is_switch and not field.is_number and not value.startswith("none"):
            raise Wrong(f"{where} points to something; its default must be none.")
