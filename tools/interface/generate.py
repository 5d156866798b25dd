#!/usr/bin/env python3
"""Writes what each language and the command line have of the options that the C headers describe.

usage: generate.py HEADERS OUT     HEADERS: runtime/include/graft; OUT: a folder of the build
A file is written only if its text changes.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import cpp  # noqa: E402
import flags  # noqa: E402
import java  # noqa: E402
import python  # noqa: E402
import swift  # noqa: E402
from description import Description, Wrong  # noqa: E402

NOTICE = "Written by tools/interface/generate.py from runtime/include/graft. Change the comments there."
#: Structs that have a generated form, each with the field that its defaults depend on.
STRUCTS = {"graft_trainer_options": "optimizer"}
#: Structs whose C++ form is generated: the others' have callbacks, or names of their own.
CPP_STRUCTS = ("graft_loader_options", "graft_server_options", "graft_watch_options")


def files(description):
    """What is written: texts by path below OUT."""
    enums = description.enums
    out = {}
    plain = [struct for name, struct in sorted(description.structs.items()) if name not in STRUCTS]
    includes = [f'#include "graft/{header}"' for header in sorted(description.headers)]
    defaults = [f"// {NOTICE}", "#pragma once", *includes, "", "namespace graft::c_api {", ""]
    for name, key in STRUCTS.items():
        defaults += [*cpp.init(description.structs[name], enums, key), ""]
    for one in plain:
        defaults += [*cpp.init(one, enums), ""]
    out["interface/defaults.h"] = [*defaults, "}  // namespace graft::c_api"]
    out["interface/inits.h"] = [f"// {NOTICE}", "#pragma once", '#include "interface/defaults.h"', '#include "runtime/c_api/c_options.h"', "",
                                *cpp.functions(plain)]
    out["graft/defaults.hpp"] = [f"// {NOTICE}", "#pragma once", *includes, "", *cpp.overloads(plain)]
    out["graft/options.hpp"] = [
        f"// {NOTICE}", "#pragma once", "", "#include <cstdint>", "#include <string>", "#include <vector>", "", '#include "graft/base.hpp"',
        '#include "graft/defaults.hpp"', "", "namespace graft {", "inline namespace v0 {", "",
        *(line for name in CPP_STRUCTS for line in [*cpp.options(description.structs[name], enums), ""]), "}  // namespace v0", "}  // namespace graft"]
    struct = description.structs["graft_trainer_options"]
    out["graft/trainer_options.hpp"] = [
        f"// {NOTICE}", "#pragma once", "", "#include <cstdint>", "#include <optional>", "#include <string>", "#include <vector>", "",
        '#include "graft/base.hpp"', '#include "graft/data.hpp"', '#include "graft/distribute.h"', '#include "graft/session.hpp"', "",
        "namespace graft {", "inline namespace v0 {", "", *cpp.options(struct, enums, "optimizer"), "", "}  // namespace v0",
        "}  // namespace graft"]
    out["interface/flags.h"] = [
        f"// {NOTICE}", "#pragma once", "", '#include "graft/graft.hpp"', '#include "tools/graft/shared/option_flags.h"', "",
        "namespace graft::cli {", "", *flags.flags(struct, enums), "", "}  // namespace graft::cli"]
    nested = ("graft_loss", "graft_optimizer", "graft_schedule")
    out["interface/python.h"] = [
        f"// {NOTICE}", "#pragma once", "", '#include "platform/python/native/options.h"', "", "namespace graft::python {", "",
        *python.binding(struct, enums), "", "}  // namespace graft::python"]
    out["swift/TrainerOptions.swift"] = [f"// {NOTICE}", *swift.swift(struct, enums, "optimizer", nested)]
    out["python/_trainer_options.py"] = [f'"""{NOTICE}"""', "", *python.keywords(struct, enums)]
    return out


def main(headers, out):
    try:
        description = Description(headers)
        description.check()
        texts = {**files(description), **java.files(description, headers, NOTICE)}
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
