#!/usr/bin/env python3
"""Writes what each language and the command line have of the options that the C headers describe.

usage: generate.py HEADERS OUT     HEADERS: runtime/include/graft; OUT: a folder of the build
A file is written only if its text changes.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import calls  # noqa: E402
import cpp  # noqa: E402
import flags  # noqa: E402
import java  # noqa: E402
import python  # noqa: E402
import swift  # noqa: E402
from declarations import Declarations  # noqa: E402
from description import Description, Wrong  # noqa: E402

NOTICE = "Written by tools/interface/generate.py from runtime/include/graft. Change the comments there."
CONVERT_HEADERS = pathlib.Path(__file__).parents[2] / "tools/convert/include/graft"
#: Structs that have a generated form, each with the field that its defaults depend on.
STRUCTS = {"graft_trainer_options": "optimizer"}
#: Structs whose C++ form is written by hand: elements of lists.
BY_HAND = ("graft_parameter_group",)


def files(description, declarations):
    """What is written: texts by path below OUT."""
    enums = description.enums
    out = {}
    plain = [struct for name, struct in sorted(description.structs.items()) if name not in STRUCTS]
    includes = [f'#include "graft/{header}"' for header in sorted(description.headers)]
    defaults = [f"// {NOTICE}", "#pragma once", *includes, "", "namespace graft::c_api {", "",
                "/// What a struct is if nothing is said: zeros, unless its description says more.", "template <typename Struct>",
                "Struct defaults() {", "  return {};", "}", ""]
    for name, key in STRUCTS.items():
        defaults += [*cpp.init(description.structs[name], enums, key), ""]
    for one in plain:
        defaults += [*cpp.init(one, enums), ""]
    out["interface/defaults.h"] = [*defaults, "}  // namespace graft::c_api"]
    with_init = [one for one in plain if cpp.needs_init(one, enums)]
    out["interface/ranges.h"] = [f"// {NOTICE}", "#pragma once", *includes, '#include "runtime/c_api/c_ranges.h"', "", "namespace graft::c_api {", "",
                                 *(line for _, one in sorted(description.structs.items()) for line in cpp.ranges(one)), "}  // namespace graft::c_api"]
    out["interface/inits.h"] = [f"// {NOTICE}", "#pragma once", '#include "interface/defaults.h"', '#include "runtime/c_api/c_options.h"', "",
                                *cpp.functions(with_init)]
    out["graft/defaults.hpp"] = [f"// {NOTICE}", "#pragma once", *includes, "", *cpp.overloads(with_init)]
    forms = sorted((one for one in plain if one.name not in BY_HAND), key=lambda one: any(field.ctype in cpp.NESTED for field in one.fields))
    out["graft/options.hpp"] = [
        f"// {NOTICE}", "#pragma once", "", "#include <cstdint>", "#include <functional>", "#include <map>", "#include <optional>", "#include <span>",
        "#include <string>", "#include <string_view>", "#include <vector>", "", '#include "graft/checkpoint.hpp"', '#include "graft/trainer_options.hpp"', "",
        "namespace graft {", "inline namespace v0 {", "", *(line for one in forms for line in [*cpp.options(one, enums), ""]),
        "}  // namespace v0", "}  // namespace graft"]
    out.update(calls.Calls(declarations, set(description.structs)).headers(NOTICE))
    struct = description.structs["graft_trainer_options"]
    out["graft/trainer_options.hpp"] = [
        f"// {NOTICE}", "#pragma once", "", "#include <cstdint>", "#include <optional>", "#include <string>", "#include <vector>", "",
        '#include "graft/handles.hpp"', "",
        "namespace graft {", "inline namespace v0 {", "", *cpp.options(struct, enums, "optimizer"), "", "}  // namespace v0",
        "}  // namespace graft"]
    out["interface/flags.h"] = [
        f"// {NOTICE}", "#pragma once", "", '#include "graft/graft.hpp"', '#include "tools/graft/shared/option_flags.h"', "",
        "namespace graft::cli {", "", *flags.flags(struct, enums), "", "}  // namespace graft::cli"]
    nested = ("graft_loss", "graft_optimizer", "graft_schedule")
    out["swift/TrainerOptions.swift"] = [f"// {NOTICE}", *swift.swift(struct, enums, "optimizer", nested)]
    return out


def main(headers, out):
    try:
        description = Description(headers)
        description.check()
        declarations = Declarations(headers)
        texts = {**files(description, declarations), **java.files(description, headers, NOTICE),
                 **python.modules(NOTICE, description, declarations, Declarations(CONVERT_HEADERS))}
    except Wrong as wrong:
        sys.exit(f"{headers}: {wrong}")
    for old in pathlib.Path(out).glob("ai/graft/*.java"):
        if f"ai/graft/{old.name}" not in texts:
            old.unlink()
    for path, lines in texts.items():
        target, text = pathlib.Path(out) / path, "\n".join(lines) + "\n"
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
