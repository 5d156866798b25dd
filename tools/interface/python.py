"""Python: a module of ctypes for every declaration of a folder of headers, and the keywords of Trainer with their types and defaults."""

import re
import textwrap

from names import camel, described

#: Names that numpy and PyTorch have for C's; words of an app that are others than the constant's name.
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i32": "int32", "bool32": "bool", "u8": "uint8", "i8": "int8"}
WORDS = {"no_preference": "none", "preference_pairs": "pairs", "preference_labelled": "labelled", "preference_groups": "groups"}
PLAIN = {"int": "c_int", "double": "c_double", "float": "c_float", "size_t": "c_size_t", "const char*": "c_char_p", "char*": "c_void_p",
         "void*": "c_void_p", "const void*": "c_void_p", "void": "None",
         **{f"{sign}int{bits}_t": f"c_{sign}int{bits}" for sign in ("", "u") for bits in (32, 64)}}
#: What C points to in options of a trainer, and its annotation.
OBJECTS = {
    "const double*": "Sequence[float]",
    "const graft_binding*": "Optional[Mapping[str, int]]",
    "const graft_parameter_group*": "Sequence[Mapping[str, Any]]",
    "const graft_input_format*": "Optional[Mapping[str, InputFormat]]",
    "const graft_data_set*": "Optional[DataSet]",
    "graft_model*": "Optional[Model]",
    "const graft_group*": "Any",
}
LEFT_OUT = {"graft_profile*"}


def word_of(constant):
    return DTYPES.get(constant.name, WORDS.get(constant.name, constant.name))


def words(enum):
    return [word_of(constant) for constant in enum.constants]


def enum_class(enum):
    """Members are the words of an app; those of the command line stand for the same."""
    lines = [f"class {camel(enum.name)}(enum.IntEnum):"]
    lines += [f"    {word_of(c)} = {c.value}{f'  # {c.text}' if c.text else ''}" for c in enum.constants]
    known = set(words(enum))
    lines += [f"    {name} = {c.value}" for c in enum.constants for name in (c.word.replace("-", "_"),)
              if name not in known and name.isidentifier() and DTYPES.get(name) is None and name != c.name]
    return [*lines, "", ""]


class Types:
    """ctypes for the types of C."""

    def __init__(self, declarations, enums, beside=None):
        self.declared, self.enums = declarations, enums
        self.layouts = {**(beside.layouts if beside else {}), **declarations.layouts}
        self.beside = set(beside.layouts) if beside else set()
        self.macros = {**(beside.macros if beside else {}), **declarations.macros}

    def struct(self, name):
        return f"_c.{camel(name)}" if name in self.beside else camel(name)

    def of(self, ctype):
        if ctype in PLAIN:
            return PLAIN[ctype]
        if ctype in self.enums:
            return "c_int"
        if ctype in self.declared.callbacks:
            return ctype
        if ctype.endswith("*"):
            to = re.sub(r"\s*(\bconst)?\*$", "", ctype)
            bare = to.removeprefix("const ")
            if bare in self.layouts:
                return f"POINTER({self.struct(bare)})"
            if to.endswith("*") or bare in PLAIN or bare in self.enums:
                return f"POINTER({self.of(to if to in PLAIN or to.endswith('*') else bare)})"
            return "c_void_p"
        return "c_void_p"  # a handle of Vulkan's

    def members(self, members):
        """(name, type); a text that has its length is no text that ends in zero."""
        for member, after in zip(members, [*members[1:], None]):
            if member.function:
                yield member.name, self.function(member.function)
            elif member.ctype == "const char*" and after and after.ctype == "size_t" and after.name.endswith("bytes"):
                yield member.name, "c_void_p"
            else:
                kind = self.of(member.ctype)
                yield member.name, f"{kind} * {self.macros.get(member.size, member.size)}" if member.size else kind

    def function(self, function):
        return f"CFUNCTYPE({', '.join([self.of(function.result), *(kind for _, kind in self.members(function.parameters))])})"

    def prototype(self, function):
        kinds = [self.function(p.function) if p.function else self.of(p.ctype) for p in function.parameters]
        return f"{function.name} = _function({', '.join([repr(function.name), self.of(function.result), *kinds])})"

    def in_order(self):
        """Structs, each after those that it points to."""
        done = {}

        def visit(name):
            if name in done or name in self.beside:
                return
            for member in self.layouts[name].members:
                for used in re.findall(r"graft_\w+", " ".join([member.ctype, *(p.ctype for p in member.function.parameters)]
                                                              if member.function else [member.ctype])):
                    if used in self.layouts and used != name:
                        visit(used)
            done[name] = self.layouts[name]

        for name in self.declared.layouts:
            visit(name)
        return done.values()


def comment(text, indent="    "):
    text = text.replace("\\", "\\\\").replace(" * ", " ")
    return textwrap.wrap(f'{indent}"""{text}"""', 140, subsequent_indent=indent) if text else []


def struct_class(layout, types):
    """A Structure, and what its members are beside their ctypes."""
    members, lines = layout.members, [f"class {camel(layout.name)}(Struct):", *comment(layout.text)]
    lines += ["    _fields_ = ["] + [f"        ({name!r}, {kind})," for name, kind in types.members(members)] + ["    ]"]
    counts = {m.name: after.name for m, after in zip(members, members[1:])
              if m.ctype.endswith("*") and after.ctype in ("size_t", "uint32_t") and after.name.endswith("_count")}
    switches = tuple(m.name for m in members if m.ctype == "int")
    enums = ", ".join(f"{m.name!r}: {camel(m.ctype)}" for m in members if m.ctype in types.enums)
    lines += [f"    _counts_ = {counts!r}"] if counts else []
    lines += [f"    _switches_ = {switches!r}"] if switches else []
    lines += [f"    _enums_ = {{{enums}}}"] if enums else []
    init = types.declared.functions.get(f"{layout.name}_init")
    if init:
        key = [p.name for p in init.parameters[1:]]
        lines.append(f"    _init_ = {(init.name, *key)!r}")
    return [*lines, "", ""]


def module(notice, library, declarations, enums, beside=None):
    """The module for the functions of one library; `beside`: the declarations of graft._c, which it may use."""
    types = Types(declarations, enums, beside)
    version = [declarations.macros[f"GRAFT_VERSION_{part}"] for part in ("MAJOR", "MINOR")] if not beside else []
    lines = [f'"""{notice}"""', "", *([] if beside else ["import enum"]), "from ctypes import (CFUNCTYPE, POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_int64,",
             "                    c_size_t, c_uint32, c_uint64, c_void_p)", "", "from ._library import Struct, functions_of"]
    lines += ["from . import _c", ""] if beside else [""]
    lines += [f"INTERFACE = {'.'.join(version)!r}"] if version else []
    lines += ["AXIS_OF_LABELS = -(1 << 31)"] if "GRAFT_AXIS_OF_LABELS" in declarations.macros else []
    lines += [f"_function = functions_of({library!r}, {'_c.' if beside else ''}INTERFACE)", "", ""]
    if not beside:
        lines += [line for enum in enums.values() for line in enum_class(enum)]
    lines += [line for layout in types.in_order() for line in struct_class(layout, types)]
    lines += [f"{name} = {types.function(callback)}" for name, callback in declarations.callbacks.items()]
    return lines + [types.prototype(function) for function in declarations.functions.values()]


def is_left_out(field):
    return field.ctype in LEFT_OUT or field.name in ("held_out", "no_evaluation", "drop_last", "shrinkable", "budget_beside_weights")


def annotation(field, enums):
    if field.ctype in enums:
        return "str"
    if field.is_list_of_names:
        return "Union[str, Sequence[str]]"
    if field.is_text:
        return "str"
    if field.ctype in OBJECTS:
        return OBJECTS[field.ctype]
    plain = "bool" if field.is_switch else "float" if field.is_real else "int"
    return f"Optional[{plain}]" if field.defaults else plain


def default(field, enums):
    if field.ctype in enums:
        return repr(DTYPES.get(field.default, field.default))
    if field.is_text and not field.is_list_of_names:
        return '""'
    if field.is_list_of_names or field.ctype in ("const double*", "const graft_parameter_group*"):
        return "()"
    if field.ctype in OBJECTS or field.defaults:
        return "None"
    if field.is_switch:
        return str(field.default == "1")
    return "AXIS_OF_LABELS" if field.default.startswith("GRAFT_") else field.default


def keywords(notice, struct, enums):
    """A module with the function that makes a trainer's options of keywords."""
    fields = [field for field in struct.fields if not is_left_out(field)]
    lines = [f'"""{notice}"""', "", "from __future__ import annotations", "", "from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union",
             "", "from . import _c", "from ._c import AXIS_OF_LABELS", "", "if TYPE_CHECKING:", "    from ._data import DataSet",
             "    from ._model import Model", "    from ._tensors import InputFormat", "", "", "def trainer_options(", "    *,"]
    lines += [f"    {field.name}: {annotation(field, enums)} = {default(field, enums)}," for field in fields]
    lines += [f") -> _c.{camel(struct.name)}:", '    """The options of a trainer.', ""]
    for field in fields:
        text = re.sub(r"\bGRAFT_AXIS_OF_LABELS\b", "AXIS_OF_LABELS", described(field)).replace("\\", "\\\\")
        if field.ctype in enums:
            text += f" One of {', '.join(words(enums[field.ctype]))}."
        lines.append(f"    {field.name}: {text}")
    return [*lines, '    """', f"    return _c.{camel(struct.name)}(**locals())"]


def modules(notice, description, declarations, convert):
    """All of Python's files; `convert`: the declarations of the converter's library."""
    enums = description.enums
    return {
        "python/_c.py": module(notice, "graft", declarations, enums),
        "python/_c_convert.py": module(notice, "graft_convert", convert, enums, declarations),
        "python/_trainer_options.py": keywords(notice, description.structs["graft_trainer_options"], enums),
    }
