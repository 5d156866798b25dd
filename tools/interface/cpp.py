"""C++: an aggregate with the defaults of C's struct, and its way to C; and the function that fills in C's defaults."""

from description import Wrong
from names import camel, comment, described

# What C points to, as C++ has it: the member's type, and the expression of `{0}` that C takes.
POINTERS = {
    "const double*": ("std::vector<double>", None),
    "const graft_binding*": ("std::vector<Binding>", "raw_bindings"),
    "const graft_parameter_group*": ("std::vector<ParameterGroup>", "raw_groups"),
    "const graft_input_format*": ("std::vector<InputFormat>", "raw_formats"),
    "const graft_data_set*": ("const DataSet*", "{0} == nullptr ? nullptr : {0}->get()"),
}


def initializer(field, value, enums):
    if field.ctype in enums:
        return enums[field.ctype].constant(value).c_name
    if field.is_switch:
        return "true" if value == "1" else "false"
    return value


def member_type(field, enums):
    if field.is_list_of_names:
        return "std::vector<std::string>"
    if field.is_text:
        return "std::string"
    if field.ctype in POINTERS:
        return POINTERS[field.ctype][0]
    if field.ctype.endswith("*"):
        return field.ctype
    plain = "bool" if field.is_switch else f"std::{field.ctype}" if field.is_whole else field.ctype
    return f"std::optional<{plain}>" if field.defaults else plain


def member(field, enums):
    kind = member_type(field, enums)
    if kind.endswith("*"):
        start = "nullptr"
    elif kind.startswith("std::optional") or not (field.is_number or field.is_switch or field.ctype in enums):
        start = "{}"
    else:
        start = initializer(field, field.default, enums)
    return [*comment(described(field), "  "), f"  {kind} {field.name} = {start};"]


def assignment(field, enums):
    """Lines that copy a member into `raw_`, and members of the class that C's pointers refer to."""
    name, kept = field.name, []
    if field.is_list_of_names:
        kept = [f"std::string {name}_ = joined(options_.{name});"]
        lines = [f"raw_.{name} = or_null({name}_);"]
    elif field.is_text:
        lines = [f"raw_.{name} = or_null(options_.{name});"]
    elif field.count:
        convert = POINTERS[field.ctype][1]
        source = f"options_.{name}"
        if convert:
            element = field.ctype.removeprefix("const ").removesuffix("*")
            kept = [f"std::vector<{element}> {name}_ = {convert}(options_.{name});"]
            source = f"{name}_"
        lines = [f"raw_.{name} = {source}.data();", f"raw_.{field.count} = {source}.size();"]
    elif field.ctype in POINTERS:
        lines = [f"raw_.{name} = {POINTERS[field.ctype][1].format(f'options_.{name}')};"]
    else:
        value = f"*options_.{name}" if field.defaults else f"options_.{name}"
        value = f"{value} ? 1 : 0" if field.is_switch else value
        lines = [f"if (options_.{name}) raw_.{name} = {value};" if field.defaults else f"raw_.{name} = {value};"]
    return lines, kept


def options(struct, enums, key=None):
    """The header of a struct whose defaults may depend on the field `key`."""
    name = camel(struct.name)
    copies = [assignment(field, enums) for field in struct.fields]
    lines = [f"/// As {struct.name}.{f' A member that is optional is the default of its {key}.' if key else ''}", f"struct {name} {{"]
    for field in struct.fields:
        lines += member(field, enums)
    lines += ["};", "", "namespace detail {", "", f"/// {name} as C takes them; they must outlive it.", f"class Raw{name} {{",
              " public:", f"  explicit Raw{name}(const {name}& options) : options_(options) {{",
              *([f"    static_cast<void>({struct.name}_init(&raw_, options.{key}));"] if key else [])]
    lines += [f"    {line}" for copied, _ in copies for line in copied]
    lines += ["  }", f"  explicit Raw{name}({name}&&) = delete;", f"  Raw{name}(const Raw{name}&) = delete;", f"  Raw{name}& operator=(const Raw{name}&) = delete;",
              f"  const {struct.name}* get() const {{ return &raw_; }}", f"  const {struct.name}& operator*() const {{ return raw_; }}",
              "", " private:", f"  const {name}& options_;"]
    lines += [f"  {kept}" for _, all_kept in copies for kept in all_kept]
    lines += [f"  {struct.name} raw_ = sized<{struct.name}>();", "};", "", "}  // namespace detail"]
    return lines


def values(struct, enums, key=None):
    """Assignments of the defaults that are not zero, but that of the field `key`."""
    lines = []
    for field in struct.fields:
        if field.is_number or field.is_switch or field.ctype in enums:
            value = initializer(field, field.default, enums)
            value = str(int(field.default)) if field.is_switch else value
            if field.name != key and value not in ("0", enums[field.ctype].constants[0].c_name if field.ctype in enums else "0"):
                lines.append(f"  out.{field.name} = {value};")
    return lines


def functions(structs):
    """What C exports to fill in the defaults of structs that have them without a key."""
    lines = []
    for struct in structs:
        name = "group" if struct.is_element else "options"
        lines += [f"graft_status {struct.name}_init({struct.name}* {name}) {{"]
        if struct.is_element:
            lines += [f"  if ({name} == nullptr) return GRAFT_INVALID_ARGUMENT;", f"  *{name} = graft::c_api::default_{struct.name}();", "  return GRAFT_OK;"]
        else:
            lines += [f"  const graft::Status written = graft::c_api::write_info(graft::c_api::default_{struct.name}(), {name}, \"{struct.name}\");",
                      "  return written.ok() ? GRAFT_OK : GRAFT_INVALID_ARGUMENT;"]
        lines += ["}", ""]
    return lines


def overloads(structs):
    """One name for all of them, which a template finds by the type."""
    return [f"inline void graft_init({struct.name}* options) {{ static_cast<void>({struct.name}_init(options)); }}" for struct in structs]


def init(struct, enums, key=None):
    """The defaults of C's struct, for the library's own use."""
    if key is None:
        lines = [f"inline {struct.name} default_{struct.name}() {{", f"  {struct.name} out{{}};"]
        return lines + ([] if struct.is_element else ["  out.struct_size = sizeof out;"]) + values(struct, enums) + ["  return out;", "}"]
    enum = enums[next(field.ctype for field in struct.fields if field.name == key)]
    if [constant.value for constant in enum.constants] != list(range(len(enum.constants))):
        raise Wrong(f"The constants of {enum.name} are not 0, 1, 2, ...")
    lines = [f"constexpr unsigned k{camel('graft_' + enum.name)}s = {len(enum.constants)};",
             f"inline {struct.name} default_{struct.name}({enum.name} {key}) {{", f"  {struct.name} out{{}};",
             "  out.struct_size = sizeof out;", *values(struct, enums, key)]
    lines += [f"  out.{key} = {key};", f"  switch ({key}) {{"]
    for constant in enum.constants:
        own = [f"out.{f.name} = {f.defaults[constant.name]};" for f in struct.fields if constant.name in f.defaults]
        if own:
            lines += [f"    case {constant.c_name}:", *[f"      {assign}" for assign in own], "      break;"]
    return lines + ["    default: break;", "  }", "  return out;", "}"]
