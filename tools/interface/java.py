"""Java over JNI: a class for each enum and struct that Java uses, the native methods that Java calls, and their C++.

A struct crosses as bytes, member after member: Out.java writes what `In` of jni/packed.h reads, `Out` there what In.java reads.
A class that platform/android/java has by hand is not written; natives that it calls and that have no form here are in jni/*.cpp.
"""

import dataclasses
import pathlib
import re
import textwrap

from declarations import Declarations
from description import Field
from names import camel, described, lower_camel

SOURCES = pathlib.Path(__file__).parents[2] / "platform/android"
#: Lists of C that are maps in Java: type, and Out's method.
MAPS = {"graft_binding": ("Map<String, Long>", "bindings"), "graft_pair": ("Map<String, String>", "pairs"),
        "graft_logit_bias": ("Map<Integer, Float>", "biases"), "graft_input_format": ("Map<String, InputFormat>", "formats")}
#: What Java calls back through; not packed.
CALLBACKS = {("graft_context_options", "log"): "Context.Log", ("graft_checkpoint_options", "cipher"): "Cipher",
             ("graft_store_options", "cipher"): "Cipher"}
#: Members that have no use in Java.
LEFT_OUT = {"held_out", "late", "take_over", "show", "validate", "plans_only", "shapes_only", "media"}
#: What a constructor takes.
REQUIRED = {"graft_checkpoint_options": ["folder"], "graft_parameter_group": ["pattern"], "graft_chat_message": ["role", "text"]}
KEYS = {"graft_trainer_options": "optimizer"}
#: The count of a list that is not the next member or parameter.
COUNTS = {("graft_generated", "log_probabilities"): "token_count", ("graft_generated", "most_probable"): "token_count * most_probable_count",
          ("graft_importance_matrix", "sums"): "columns", ("graft_tensor_info", "dims"): "rank", ("graft_field", "dims"): "rank",
          ("graft_device_fact", "values"): "value_count", ("graft_evaluation_confusion", "counts"): "classes * classes"}
#: Functions that fail where there is none: null then.
NONE_UNLESS_OK = {"graft_trainer_sample", "graft_devices_fact", "graft_devices_quirk", "graft_evaluation_confusion", "graft_plan_curve"}
NUMBERS = {"int32_t": "int", "uint32_t": "int", "int64_t": "long", "uint64_t": "long", "size_t": "long", "float": "float", "double": "double"}
JNI = {"boolean": "jboolean", "int": "jint", "long": "jlong", "float": "jfloat", "double": "jdouble", "String": "jstring", "byte[]": "jbyteArray",
       "Block": "jobject", "Block[]": "jobjectArray", "ByteBuffer": "jobject", "void": "void"}


def renamed(fields):
    """Spells the names of fields as Java and Swift do."""
    names = {field.name for field in fields if "_" in field.name}
    return lambda text: re.sub(r"\b[a-z]\w*\b", lambda match: lower_camel(match[0]) if match[0] in names else match[0], text)


def is_left_out(field):
    return field.ctype in ("graft_profile*", "const graft_group*") or field.name.startswith("group_") or field.name in LEFT_OUT


def doc(text, indent=""):
    text = (text[:1].upper() + text[1:]).replace("NULL", "null").replace("&", "&amp;").replace("<", "&lt;").replace("*/", "*&#47;")
    lines = textwrap.wrap(text, 112 - len(indent))
    return [f"{indent}/** {lines[0]} */"] if len(lines) == 1 else [f"{indent}/**", *[f"{indent} * {line}" for line in lines], f"{indent} */"] if lines else []


def checked(condition):
    """C++: where it does not hold, an exception is pending."""
    return f"if (!{condition}) return {{}};"


@dataclasses.dataclass
class Item:
    """A member of a struct with its count; `of` is what a list or a pointer is of."""
    kind: str  #: number, flag, real, choice, text, names, texts, array, list, struct, handle or callback
    name: str
    of: str
    field: Field
    count: str = ""

    @property
    def java_name(self):
        return lower_camel(self.name)


class Java:
    def __init__(self, description, headers):
        self.enums, self.structs = description.enums, description.structs
        self.declared = Declarations(headers)
        self.by_hand = {path.stem for path in (SOURCES / "java/ai/graft").glob("*.java")}
        written = "".join(path.read_text(encoding="utf-8") for path in (SOURCES / "jni").glob("*.cpp"))
        stubs = set(re.findall(r"GRAFT_JNI\([^,]+, (\w+)\)", written))
        called = {name for path in (SOURCES / "java/ai/graft").glob("*.java")
                  for name in re.findall(r"\bJni(?:\.|::)(\w+)", path.read_text(encoding="utf-8"))} - stubs
        self.functions = [f for f in self.declared.functions.values() if lower_camel(f.name.removeprefix("graft_")) in called]
        missing = called - {lower_camel(f.name.removeprefix("graft_")) for f in self.functions}
        if missing:
            raise ValueError(f"Java calls {sorted(missing)}, which C lacks and jni/*.cpp too.")
        self.by_hand_natives = re.findall(r"GRAFT_JNI\((\w+), (\w+)\)\s*\(JNIEnv\*[^,)]*, jclass([^)]*)\)", written)
        self.read, self.written = set(), {"graft_node_verdict"}  # structs from Java, and to it; a callback of C gives that one
        self.natives = [self.native(function) for function in self.functions]
        for name in re.findall(r"options_of<(\w+)>|list<(\w+)>", written):
            self.use(next(filter(None, name)), self.read)
        for name in re.findall(r"sized<(\w+)>", written):
            if "options" not in name and name in self.declared.layouts:
                self.use(name, self.written)

    def use(self, name, into):
        if name in into or name in ("graft_source", "graft_cipher", "graft_batch", "graft_data"):
            return
        into.add(name)
        for item in self.items(name):
            if item.kind in ("list", "struct"):
                self.use(item.of, into)

    # ---- Structs ----

    def items(self, name):
        layout, tagged = self.declared.layouts[name], {f.name: f for f in self.structs[name].fields} if name in self.structs else {}
        members = {m.name: m for m in layout.members}
        order, counts, found = list(members), set(), []
        for i, m in enumerate(layout.members):
            field = tagged.get(m.name) or Field(m.name, m.ctype, m.text, self.zero(m.ctype))
            item = Item("", m.name, m.ctype, field)
            if (name, m.name) in CALLBACKS:
                item.kind, item.of = "callback", CALLBACKS[name, m.name]
            elif m.name == "struct_size" or m.ctype in ("function", "void*") or is_left_out(field) or m.name in counts:
                continue
            elif m.ctype in self.enums:
                item.kind = "choice"
            elif m.ctype.endswith("*") or m.size:
                following = order[i + 1] if i + 1 < len(order) else ""
                item.count = COUNTS.get((name, m.name)) or (
                    following if following in ("bytes", f"{m.name}_bytes") or ("count" in following and m.ctype != "const char*") else m.size)
                if "*" not in item.count:
                    counts.add(item.count)
                item.of = m.ctype.replace("const ", "").replace(" const", "").rstrip("*")
                item.kind = self.pointed(item, m, m.name in tagged and field.is_list_of_names)
            else:
                item.kind = "flag" if m.ctype == "int" else "real" if m.ctype in ("float", "double") else "number"
            if item.kind:
                found.append(item)
        return [item for item in found if item.name not in counts]

    def pointed(self, item, member, names):
        if member.ctype.startswith("const char*"):
            return "texts" if member.ctype != "const char*" else "names" if names else "text"
        if item.of in self.declared.handles:
            return "handle" if self.class_of(item.of) in self.by_hand else ""
        if item.of in self.declared.layouts:
            return "list" if item.count else "struct"
        return "array" if item.of in NUMBERS and item.count else ""

    def class_of(self, handle):
        return {"graft_store": "SnapshotStore"}.get(handle) or camel(handle)

    def zero(self, ctype):
        return next(c.name for c in self.enums[ctype].constants if c.value == 0) if ctype in self.enums else "0"

    def type_of(self, item):
        if item.kind in ("number", "real"):
            return NUMBERS[item.of]
        if item.kind == "list" and item.of in MAPS:
            return MAPS[item.of][0]
        return {"flag": "boolean", "text": "String", "names": "List<String>", "texts": "List<String>", "list": f"List<{camel(item.of)}>",
                "array": f"{NUMBERS.get(item.of)}[]", "callback": item.of}.get(item.kind) or camel(item.of)

    def head(self, name, base, text):
        return ["package ai.graft;", "", "import androidx.annotation.NonNull;", "import androidx.annotation.Nullable;",
                *(f"import java.util.{one};" for one in ("ArrayList", "LinkedHashMap", "List", "Map")), "", *doc(text or f"{name}."),
                f"public final class {name}{base} {{"]

    def member_doc(self, item, rename):
        text = described(item.field, rename)
        if item.kind == "flag":  # 1 of C
            text = re.sub(r"\b([01]): ", lambda match: "true: " if match[1] == "1" else "false: ", text)
        return doc(text, "  ")

    def value_of(self, item, value):
        if item.kind == "choice":
            return f"{camel(item.of)}.{value.upper()}"
        if item.kind == "flag":
            return "true" if value == "1" else "false"
        return value.removeprefix("GRAFT_")

    def options_class(self, name):
        """A class that is filled by an app, with the defaults of C, and packed."""
        title, required, key = camel(name), REQUIRED.get(name, []), KEYS.get(name)
        layout, items = self.declared.layouts[name], self.items(name)
        rename = renamed(layout.members)
        lines = self.head(title, " extends Options", layout.text)
        if any(item.name == "class_axis" for item in items):
            lines += ["  /** classAxis: the axis that the labels lack, else 1. */", "  public static final int AXIS_OF_LABELS = Integer.MIN_VALUE;", ""]
        for item in items:
            kind = self.type_of(item)
            start = {"List": "new ArrayList<>()", "Map<": "new LinkedHashMap<>()"}.get(kind[:4])
            fixed = start or item.name == key or item.name in required
            value = start or (item.kind in ("number", "flag", "real", "choice") and self.value_of(item, item.field.default))
            mark = "@NonNull " if fixed or item.kind == "choice" else "@Nullable " if value is False else ""
            value = "" if value in (False, "0", "false") or item.name == key else f" = {value}"
            lines += self.member_doc(item, rename)
            lines.append(f"  {mark}public {'final ' if fixed else ''}{kind} {item.java_name}{value};")
        if key:
            lines += self.key_constructors(title, items, next(item for item in items if item.name == key))
        elif required:
            lines += ["", f"  public {title}({', '.join(f'@NonNull String {one}' for one in required)}) {{"]
            lines += [*(f"    this.{one} = java.util.Objects.requireNonNull({one});" for one in required), "  }"]
        if any(item.of == "graft_binding" for item in items):
            lines += ["", "  /** The size of a named dimension, as in \"batch\". */", "  @NonNull",
                      f"  public {title} bind(@NonNull String dimension, long size) {{", "    bindings.put(dimension, size);", "    return this;", "  }"]
        return [*lines, "", "  @Override", "  void pack(Out out) {", *(f"    out.{self.packing(item)};" for item in items if item.kind != "callback"), "  }", "}"]

    def key_constructors(self, title, items, key):
        kind, constants = camel(key.of), self.enums[key.of].constants
        first = constants[0].name.upper()
        lines = ["", f"  /** With the defaults of {first}. */", f"  public {title}() {{", f"    this({kind}.{first});", "  }", "",
                 f"  /** With the defaults of that {key.name}. */", f"  public {title}(@NonNull {kind} {key.name}) {{",
                 f"    this.{key.name} = {key.name};", f"    switch ({key.name}) {{"]
        for constant in constants:
            own = [f"        {i.java_name} = {self.value_of(i, i.field.defaults[constant.name])};" for i in items if constant.name in i.field.defaults]
            lines += [f"      case {constant.name.upper()}:", *own, "        break;"] if own else []
        return [*lines, "      default:", "        break;", "    }", "  }"]

    def packing(self, item):
        """Java: the call of Out."""
        name = item.java_name
        if item.kind == "list":
            return f"{MAPS[item.of][1]}({name})" if item.of in MAPS else f"list({name})"
        if item.kind == "number":
            return f'count("{name}", {name})' if item.of[0] in "us" and item.name != "seed" else f"number({name})"
        return {"choice": f'choice("{name}", {name})', "array": f"array({name})"}.get(item.kind) or f"{item.kind}({name})"

    def reading(self, item):
        """C++: what `in` gives for a member of s."""
        to, count = f"s.{item.name}", f"s.{item.count}"
        if item.kind in ("array", "list", "texts"):
            if item.field.ctype == item.of:
                return f"in.fixed({to}, {count})"
            return f"{to} = in.{'texts' if item.kind == 'texts' else f'{item.kind}<{item.of}>'}({count})"
        if item.kind == "text" and item.count:
            return f"{to} = in.text(&{count})"
        return {"real": f"{to} = in.real()" if item.of == "double" else f"{to} = static_cast<float>(in.real())", "text": f"{to} = in.text()", "names": f"{to} = in.text()"}.get(
            item.kind) or f"{to} = in.{item.kind if item.kind in ('struct', 'handle') else 'number'}<{item.of if item.kind != 'flag' else 'int'}>()".replace(
                "in.struct<", "in.optional<")

    def record_class(self, name):
        """A class that graft fills."""
        items, rename = self.items(name), renamed(self.declared.layouts[name].members)
        lines = self.head(camel(name), " extends Shown", self.declared.layouts[name].text)
        for item in items:
            lines += self.member_doc(item, rename)
            lines.append(f"  public final {self.type_of(item)} {item.java_name};")
        return [*lines, "", f"  {camel(name)}(In in) {{", *(f"    {item.java_name} = {self.unpacking(item)};" for item in items), "  }", "}"]

    def unpacking(self, item):
        if item.kind == "choice":
            return f"{camel(item.of)}.values()[in.count()]"
        if item.kind == "list":
            return f"in.list({camel(item.of)}::new)"
        if item.kind == "array":
            return f"in.{NUMBERS[item.of]}s()"
        return {"int": "in.count()", "long": "in.number()", "float": "(float) in.real()", "double": "in.real()"}.get(
            self.type_of(item)) or f"in.{item.kind}()"

    def writing(self, item, of="s."):
        """C++: how `out` takes a member."""
        value = f"{of}{item.name}"
        if item.count:
            count = " * ".join(f"{of}{part}" if not part.isdigit() else part for part in item.count.split(" * "))
            return f"out.{item.kind}({value}, {count})"
        return f"out.{item.kind if item.kind in ('real', 'text') else 'number'}({value})"

    def enum_class(self, enum):
        if [c.value for c in enum.constants] != list(range(len(enum.constants))):
            raise ValueError(f"{enum.name} does not count from 0.")
        lines = ["package ai.graft;", "", *doc(f"As {enum.name}, in its order."), f"public enum {camel(enum.name)} {{"]
        for constant in enum.constants:
            lines += [*doc(constant.text, "  "), f"  {constant.name.upper()},"]
        return [*lines, "}"]

    # ---- Functions ----

    def native(self, function):
        """The Java declaration and the C++ definition of a function's native method."""
        takes, before, gives, given = [], [], [], []
        parameters = list(function.parameters)
        handle = next((p for p in parameters if p.ctype.replace("const ", "").rstrip("*") in self.declared.handles and p.ctype.count("*") == 1), None)
        skip = set()
        for i, p in enumerate(parameters):
            bare, name = p.ctype.replace("const ", "").replace(" const", "").rstrip("*"), p.name
            following = parameters[i + 1] if i + 1 < len(parameters) else None
            count = next((q.name for q in parameters[i + 1:] if q.ctype == "size_t" and "count" in q.name), "") if p.ctype.endswith("*") else ""
            if name in skip:
                continue
            if "*" not in p.ctype:
                kind = "int" if p.ctype in self.enums else "boolean" if p.ctype == "int" else NUMBERS[p.ctype]
                takes.append((kind, lower_camel(name)))
                given.append(f"static_cast<{p.ctype}>({lower_camel(name)})")
                if p.ctype[0] in "us" and name != "seed":
                    before.append(checked(f'not_negative(env, "{name}", {lower_camel(name)})'))
            elif p.ctype == "const graft_source*":
                takes += [("Block", "memory"), ("int", "descriptor"), ("long", "offset"), ("long", "bytes")]
                before.append("const SourceOf source(env, memory, descriptor, offset, bytes);")
                before.append(checked("source.ok()"))
                given.append("source.get()")
            elif p.ctype == "const graft_cipher*":
                takes.append(("long", "callbacks"))
                before.append("graft_cipher cipher{};")
                before.append(checked("cipher_of(env, callbacks, cipher)"))
                given.append("callbacks == 0 ? nullptr : &cipher")
            elif bare in self.declared.handles and p.ctype.endswith("**"):
                before.append(f"{bare}* {name} = nullptr;")
                gives.append(("handle", name, f"hold(context_of({handle.name}), {name})"))
                given.append(f"&{name}")
            elif bare in self.declared.handles and "* const*" not in p.ctype:
                takes.append(("long", lower_camel(name)))
                given.append(f"handle_of<{bare}>({lower_camel(name)})")
            elif p.ctype in ("const void*", "const void* const*"):
                many = "const*" in p.ctype
                takes.append(("Block[]" if many else "Block", lower_camel(name)))
                before.append(f"Blocks {name}(env);")
                before.append(checked(f"{name}.add{'_all' if many else ''}({lower_camel(name)}_java)"))
                given.append(f"{name}.data(){'' if many else '[0]'}")
                if following and following.ctype == "size_t":
                    given.append(f"{name}.{'size()' if many else 'bytes(0)'}")
                    skip.add(following.name)
            elif p.ctype == "const char*":
                takes.append(("String", lower_camel(name)))
                before.append(f"const Text {name}(env, {lower_camel(name)}_java);")
                before.append(checked(f"{name}.ok()"))
                given.append(f"{name}.get()")
                if following and following.name == "bytes":
                    given.append(f"{name}.size()")
                    skip.add("bytes")
            elif p.ctype in ("const char**", "const void**", "uint32_t**") or (p.ctype.startswith("const ") and p.ctype.endswith("**")):
                counted = following and following.ctype == "size_t*"
                before.append(f"{p.ctype[:-1]} {name} = nullptr;" + (f" size_t {following.name} = 0;" if counted else ""))
                given += [f"&{name}"] + ([f"&{following.name}"] if counted else [])
                skip.add(following.name if counted else "")
                size = COUNTS.get((function.name, name)) or (following.name if counted else "")
                if bare == "char":
                    text = f"std::string_view({name}, {size})" if counted else name
                    gives.append(("text", name, f"java_text(env, {text})"))
                elif not p.ctype.startswith("const ") or bare == "void":
                    gives.append(("packed", name, f"packed.address({name}, {'' if bare == 'void' else f'sizeof *{name} * '}{size})"))
                else:
                    gives.append(("packed", name, f"packed.{'list' if bare in self.declared.layouts else 'array'}({name}, {size})"))
                    if bare in self.declared.layouts:
                        self.use(bare, self.written)
            elif p.ctype in ("void*", "float*") and following and following.ctype == "size_t":
                takes.append(("ByteBuffer", lower_camel(name)))
                before.append(f"const Room {name}(env, {lower_camel(name)}_java);")
                given += [f"{name}.data<{p.ctype[:-1]}>()", f"{name}.bytes(){'' if bare == 'void' else f' / sizeof({bare})'}"]
                skip.add(following.name)
            elif p.ctype.startswith("const ") and bare in self.declared.layouts and not (following and following.ctype == "size_t"):
                takes.append(("byte[]", lower_camel(name)))
                self.use(bare, self.read)
                before.append(f"In {name}_in(env, {lower_camel(name)}_java); auto* {name} = options_of<{bare}>({name}_in);")
                if any(m.ctype in ("function", "const graft_cipher*") for m in self.declared.layouts[bare].members):
                    takes.append(("long", "callbacks"))
                    before.append(checked(f"attach(env, callbacks, *{name})"))
                given.append(name)
            elif (p.ctype.startswith("const ") or "* const*" in p.ctype) and count:
                takes.append(("byte[]", lower_camel(name)))
                if f"size_t {count} = 0;" not in before:
                    before.append(f"size_t {count} = 0;")
                list_of = {"char": "texts"}.get(bare) or f"{'handles' if bare in self.declared.handles else 'list' if bare in self.declared.layouts else 'array'}<{bare}>"
                if bare in self.declared.layouts:
                    self.use(bare, self.read)
                before.append(f"In {name}_in(env, {lower_camel(name)}_java); const auto* {name} = {name}_in.{list_of}({count});")
                given.append(name)
                if following.name == count or parameters[i + 2].name == count:
                    skip.add(count)
                if following.name == count:
                    given.append(count)
            elif bare in self.declared.layouts:
                self.use(bare, self.written)
                before.append(f"auto {name} = sized<{bare}>();")
                gives.append(("packed", name, f"write(packed, {name})"))
                given.append(f"&{name}")
            elif bare in NUMBERS or bare == "int":
                before.append(f"{bare} {name} = 0;")
                gives.append((bare, name, name))
                given.append(f"&{name}")
            else:
                raise ValueError(f"{function.name}: {p.ctype} {name} has no form in Java.")
        return self.definition(function, handle, takes, before, gives, given)

    def definition(self, function, handle, takes, before, gives, given):
        name = lower_camel(function.name.removeprefix("graft_"))
        one = gives[0] if len(gives) == 1 and gives[0][0] != "packed" else None
        call, kinds = f"{function.name}({', '.join(given)})", {"handle": "long", "text": "String", "int": "boolean", **NUMBERS}
        body = before
        if function.result != "graft_status":
            result = kinds.get(function.result, "void" if function.result == "void" else "String")
            if function.result == "void":
                body += [f"{call};", f"release(env, {handle.name});" if name.endswith("Destroy") else ""]
            else:
                body.append(f"return java_text(env, {call});" if result == "String" else f"return static_cast<{JNI[result]}>({call});")
        else:
            result = kinds[one[0]] if one else "byte[]" if gives else "void"
            holds = f"{call} == GRAFT_OK" if function.name in NONE_UNLESS_OK else f"succeeded(env, context_of({handle.name}), {call})"
            if not gives:
                body.append(f"{holds};")
            elif one:
                body += [checked(holds), f"return {one[2]};" if one[0] in ("handle", "text") else f"return static_cast<{JNI[result]}>({one[2]});"]
            else:
                body += [checked(holds), "Out packed;"]
                body += [f"{put};" if kind == "packed" else f"packed.{'text' if kind == 'text' else 'real' if kind in ('float', 'double') else 'number'}({v});"
                         for kind, v, put in gives]
                body.append("return packed.java(env);")
        java = f"  static native {result} {name}({', '.join(f'{kind} {n}' for kind, n in takes)});"
        objects = ("String", "byte[]", "Block", "Block[]", "ByteBuffer")
        parameters = "".join(f", {JNI[kind]} {n}" + ("_java" if kind in objects and n != "memory" else "") for kind, n in takes)
        kind = JNI[result]
        body = [line.replace("return {};", "return;") if kind == "void" else line for line in body if line]
        return java, [f"GRAFT_JNI({kind}, {name})(JNIEnv* env, jclass{parameters}) {{", f"  return guarded(env, [&]() -> {kind} {{",
                      *(f"    {line}" for line in body), "  });", "}", ""]

    def hand_native(self, result, name, parameters):
        back = {"jobject": "Object", "jlongArray": "long[]", "jobjectArray": "Object[]", **{jni: java for java, jni in JNI.items() if java[0] != "B"}}
        takes = []
        for parameter in filter(None, (p.strip() for p in parameters.split(","))):
            kind, n = parameter.split()
            takes.append(f"{'Callbacks' if (kind, n) == ('jobject', 'callbacks') else 'Block[]' if kind == 'jobjectArray' else back[kind]} {lower_camel(n)}")
        return f"  static native {'ByteBuffer' if result == 'jobject' else back[result]} {name}({', '.join(takes)});"


def files(description, headers, notice):
    """What is written for Java: lines by path."""
    java = Java(description, headers)
    used = java.read | java.written
    classes = {camel(name): java.options_class(name) for name in sorted(java.read) if name not in MAPS}
    classes.update((camel(name), java.record_class(name)) for name in sorted(java.written))
    enums = {item.of for name in used for item in java.items(name) if item.kind == "choice"} | {
        p.ctype for f in java.functions for p in f.parameters if p.ctype in java.enums} | {"graft_status", "graft_stage", "graft_kernel_verdict"}
    classes.update((camel(name), java.enum_class(java.enums[name])) for name in sorted(enums))
    classes["Jni"] = ["package ai.graft;", "", "import java.nio.ByteBuffer;", "", "/** The native methods. Failures are thrown as GraftException. */",
                      "final class Jni {", "  static {", '    System.loadLibrary("graft_jni");', "  }", "",
                      *(java.hand_native(*one) for one in java.by_hand_natives), *(declared for declared, _ in java.natives), "",
                      "  private Jni() {}", "}"]
    out = {f"ai/graft/{name}.java": [f"// {notice}", *lines] for name, lines in classes.items() if name not in java.by_hand}
    structs = [f"// {notice}", "#pragma once", '#include "platform/android/jni/packed.h"', "", "namespace graft::jni {", ""]
    for name in sorted(java.read):
        structs += [f"inline void read(In& in, {name}& s) {{",
                    *(f"  {java.reading(i)};" for i in java.items(name) if i.kind != "callback"), "}", ""]
    for name in sorted(java.written):
        structs += [f"inline void write(Out& out, const {name}& s) {{", *(f"  {java.writing(i)};" for i in java.items(name)), "}", ""]
    out["interface/jni.h"] = [*structs, "}  // namespace graft::jni"]
    out["interface/jni.cpp"] = [f"// {notice}", '#include "interface/jni.h"', '#include "platform/android/jni/callbacks.h"', "",
                                "using namespace graft::jni;", "", *(line for _, lines in java.natives for line in lines)]
    return out
