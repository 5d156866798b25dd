"""The description of the public headers: what breaks a rule is refused by name, and every form has every option.

usage: interface_test.py
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/interface"))

import calls  # noqa: E402
import cpp  # noqa: E402
import generate  # noqa: E402
import java  # noqa: E402
import python  # noqa: E402
import swift  # noqa: E402
from declarations import Declarations  # noqa: E402
from description import Description, Wrong  # noqa: E402
from names import camel, lower_camel  # noqa: E402

HEADER = """
typedef enum graft_kind GRAFT_ENUM_OF_INT {
  GRAFT_KIND_PLAIN = 0, /* As it is. */
  GRAFT_KIND_ROUND = 1  /* Name: circle. */
} graft_kind;
/* Options. */
typedef struct graft_options {
  size_t struct_size;
  /* ---- Shape ---- */
  /* What it is. Default: plain. Flag: --kind. */
  graft_kind kind;
  /* Its size, as in 1.5 or (2.5). Default: 0.5; round 0.9. Range: [0, 1). For: round. Flag: --size. */
  double size;
  /* Numbers. Default: none. */
  const double* numbers;
  size_t number_count;
} graft_options;
"""


def described(text=HEADER):
    description = Description("/nowhere")
    description.read(text)
    description.check()
    return description


class Rules(unittest.TestCase):
    def test_tags_are_read(self):
        kind, size, numbers = described().structs["graft_options"].fields
        self.assertEqual((size.text, size.default, size.defaults), ("Its size, as in 1.5 or (2.5).", "0.5", {"round": "0.9"}))
        self.assertEqual((size.readers, size.flag, size.section), (("round",), "--size", "shape"))
        self.assertEqual((size.range.low, size.range.high, size.range.low_open, size.range.high_open), ("0", "1", False, True))
        self.assertEqual((numbers.count, numbers.is_none), ("number_count", True))
        self.assertEqual([constant.word for constant in described().enums["graft_kind"].constants], ["plain", "circle"])
        self.assertEqual(kind.default, "plain")

    def test_what_breaks_a_rule_is_named(self):
        for old, new, part in (
                ("Default: plain.", "", "graft_options.kind has no default"),
                ("Default: plain.", "Default: square.", "no constant square"),
                ("Default: 0.5;", "Default: 1;", "the default 1 is out of the range"),
                ("round 0.9", "round 1.0", "the default 1.0 is out of the range"),
                ("round 0.9", "oval 0.9", "names oval"),
                ("For: round.", "For: oval.", "names oval"),
                ("Range: [0, 1).", "Range: 0 to 1.", "is not like [0, 1)"),
                ("Default: none.", "Default: 1.", "must be none"),
                ("Flag: --size. */", "Flag: --size */", "does not end with a full stop"),
                ("Flag: --size.", "Flag: --size. Flag: --of.", "is there twice"),
                ("double size;", "double size, other;", "cannot read")):
            self.assertIn(old, HEADER)
            with self.assertRaises((Wrong, ValueError), msg=new) as caught:
                described(HEADER.replace(old, new))
            self.assertIn(part, str(caught.exception))


class Forms(unittest.TestCase):
    """Of the real headers."""

    @classmethod
    def setUpClass(cls):
        cls.description = Description(ROOT / "runtime/include/graft")
        cls.description.check()
        declarations = Declarations(ROOT / "runtime/include/graft")
        cls.texts = {path: "\n".join(lines) for path, lines in {
            **generate.files(cls.description, declarations), **java.files(cls.description, ROOT / "runtime/include/graft", ""),
            **python.modules(generate.NOTICE, cls.description, declarations, Declarations(generate.CONVERT_HEADERS))}.items()}
        cls.struct = cls.description.structs["graft_trainer_options"]

    def test_every_form_has_every_option(self):
        for field in self.struct.fields:
            camel = lower_camel(field.name)
            self.assertRegex(self.texts["graft/trainer_options.hpp"], rf" {field.name} = ")
            if not java.is_left_out(field):
                self.assertRegex(self.texts["ai/graft/TrainerOptions.java"], rf"public .* {camel}( = .*)?;")
                self.assertTrue(f" s.{field.name} = in." in self.texts["interface/jni.h"], field.name)
            if not swift.is_left_out(field):
                self.assertRegex(self.texts["swift/TrainerOptions.swift"], rf"public (var|let) {camel}: ")
                self.assertIn(f"o.{field.name}", self.texts["swift/TrainerOptions.swift"])
            if not python.is_left_out(field):
                self.assertIn(f"    {field.name}: ", self.texts["python/_trainer_options.py"])
            if field.flag:
                self.assertIn(f'"{field.flag}', self.texts["interface/flags.h"])

    def test_defaults_are_the_same_numbers(self):
        for field in self.struct.fields:
            if not field.is_real or field.defaults:
                continue
            found = {
                "C": re.search(rf"out\.{field.name} = (\S+);", self.texts["interface/defaults.h"]),
                "C++": re.search(rf"double {field.name} = (\S+);", self.texts["graft/trainer_options.hpp"]),
                "Java": re.search(rf"double {lower_camel(field.name)} = (\S+);", self.texts["ai/graft/TrainerOptions.java"]),
                "Swift": re.search(rf"{lower_camel(field.name)}: Double = (\S+)", self.texts["swift/TrainerOptions.swift"]),
                "Python": re.search(rf"    {field.name}: float = (\S+),", self.texts["python/_trainer_options.py"])}
            for language, match in found.items():
                self.assertEqual(float(match[1]) if match else 0.0, float(field.default), f"{field.name} in {language}")

    def test_forms_written_by_hand_have_the_headers_defaults(self):
        """Swift's structs for those with defaults; Java's are generated."""
        forms = {"graft_loader_options": "Data.swift:Loader", "graft_watch_options": "Evaluation.swift:WatchOptions",
                 "graft_delta_options": "Delta.swift:Options", "graft_generate_options": "Generator.swift:Sampling"}
        for name, place in forms.items():
            file, class_name = place.split(":")
            swifts = (ROOT / "platform/apple/Sources/Graft" / file).read_text(encoding="utf-8")
            texts = {file: swifts[re.search(rf"(?:class|struct) {class_name}\b", swifts).start():]}
            texts["Java"] = self.texts[f"ai/graft/{camel(name)}.java"]
            for where, text in texts.items():
                compared = 0
                for field in self.description.structs[name].fields:
                    declared = re.search(rf"public (?:var|\w+) {lower_camel(field.name)}(?:: \w+)?(?: = ([^;\n]+?))?;?$", text, re.M)
                    if not declared or not (field.is_number or field.is_switch):
                        continue
                    value = {None: "0", "true": "1", "false": "0"}.get(declared[1], declared[1])
                    self.assertEqual(float(value), float(field.default), f"{field.name} in {where}")
                    compared += 1
                self.assertGreaterEqual(compared, 4 if where == "Java" else 3, name)

    def test_java_reads_what_it_packs(self):
        """Both sides of a struct that crosses as bytes name its members in one order."""
        header = self.texts["interface/jni.h"]
        compared = 0
        for path, text in self.texts.items():
            name = path.rsplit("/", 1)[-1].removesuffix(".java")
            packed = [re.split(r"[(,) ]+", call)[-2 if call.endswith(")") else -1] for call in re.findall(r"    out\.(\w+\(.*\));", text)]
            unpacked = re.findall(r"^    (\w+) = (?:\(float\) )?(?:in\.|\w+\.values\(\)\[in\.)", text, re.M)
            c_name = "graft_" + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
            for members, pattern in ((packed, rf"read\(In& in, {c_name}& s\) {{(.*?)\n}}"), (unpacked, rf"write\(Out& out, const {c_name}& s\) {{(.*?)\n}}")):
                body = re.search(pattern, header, re.S)
                if members and body and path.startswith("ai/graft/"):
                    self.assertEqual(members, [lower_camel(m) for m in re.findall(r"^  (?:out\.\w+\(|in\.fixed\()?s\.(\w+)", body[1], re.M)], path)
                    compared += 1
        self.assertGreater(compared, 40)

    def test_each_struct_with_defaults_has_its_function(self):
        """Of the others zeros are the defaults."""
        headers = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "runtime/include/graft").glob("*.h"))
        for name, struct in self.description.structs.items():
            declared = f"GRAFT_API graft_status {name}_init({name}* " in headers
            self.assertEqual(declared, name in generate.STRUCTS or cpp.needs_init(struct, self.description.enums), name)
            self.assertIn(f"{name} default_{name}(" if name in generate.STRUCTS else f"inline {name} defaults()", self.texts["interface/defaults.h"])

    def test_every_option_is_described(self):
        layouts = Declarations(ROOT / "runtime/include/graft").layouts
        self.assertEqual([name for name in layouts if name.endswith("_options") and name not in self.description.structs], [])

    def test_every_function_has_a_cpp_form(self):
        """Generated, or named by a header that is written by hand."""
        declarations = Declarations(ROOT / "runtime/include/graft")
        by_hand = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "runtime/include/graft").glob("*.hpp"))
        generated = "".join(text for path, text in self.texts.items() if path.endswith(".hpp"))
        for name in declarations.functions:
            self.assertIsNotNone(re.search(rf"\b{name}\b", by_hand if name in calls.BY_HAND else generated + by_hand), name)

    def test_a_function_without_a_cpp_form_is_refused(self):
        declarations = Declarations("/nowhere")
        declarations.read("typedef struct graft_x graft_x;\nGRAFT_API void graft_x_destroy(graft_x* x);\n"
                          "GRAFT_API graft_status graft_lonely(int a);\nGRAFT_API graft_status graft_x_ask(graft_x* x, int (*answer)(void* user));\n")
        with self.assertRaisesRegex(Wrong, "graft_lonely takes and makes no handle"):
            calls.Calls(declarations, set()).generated()
        with self.assertRaisesRegex(Wrong, "graft_x_ask.answer has no C"):
            calls.Calls(declarations, set()).method(declarations.functions["graft_x_ask"], "graft_x")

    def test_python_has_every_function(self):
        for path in ("python/_c.py", "python/_c_convert.py", "python/_trainer_options.py"):
            compile(self.texts[path], path, "exec")
        for folder, path in ((ROOT / "runtime/include/graft", "python/_c.py"), (generate.CONVERT_HEADERS, "python/_c_convert.py")):
            headers = "".join(header.read_text(encoding="utf-8") for header in folder.glob("*.h"))
            names = set(re.findall(r"^GRAFT_API[^;(]*?\b(graft_\w+)\(", headers, re.M))
            self.assertEqual(names, set(re.findall(r"^(graft_\w+) = _function\(", self.texts[path], re.M)))


if __name__ == "__main__":
    unittest.main()
