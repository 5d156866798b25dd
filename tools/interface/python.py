"""Python: the attributes of the native options, and the keywords of Trainer with their types and defaults."""

import re

from names import camel, described

#: What C points to: the annotation, and what makes a native value of `{0}`.
OBJECTS = {
    "const double*": ("Sequence[float]", "list({0})"),
    "const graft_binding*": ("Optional[Mapping[str, int]]", "dict({0} or {{}})"),
    "const graft_parameter_group*": ("Sequence[Mapping[str, Any]]", "[fill(_graft.ParameterGroup(), **group) for group in {0}]"),
    "const graft_input_format*": ("Optional[Mapping[str, InputFormat]]", "native_formats({0})"),
}
#: What is set by a call: the annotation, and the call with {0}, the package's object.
SETTERS = {
    "const graft_data_set*": ("Optional[DataSet]", "options.set_data({0}._native)"),
    "graft_model*": ("Optional[Model]", "options.set_teacher({0}._native)"),
    "const graft_group*": ("Any", "{0}.set_group(options)"),
}
LEFT_OUT = {"graft_profile*"}
PRECISIONS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def is_left_out(field):
    return field.ctype in LEFT_OUT or field.name in ("held_out", "no_evaluation", "drop_last", "shrinkable", "budget_beside_weights")


def words(enum):
    return [PRECISIONS.get(constant.name, constant.name) for constant in enum.constants]


def binding(struct, enums):
    """C++: attributes of the pybind11 class."""
    name = camel(struct.name)
    lines = [f"inline void bind(py::class_<{name}>& options) {{"]
    for field in struct.fields:
        if is_left_out(field) or field.ctype in SETTERS:
            continue
        if field.ctype in enums:
            lines.append(f"  number(options, \"{field.name}\", &{name}::{field.name});")
        elif field.ctype == "const graft_binding*":
            lines.append(f"  sizes(options, \"{field.name}\", &{name}::{field.name});")
        else:
            lines.append(f"  options.def_readwrite(\"{field.name}\", &{name}::{field.name});")
    return lines + ["}"]


def annotation(field, enums):
    if field.ctype in enums:
        return "str"
    if field.is_list_of_names:
        return "Union[str, Sequence[str]]"
    if field.is_text:
        return "str"
    if field.ctype in OBJECTS:
        return OBJECTS[field.ctype][0]
    if field.ctype in SETTERS:
        return SETTERS[field.ctype][0]
    plain = "bool" if field.is_switch else "float" if field.is_real else "int"
    return f"Optional[{plain}]" if field.defaults else plain


def default(field, enums):
    if field.ctype in enums:
        return repr(PRECISIONS.get(field.default, field.default))
    if field.is_text and not field.is_list_of_names:
        return '""'
    if field.is_list_of_names or field.ctype in ("const double*", "const graft_parameter_group*"):
        return "()"
    if field.ctype in OBJECTS or field.ctype in SETTERS or field.defaults:
        return "None"
    if field.is_switch:
        return str(field.default == "1")
    return "AXIS_OF_LABELS" if field.default.startswith("GRAFT_") else field.default


def keywords(struct, enums):
    """A module with the function that makes native options of keywords, and with the words of enums."""
    used = dict.fromkeys(field.ctype for field in struct.fields if field.ctype in enums)
    lines = ["from __future__ import annotations", "", "from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union", "",
             "from . import _graft", "from ._tensors import InputFormat, fill, native_formats, word", "", "if TYPE_CHECKING:",
             "    from ._data import DataSet", "    from ._model import Model", "", "AXIS_OF_LABELS = -(1 << 31)"]
    for ctype in used:
        known = {word: c.value for c, word in zip(enums[ctype].constants, words(enums[ctype]))}
        known.update({c.word: c.value for c in enums[ctype].constants})  # the command line's
        lines.append(f"{ctype.removeprefix('graft_').upper()}_WORDS = {known!r}")
    fields = [field for field in struct.fields if not is_left_out(field)]
    lines += ["", "", "def _names(given: Union[str, Sequence[str]]) -> list[str]:", "    return [given] if isinstance(given, str) else list(given)", "",
              "", "def trainer_options(", "    *,"]
    lines += [f"    {field.name}: {annotation(field, enums)} = {default(field, enums)}," for field in fields]
    lines += [") -> Any:", '    """The options of a trainer as the native module takes them.', ""]
    for field in fields:
        text = re.sub(r"\bGRAFT_AXIS_OF_LABELS\b", "AXIS_OF_LABELS", described(field)).replace("\\", "\\\\")
        if field.ctype in enums:
            text += f" One of {', '.join(words(enums[field.ctype]))}."
        lines.append(f"    {field.name}: {text}")
    lines += ['    """', f"    options = _graft.{camel(struct.name)}()"]
    for field in fields:
        name, to = field.name, f"options.{field.name}"
        if field.ctype in enums:
            lines.append(f"    {to} = word(\"{name}\", {name}, {field.ctype.removeprefix('graft_').upper()}_WORDS)")
        elif field.ctype in SETTERS:
            lines += [f"    if {name} is not None:", f"        {SETTERS[field.ctype][1].format(name)}"]
        elif field.is_list_of_names:
            lines.append(f"    {to} = _names({name})")
        elif field.ctype in OBJECTS:
            lines.append(f"    {to} = {OBJECTS[field.ctype][1].format(name)}")
        else:
            lines.append(f"    {to} = {name}")
    return lines + ["    return options"]
