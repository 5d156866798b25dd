"""Java: a class of fields, whose constructor gives them the defaults; and the JNI code that reads them."""

import re

from names import camel, described, lower_camel

#: What C points to, as a Java field: its type and initial value. `Lists` hands these to JNI.
OBJECTS = {
    "const graft_binding*": ("Map<String, Long>", "new LinkedHashMap<>()"),
    "const graft_parameter_group*": ("List<ParameterGroup>", "new ArrayList<>()"),
    "const graft_input_format*": ("Map<String, InputFormat>", "new LinkedHashMap<>()"),
    "const graft_data_set*": ("DataSet", None),
    "graft_model*": ("Model", None),
}
#: Enums that are classes of their own.
CLASSES = {"graft_precision": "Precision"}
#: What has no form in Java.
LEFT_OUT = {"graft_profile*", "const graft_group*"}
NATIVE = {"const graft_data_set*": "graft_data_set", "graft_model*": "graft_model"}


def renamed(struct):
    names = {field.name for field in struct.fields if "_" in field.name}
    pattern = re.compile(r"\b(" + "|".join(sorted(names, key=len, reverse=True)) + r")\b")
    return lambda text: pattern.sub(lambda match: lower_camel(match[1]), text)


def enum_class(enum, optional):
    return CLASSES.get(enum.name) or camel(enum.name)


def is_left_out(field):
    return field.ctype in LEFT_OUT or field.name.startswith("group_") or field.name == "held_out"


def value_of(field, value, enums):
    if field.ctype in enums:
        return f"{enum_class(enums[field.ctype], False)}.{value.upper()}"
    if field.is_switch:
        return "true" if value == "1" else "false"
    if value.startswith("GRAFT_"):
        return value.removeprefix("GRAFT_")
    return value


def type_of(field, enums):
    if field.ctype in enums:
        return enum_class(enums[field.ctype], False)
    if field.is_list_of_names:
        return "List<String>"
    if field.is_text:
        return "String"
    if field.ctype == "const double*":
        return "double[]"
    if field.ctype in OBJECTS:
        return OBJECTS[field.ctype][0]
    return "boolean" if field.is_switch else "double" if field.is_real else "long" if "64" in field.ctype else "int"


def member(field, struct, enums, key):
    kind = type_of(field, enums)
    text = described(field, renamed(struct)).replace("&", "&amp;").replace("<", "&lt;").replace("*/", "*&#47;")
    lines = ["  /**", *[f"   * {line}" for line in wrapped(text)], "   */"]
    if field.is_list_of_names:
        return [*lines, f"  @NonNull public final {kind} {lower_camel(field.name)} = new ArrayList<>();"]
    start = OBJECTS.get(field.ctype, (None, None))[1]
    if start:
        return [*lines, f"  @NonNull public final {kind} {lower_camel(field.name)} = {start};"]
    if field.ctype.endswith("*"):
        return [*lines, f"  @Nullable public {kind} {lower_camel(field.name)};"]
    if field.name == key:
        return [*lines, f"  @NonNull public final {kind} {lower_camel(field.name)};"]
    mark = "@NonNull " if field.ctype in enums else ""
    value = value_of(field, field.default, enums)
    start = "" if value in ("0", "false") else f" = {value}"
    return [*lines, f"  {mark}public {kind} {lower_camel(field.name)}{start};"]


def wrapped(text):
    import textwrap
    return textwrap.wrap(text, 112)


def java(struct, enums, key, nested):
    name = camel(struct.name)
    own_enum = enums[next(field.ctype for field in struct.fields if field.name == key)]
    lines = ["package ai.graft;", "", "import androidx.annotation.NonNull;", "import androidx.annotation.Nullable;",
             "import java.util.ArrayList;", "import java.util.LinkedHashMap;", "import java.util.List;", "import java.util.Map;", "",
             "/** How a model is trained. In Kotlin: TrainerOptions(Optimizer.MUON).apply { batch = 64 }. */",
             f"public final class {name} extends Shown {{"]
    for enum in nested:
        texts = [f"{c.name.upper()}: {c.text}" for c in enums[enum].constants if c.text]
        lines += ["  /**", *[f"   * {line}" for line in wrapped(f"In the order of {enum}. {' '.join(texts)}")], "   */",
                  f"  public enum {camel(enum)} {{", *[f"    {line}" for line in wrapped(', '.join(c.name.upper() for c in enums[enum].constants))], "  }", ""]
    lines += ["  /** classAxis: the axis that the labels lack, else 1. */", "  public static final int AXIS_OF_LABELS = Integer.MIN_VALUE;", ""]
    for field in struct.fields:
        if not is_left_out(field):
            lines += member(field, struct, enums, key)
    kind = camel(own_enum.name)
    first = own_enum.constants[0].name.upper()
    lines += ["", f"  /** With the defaults of {first}. */", f"  public {name}() {{", f"    this({kind}.{first});", "  }", "",
              f"  /** With the defaults of that {key}. */", f"  public {name}(@NonNull {kind} {key}) {{", f"    this.{key} = {key};",
              f"    switch ({key}) {{"]
    for constant in own_enum.constants:
        own = [f"        {lower_camel(f.name)} = {value_of(f, f.defaults[constant.name], enums)};" for f in struct.fields if constant.name in f.defaults]
        if own:
            lines += [f"      case {constant.name.upper()}:", *own, "        break;"]
    return lines + ["      default:", "        break;", "    }", "  }", "}"]


def jni(struct, enums):
    """Reads the fields; objects and lists of names are in `lists`."""
    name = camel(struct.name)
    lines = [f"inline void read(Fields& fields, Fields& lists, {struct.name}& options) {{"]
    for field in struct.fields:
        if is_left_out(field) or (field.count and field.ctype != "const double*"):
            continue
        java_name, to = lower_camel(field.name), f"options.{field.name}"
        if field.ctype in enums:
            kind = CLASSES.get(field.ctype) or f"{name}${camel(field.ctype)}"
            lines.append(f"  {to} = fields.choice<{field.ctype}>(\"{java_name}\", \"Lai/graft/{kind};\");")
        elif field.is_list_of_names:
            lines.append(f"  {to} = lists.text(\"{java_name}\");")
        elif field.is_text:
            lines.append(f"  {to} = fields.text(\"{java_name}\");")
        elif field.ctype == "const double*":
            lines += [f"  const auto {field.name} = fields.reals(\"{java_name}\");", f"  {to} = {field.name}.data();",
                      f"  options.{field.count} = {field.name}.size();"]
        elif field.ctype in NATIVE:
            lines.append(f"  {to} = lists.handle<{NATIVE[field.ctype]}>(\"{java_name}\");")
        elif field.is_switch:
            lines.append(f"  {to} = fields.flag(\"{java_name}\");")
        elif field.is_real:
            lines.append(f"  {to} = fields.real(\"{java_name}\");")
        elif field.ctype == "int32_t" or field.name == "seed":
            lines.append(f"  {to} = static_cast<{field.ctype}>(fields.bits(\"{java_name}\"));")
        else:
            lines.append(f"  {to} = fields.{'number' if '64' in field.ctype else 'count'}(\"{java_name}\");")
    return lines + ["}"]
