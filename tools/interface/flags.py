"""The command line: flags that set a struct's C++ form, and which flags have no effect with which choice."""

import json
import re

from names import camel, listed

KINDS = {"graft_loss": "losses", "graft_optimizer": "optimizers", "graft_schedule": "schedules"}


def words_of(field, enums):
    """The readers of a field by the words of the command line, and the enum that they are of."""
    def named(name):
        return sum(constant.name in field.readers for constant in enums[name].constants)

    best = max(KINDS, key=named)
    if not named(best):
        return None, []
    known = {constant.name: constant.word for constant in enums[best].constants}
    return best, [known.get(reader, f"--{reader}") for reader in field.readers]


def sentence_of(field, struct):
    """The first sentence of a field's text, with flags for the fields that it names."""
    text = re.split(r"\.(?: (?=[A-Z])|$)", re.sub(r" \(GRAFT_\w+\)", "", field.text))[0]
    for other in struct.fields:
        if other.flag and "_" in other.name:
            text = re.sub(rf"\b{other.name}\b", other.flag, text)
    return text


def help_of(field, struct, enums):
    words = {constant.name: constant.word for enum in enums.values() for constant in enum.constants}
    own = "".join(f", {words[name]} {value}" for name, value in field.defaults.items())
    if field.ctype in enums:
        constants = enums[field.ctype].constants
        text = listed([constant.word for constant in constants], "or")
        return f"{sentence_of(field, struct)}: {text} (default: {enums[field.ctype].constant(field.default).word})"
    usual = [] if field.is_none or field.is_switch and not own or field.default.startswith("GRAFT_") else [f"default: {field.default}{own}"]
    _, words = words_of(field, enums)
    notes = [f"for {listed(words)}" if words else "", *usual]
    notes = "; ".join(note for note in notes if note)
    return f"{sentence_of(field, struct)}{f' ({notes})' if notes else ''}"


def check_of(field):
    r = field.range
    if field.is_whole:
        low = r.low if r and r.low not in ("-inf",) else ("0" if field.ctype.startswith("u") else "INT32_MIN")
        high = r.high if r and r.high != "inf" else ("INT64_MAX" if "64" in field.ctype else "UINT32_MAX" if field.ctype.startswith("u") else "INT32_MAX")
        return f"->check(whole({low}, {high}))"
    if not field.is_real or not r:
        return ""
    if r.high in ("inf", "1e30"):
        return "->check(positive())" if r.low_open else "->check(not_negative())" if float(r.low) == 0 else f"->check(number({r.low}, 1e30))"
    ends = {(True, True): "open", (True, False): "open_below", (False, True): "open_above", (False, False): "closed"}[r.low_open, r.high_open]
    return f"->check(number({r.low}, {r.high}, Ends::{ends}))"


def flag_of(field, struct, enums):
    text = json.dumps(help_of(field, struct, enums))
    to = f"options.{field.name}"
    if field.ctype in enums:
        return f"  add_choice(app, \"{field.flag}\", {to}, k{camel(field.ctype)}Words, {text});"
    if field.is_switch:
        if field.defaults:
            name = f"{field.flag},!--no-{field.flag.removeprefix('--')}"
            return f"  app.add_flag_function(\"{name}\", [&options](std::int64_t given) {{ {to} = given > 0; }}, {text});"
        return f"  app.add_flag(\"{field.flag}\", {to}, {text});"
    unit = "->transform(duration())->type_name(\"TIME\")" if field.unit == "s" else ""
    return f"  app.add_option(\"{field.flag}\", {to}, {text}){check_of(field)}{unit}{'->delimiter(' + chr(39) + ',' + chr(39) + ')' if field.count or field.is_list_of_names else ''};"


def flags(struct, enums):
    """A header of functions add_..._flags(app, options), one for each section of the struct that has flags."""
    lines = []
    for name in KINDS:
        constants = enums[name].constants
        lines += [f"/// {name} in words, each with its other spelling.", f"inline constexpr Word k{camel(name)}Words[] = {{"]
        lines += [f"    {{\"{c.word}\", \"{c.name}\", {c.c_name}}}," for c in constants] + ["};", ""]
    options = camel(struct.name)
    for section in dict.fromkeys(field.section for field in struct.fields if field.flag):
        lines += [f"inline void add_{section}_flags(CLI::App& app, {options}& options) {{", f"  const HelpGroup group(app, \"{section.capitalize()}\");"]
        lines += [flag_of(field, struct, enums) for field in struct.fields if field.flag and field.section == section] + ["}", ""]
    lines += ["/// Flags that one choice or another reads.", "inline constexpr Readers kReaders[] = {"]
    for field in struct.fields:
        name, words = words_of(field, enums)
        if not field.flag or name is None:
            continue
        known = {constant.name: constant.value for constant in enums[name].constants}
        mask = sum(1 << known[reader] for reader in field.readers if reader in known)
        others = [reader for reader in field.readers if reader not in known]
        lines.append(f"    {{\"{field.flag}\", Choice::{KINDS[name]}, {mask:#x}, \"{listed(words)}\", {json.dumps('--' + others[0]) if others else 'nullptr'}}},")
    return lines + ["};"]
