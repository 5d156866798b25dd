"""Swift: enums, and a struct of options whose initializer gives it the defaults."""

from java import renamed
from names import camel, comment, described, lower_camel

#: What C points to: the type in Swift, its initial value, and lines that copy `{0}` to `o`.
OBJECTS = {
    "const double*": ("[Double]", "[]", ["o.{c} = arena.array({s})", "o.{n} = {s}.count"]),
    "const graft_binding*": ("[String: Int]", "[:]", ["(o.{c}, o.{n}) = Graft.bindings({s}, arena)"]),
    "const graft_parameter_group*": ("[ParameterGroup]", "[]", ["(o.{c}, o.{n}) = parameterGroups({s}, arena)"]),
    "const graft_input_format*": ("[String: InputFormat]", "[:]", ["(o.{c}, o.{n}) = inputFormats({s}, arena)"]),
    "const graft_data_set*": ("DataSet?", "nil", ["o.{c} = {s}?.pointer"]),
    "graft_model*": ("Model?", "nil", ["o.{c} = {s}?.pointer"]),
}
#: What has no form in Swift.
LEFT_OUT = {"graft_profile*", "const graft_group*"}
PRECISIONS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def is_left_out(field):
    return field.ctype in LEFT_OUT or field.name.startswith("group_") or field.name == "held_out"


def case(constant):
    name = PRECISIONS.get(constant, lower_camel(constant))
    return f"`{name}`" if name in ("default", "switch", "in") else name


def value_of(field, value, enums):
    if field.ctype in enums:
        return f"{camel(field.ctype)}.{case(value)}"
    if field.is_switch:
        return "true" if value == "1" else "false"
    return "Int32.min" if value.startswith("GRAFT_") else value


def type_of(field, enums):
    if field.ctype in enums:
        return camel(field.ctype)
    if field.is_list_of_names:
        return "[String]"
    if field.is_text:
        return "String?"
    if field.ctype in OBJECTS:
        return OBJECTS[field.ctype][0]
    if field.is_switch:
        return "Bool"
    return {"double": "Double", "int32_t": "Int32", "uint64_t": "UInt64"}.get(field.ctype) or ("UInt32" if field.name == "seed" else "Int")


def start_of(field, enums):
    if field.is_list_of_names:
        return "[]"
    if field.is_text:
        return "nil"
    return OBJECTS[field.ctype][1] if field.ctype in OBJECTS else value_of(field, field.default, enums)


def copied(field, enums):
    name, to = lower_camel(field.name), f"o.{field.name}"
    if field.ctype in enums:
        return [f"{to} = {field.ctype}(rawValue: .init({name}.rawValue))"]
    if field.is_list_of_names:
        return [f"{to} = {name}.isEmpty ? nil : arena.string({name}.joined(separator: \",\"))"]
    if field.is_text:
        return [f"{to} = arena.string({name})"]
    if field.ctype in OBJECTS:
        return [line.format(c=field.name, n=field.count, s=name) for line in OBJECTS[field.ctype][2]]
    if field.is_switch:
        return [f"{to} = {name} ? 1 : 0"]
    return [f"{to} = try unsigned({name}, \"{name}\")" if type_of(field, enums) == "Int" else f"{to} = {name}"]


def swift(struct, enums, key, nested):
    rename = renamed(struct.fields)
    fields = [field for field in struct.fields if not is_left_out(field)]
    own_enum = enums[next(field.ctype for field in fields if field.name == key)]
    lines = ["import CGraft", ""]
    for enum in nested:
        lines += [f"public enum {camel(enum)}: UInt32, Sendable {{"]
        for constant in enums[enum].constants:
            lines += [*comment(rename(constant.text), "  "), f"  case {case(constant.name)} = {constant.value}"]
        lines += ["}", ""]
    lines += ["extension Trainer {", "  /// How a model is trained. Each value counts as it is, zero too.", "  public struct Options: Sendable {"]
    for field in fields:
        keyword = "let" if field.name == key else "var"
        start = "" if field.name == key else f" = {start_of(field, enums)}"
        lines += [*comment(described(field, rename), "    "), f"    public {keyword} {lower_camel(field.name)}: {type_of(field, enums)}{start}"]
    lines += ["", f"    /// With the defaults of the {key}.", f"    public init(_ {key}: {camel(own_enum.name)} = .{case(own_enum.constants[0].name)}) {{",
              f"      self.{key} = {key}", f"      switch {key} {{"]
    for constant in own_enum.constants:
        own = [f"        {lower_camel(f.name)} = {value_of(f, f.defaults[constant.name], enums)}" for f in fields if constant.name in f.defaults]
        lines += [f"      case .{case(constant.name)}:", *own] if own else []
    lines += ["      default: break", "      }", "    }", "", "    /// For one call of C's.",
              f"    func use<R>(_ body: (inout {struct.name}) throws -> R) throws -> R {{", "      try Arena.use { arena in",
              f"        var o = {struct.name}()", f"        o.struct_size = MemoryLayout<{struct.name}>.stride",
              f"        graft_trainer_options_init(&o, {own_enum.name}(rawValue: .init({key}.rawValue)))", "        try fill(&o, arena)",
              "        return try withExtendedLifetime((data, teacher)) { try body(&o) }", "      }", "    }", "",
              f"    private func fill(_ o: inout {struct.name}, _ arena: Arena) throws {{"]
    lines += [f"      {line}" for field in fields for line in copied(field, enums)]
    return lines + ["    }", "  }", "}"]
