"""Java over JNI: a class for each enum and struct that Java uses, the native methods that Java calls, and their C++.

A struct crosses as bytes, member after member: Out.java writes what `In` of jni/packed.h reads, `Out` there what In.java reads.
A class that platform/android/java has by hand is not written; natives that it calls and that have no form here are in jni/*.cpp.
"""

import dataclasses
import pathlib
import re
import textwrap

from declarations import Declarations
from description import Field, Wrong
from names import camel, described, lower_camel

SOURCES = pathlib.Path(__file__).parents[2] / "platform/android"
#: Lists of C that are maps in Java: type, and Out's method.
MAPS = {"graft_binding": ("Map<String, Long>", "bindings"), "graft_pair": ("Map<String, String>", "pairs"),
        "graft_logit_bias": ("Map<Integer, Float>", "biases"), "graft_input_format": ("Map<String, InputFormat>", "formats")}
#: What Java calls back through; not packed.
CALLBACKS = {("graft_context_options", "log"): "Context.Log", ("graft_checkpoint_options", "cipher"): "Cipher",
             ("graft_store_options", "cipher"): "Cipher", ("graft_memory_options", "cipher"): "Cipher"}
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
NONE_UNLESS_OK = {"graft_trainer_sample", "graft_devices_fact", "graft_devices_quirk", "graft_evaluation_confusion", "graft_plan_curve", "graft_memory_at"}
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
    return [f"{indent}/** {line} */" for line in lines] if len(lines) < 2 else [f"{indent}/**", *[f"{indent} * {line}" for line in lines], f"{indent} */"]


def checked(condition):
    """C++: where it does not hold, an exception is pending."""
    return f"if (!{condition}) return {{}};"


@dataclasses.dataclass
class Item:
    """A member of a struct with its count; `of` is what a list or a pointer is of."""
    kind: str  #: number, flag, real, choice, text, names, texts, array, list, option, handle or callback
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
            raise Wrong(f"Java calls {sorted(missing)}, which C lacks and jni/*.cpp too.")
        self.by_hand_natives = re.findall(r"GRAFT_JNI\((\w+), (\w+)\)\s*\(JNIEnv\*[^,)]*, jclass([^)]*)\)", written)
        self.read, self.written = set(), {"graft_node_verdict"}  # structs from Java, and to it; a callback of C gives that one
        self.natives = [Native(self, function).texts() for function in self.functions]
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
            if item.kind in ("list", "option"):
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
                item.kind = self.pointed(item, m, name in KEYS and field.is_list_of_names)
            else:
                item.kind = "flag" if m.ctype == "int" else "real" if m.ctype in ("float", "double") else "number"
            if item.kind:
                found.append(item)
        return [item for item in found if item.name not in counts]

    def pointed(self, item, member, names):
        if member.ctype.startswith("const char*"):
            return "texts" if member.ctype != "const char*" else "names" if names else "text"
        if item.of in self.declared.handles:
            return "handle" if camel(item.of) in self.by_hand else ""  # a store's class has another name; no option has one
        if item.of in self.declared.layouts:
            return "list" if item.count else "option"
        return "array" if item.of in NUMBERS and item.count else ""

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
        return {"0": "false", "1": "true"}[value] if item.kind == "flag" else value.removeprefix("GRAFT_")

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
            lines += ["", f"  public {title}({', '.join(f'@NonNull String {one}' for one in required)}) {{",
                      *(f"    this.{one} = java.util.Objects.requireNonNull({one});" for one in required), "  }"]
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
        if item.kind in ("text", "names"):
            return f"{to} = in.text({f'&{count}' if item.count else ''})"
        if item.kind == "real":
            return f"{to} = in.real()" if item.of == "double" else f"{to} = static_cast<float>(in.real())"
        return f"{to} = in.{item.kind if item.kind in ('option', 'handle') else 'number'}<{item.of if item.kind != 'flag' else 'int'}>()"

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
            raise Wrong(f"{enum.name} does not count from 0.")
        lines = ["package ai.graft;", "", *doc(f"As {enum.name}, in its order."), f"public enum {camel(enum.name)} {{"]
        for constant in enum.constants:
            lines += [*doc(constant.text, "  "), f"  {constant.name.upper()},"]
        return [*lines, "}"]


class Native:
    """The native method of a function: what it takes, the C++ before the call, the call's arguments, what it gives back."""

    def __init__(self, java, function):
        self.java, self.function = java, function
        self.takes, self.before, self.arguments, self.gives = [], [], [], []
        self.done = set()  # counts that went with their pointers
        parameters = function.parameters
        self.handle = next((p.name for p in parameters if self.bare(p) in java.declared.handles and p.ctype.count("*") == 1), None)
        for i, p in enumerate(parameters):
            if p.name not in self.done:
                self.parameter(p, parameters[i + 1:])

    @staticmethod
    def bare(p):
        """What a pointer points to in the end."""
        return p.ctype.replace("const ", "").replace(" const", "").rstrip("*")

    def take(self, kind, name, argument, *before):
        self.takes.append((kind, lower_camel(name)))
        self.before += before
        self.arguments.append(argument)

    def parameter(self, p, others):
        handles, layouts = self.java.declared.handles, self.java.declared.layouts
        bare, following = self.bare(p), others[0] if others else None
        counted = following is not None and following.ctype == "size_t"
        if "*" not in p.ctype:
            self.number(p)
        elif p.ctype == "const graft_source*":
            self.takes += [("Block", "memory"), ("int", "descriptor"), ("long", "offset")]
            self.take("long", "bytes", "source.get()", "const SourceOf source(env, memory, descriptor, offset, bytes);", checked("source.ok()"))
        elif p.ctype == "const graft_cipher*":
            self.take("long", "callbacks", "callbacks == 0 ? nullptr : &cipher", "graft_cipher cipher{};", checked("cipher_of(env, callbacks, cipher)"))
        elif bare in handles and p.ctype.endswith("**"):
            self.before.append(f"{bare}* {p.name} = nullptr;")
            self.give("handle", p.name, f"hold(context_of({self.handle}), {p.name})")
        elif bare in handles and "* const*" not in p.ctype:
            self.take("long", p.name, f"handle_of<{bare}>({lower_camel(p.name)})")
        elif p.ctype in ("const void*", "const void* const*"):
            self.memory(p, following if counted else None)
        elif p.ctype == "const char*":
            self.take("String", p.name, f"{p.name}.get()", f"const Text {p.name}(env, {lower_camel(p.name)}_java);", checked(f"{p.name}.ok()"))
            if following and following.name == "bytes":
                self.counted("bytes", f"{p.name}.size()")
        elif p.ctype.endswith("**"):
            self.pointer(p, bare, following if following and following.ctype == "size_t*" else None)
        elif p.ctype in ("void*", "float*"):
            self.take("ByteBuffer", p.name, f"{p.name}.data<{bare}>()", f"const Room {p.name}(env, {lower_camel(p.name)}_java);")
            self.counted(following.name, f"{p.name}.bytes()" + ("" if bare == "void" else f" / sizeof({bare})"))
        elif p.ctype.startswith("const ") and bare in layouts and not counted:
            self.options(p, bare)
        elif p.ctype.startswith("const ") or "* const*" in p.ctype:
            self.list(p, bare, others)
        elif bare in layouts:
            self.java.use(bare, self.java.written)
            self.before.append(f"auto {p.name} = sized<{bare}>();")
            self.give("packed", p.name, f"write(packed, {p.name})")
        elif bare in NUMBERS or bare == "int":
            self.before.append(f"{bare} {p.name} = 0;")
            self.give(bare, p.name, p.name)
        else:
            raise Wrong(f"{self.function.name}: {p.ctype} {p.name} has no form in Java.")

    def counted(self, name, argument):
        """The count behind a pointer, which Java does not pass."""
        self.done.add(name)
        self.arguments.append(argument)

    def give(self, kind, name, put):
        self.gives.append((kind, name, put))
        self.arguments.append(f"&{name}")

    def number(self, p):
        name = lower_camel(p.name)
        kind = "int" if p.ctype in self.java.enums else "boolean" if p.ctype == "int" else NUMBERS[p.ctype]
        self.take(kind, p.name, f"static_cast<{p.ctype}>({name})")
        if p.ctype[0] in "us" and name != "seed":
            self.before.append(checked(f'not_negative(env, "{p.name}", {name})'))

    def memory(self, p, count):
        many = p.ctype.endswith("const*")
        self.take("Block[]" if many else "Block", p.name, f"{p.name}.data(){'' if many else '[0]'}", f"Blocks {p.name}(env);",
                  checked(f"{p.name}.add{'_all' if many else ''}({lower_camel(p.name)}_java)"))
        if count:
            self.counted(count.name, f"{p.name}.{'size()' if many else 'bytes(0)'}")

    def pointer(self, p, bare, count):
        """graft's own memory: a text, numbers, structs, or what Java looks at in place."""
        self.before.append(f"{p.ctype[:-1]} {p.name} = nullptr;" + (f" size_t {count.name} = 0;" if count else ""))
        size = COUNTS.get((self.function.name, p.name)) or (count.name if count else "")
        if bare == "char":
            self.give("text", p.name, f"java_text(env, {f'std::string_view({p.name}, {size})' if count else p.name})")
        elif bare == "void" or not p.ctype.startswith("const "):
            self.give("packed", p.name, f"packed.address({p.name}, {'' if bare == 'void' else f'sizeof *{p.name} * '}{size})")
        else:
            is_list = bare in self.java.declared.layouts
            self.give("packed", p.name, f"packed.{'list' if is_list else 'array'}({p.name}, {size})")
            if is_list:
                self.java.use(bare, self.java.written)
        if count:
            self.counted(count.name, f"&{count.name}")

    def options(self, p, bare):
        self.java.use(bare, self.java.read)
        self.take("byte[]", p.name, p.name, f"In {p.name}_in(env, {lower_camel(p.name)}_java);", f"auto* {p.name} = options_of<{bare}>({p.name}_in);")
        if any(m.ctype in ("function", "const graft_cipher*") for m in self.java.declared.layouts[bare].members):
            self.takes.append(("long", "callbacks"))
            self.before.append(checked(f"attach(env, callbacks, *{p.name})"))

    def list(self, p, bare, others):
        """Several lists in a row may have one count."""
        declared, count = self.java.declared, next(q.name for q in others if q.ctype == "size_t")
        kind = "handles" if bare in declared.handles else "list" if bare in declared.layouts else "array"
        if bare in declared.layouts:
            self.java.use(bare, self.java.read)
        if f"size_t {count} = 0;" not in self.before:
            self.before.append(f"size_t {count} = 0;")
        self.take("byte[]", p.name, p.name, f"In {p.name}_in(env, {lower_camel(p.name)}_java);",
                  f"const auto* {p.name} = {p.name}_in.{'texts' if bare == 'char' else f'{kind}<{bare}>'}({count});")
        if others[0].name == count:
            self.counted(count, count)

    def body(self):
        """The type of the result, and the C++."""
        call, kinds = f"{self.function.name}({', '.join(self.arguments)})", {"handle": "long", "text": "String", "int": "boolean", **NUMBERS}
        if self.function.result == "void":
            return "void", [*self.before, f"{call};", *([f"release(env, {self.handle});"] if self.function.name.endswith("_destroy") else [])]
        if self.function.result != "graft_status":
            result = kinds.get(self.function.result, "String")
            return result, [*self.before, f"return java_text(env, {call});" if result == "String" else f"return static_cast<{JNI[result]}>({call});"]
        holds = f"{call} == GRAFT_OK" if self.function.name in NONE_UNLESS_OK else f"succeeded(env, context_of({self.handle}), {call})"
        if not self.gives:
            return "void", [*self.before, f"{holds};"]
        kind, _, put = self.gives[0]
        if len(self.gives) == 1 and kind != "packed":
            given = put if kind in ("handle", "text") else f"static_cast<{JNI[kinds[kind]]}>({put})"
            return kinds[kind], [*self.before, checked(holds), f"return {given};"]
        puts = [f"{put};" if kind == "packed" else f"packed.{'text' if kind == 'text' else 'real' if kind in ('float', 'double') else 'number'}({name});"
                for kind, name, put in self.gives]
        return "byte[]", [*self.before, checked(holds), "Out packed;", *puts, "return packed.java(env);"]

    def texts(self):
        """Java's declaration; the lines of C++."""
        name, (result, body) = lower_camel(self.function.name.removeprefix("graft_")), self.body()
        objects = ("String", "byte[]", "Block", "Block[]", "ByteBuffer")
        parameters = "".join(f", {JNI[kind]} {n}" + ("_java" if kind in objects and n != "memory" else "") for kind, n in self.takes)
        nothing = "return;" if result == "void" else "return {};"
        return f"  static native {result} {name}({', '.join(f'{kind} {n}' for kind, n in self.takes)});", [
            f"GRAFT_JNI({JNI[result]}, {name})(JNIEnv* env, jclass{parameters}) {{", f"  return guarded(env, [&]() -> {JNI[result]} {{",
            *(f"    {line.replace('return {};', nothing)}" for line in body), "  });", "}", ""]


def hand_native(result, name, parameters):
    """Java's declaration of a native method that jni/*.cpp defines."""
    back = {"jobject": "Object", "jlongArray": "long[]", "jobjectArray": "Object[]", **{jni: java for java, jni in JNI.items() if java[0] != "B"}}
    takes = []
    for parameter in filter(None, (p.strip() for p in parameters.split(","))):
        kind, n = parameter.split()
        takes.append(f"{'Callbacks' if (kind, n) == ('jobject', 'callbacks') else 'Block[]' if kind == 'jobjectArray' else back[kind]} {lower_camel(n)}")
    return f"  static native {'ByteBuffer' if result == 'jobject' else back[result]} {name}({', '.join(takes)});"


def files(description, headers, notice):
    """What is written for Java: lines by path."""
    java = Java(description, headers)
    classes = {camel(name): java.options_class(name) for name in sorted(java.read) if name not in MAPS}
    classes.update((camel(name), java.record_class(name)) for name in sorted(java.written))
    enums = {item.of for name in java.read | java.written for item in java.items(name) if item.kind == "choice"} | {
        p.ctype for f in java.functions for p in f.parameters if p.ctype in java.enums} | {"graft_status", "graft_stage", "graft_kernel_verdict"}
    classes.update((camel(name), java.enum_class(java.enums[name])) for name in sorted(enums))
    classes["Jni"] = ["package ai.graft;", "", "import java.nio.ByteBuffer;", "", "/** The native methods. Failures are thrown as GraftException. */",
                      "final class Jni {", "  static {", '    System.loadLibrary("graft_jni");', "  }", "",
                      *(hand_native(*one) for one in java.by_hand_natives), *(declared for declared, _ in java.natives), "",
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
