"""C++: an aggregate with the defaults of C's struct, and its way to C; and the function that fills in C's defaults."""

import re

from description import Wrong
from names import camel, comment, described

#: What C points to, as C++ has it: the member's type, and how `{0}` becomes what C takes: a function that makes the array
#: which C points to, or an expression.
POINTERS = {
    "const double*": ("std::vector<double>", None),
    "const int32_t*": ("std::vector<std::int32_t>", None),
    "const graft_logit_bias*": ("std::vector<graft_logit_bias>", None),
    "const char* const*": ("std::vector<std::string>", "raw_names"),
    "const graft_binding*": ("std::vector<Binding>", "raw_bindings"),
    "const graft_pair*": ("std::map<std::string, std::string>", "raw_pairs"),
    "const graft_parameter_group*": ("std::vector<ParameterGroup>", "raw_groups"),
    "const graft_field*": ("std::vector<graft_field>", None),
    "const graft_input_format*": ("std::vector<InputFormat>", "raw_formats"),
    "const graft_data_set*": ("const DataSetHandle*", "{0} == nullptr ? nullptr : {0}->get()"),
    "graft_residual*": ("const ResidualHandle*", "{0} == nullptr ? nullptr : {0}->get()"),
    "graft_loader*": ("const LoaderHandle*", "{0} == nullptr ? nullptr : {0}->get()"),
    "const uint64_t*": ("std::optional<std::uint64_t>", "{0} ? &*{0} : nullptr"),
}
#: Structs in structs, and what has to outlive C's pointer.
NESTED = {"const graft_trainer_options*": "TrainerOptions", "const graft_session_options*": "SessionOptions"}
#: An empty one is not the same as none.
OPTIONAL = {"graft_plan_options.figures", "graft_data_options.classes"}
#: Functions that C++ has as std::function: its type, C's parameters after `user`, what is passed on, what C gets.
FUNCTIONS = {
    "on_text": ("bool(std::string_view text)", "const char* text, std::size_t bytes", "std::string_view(text, bytes)", True),
    "on_token": ("bool(std::int32_t token, std::span<const float> scores)", "std::int32_t token, const float* scores, std::size_t count",
                 "token, std::span(scores, count)", True),
    "report": ("void(std::string_view sentence)", "const char* sentence", "sentence", False),
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
    if field.ctype == "function":
        return f"std::function<{FUNCTIONS[field.name][0]}>" if field.name in FUNCTIONS else field.ctype
    if field.ctype in NESTED:
        return f"const {NESTED[field.ctype]}*"
    if field.ctype == "const graft_cipher*":
        return "Cipher*"
    if field.ctype in POINTERS:
        return POINTERS[field.ctype][0]
    if field.ctype.endswith("*"):
        return field.ctype
    plain = "bool" if field.is_switch else f"std::{field.ctype}" if field.is_whole else field.ctype
    return f"std::optional<{plain}>" if field.defaults else plain


def member(field, struct, enums):
    kind = member_type(field, enums)
    if f"{struct.name}.{field.name}" in OPTIONAL:
        kind = f"std::optional<{kind}>"
    if field.ctype == "function" and field.name not in FUNCTIONS:  # as C has it
        kind = f"decltype({struct.name}::{field.name})"
    if kind.endswith("*") or kind.startswith("decltype"):
        start = "nullptr"
    elif kind.startswith("std::optional") or not (field.is_number or field.is_switch or field.ctype in enums):
        start = "{}"
    else:
        start = initializer(field, field.default, enums)
    return [*comment(described(field), "  "), f"  {kind} {field.name} = {start};"]


def is_user(field, struct):
    """What C hands to functions that C++ has as std::function."""
    return field.ctype == "void*" and any(other.name in FUNCTIONS and other.ctype == "function" for other in struct.fields)


def function(field, name):
    _, parameters, passed, answers = FUNCTIONS[field.name]
    call = f"Thrown::caught(nullptr, false, [&] {{ return of.options_.{field.name}({passed}); }}) ? 1 : 0"
    if not answers:
        call = f"(void)Thrown::caught(nullptr, false, [&] {{ return of.options_.{field.name}({passed}), true; }})"
    return [f"if (options_.{field.name}) {{", f"  raw_.{field.name} = [](void* user, {parameters}) {{",
            f"    const auto& of = *static_cast<const Raw{name}*>(user);", f"    {'return ' if answers else ''}{call};", "  };", "}"]


def assignment(field, struct, enums):
    """Lines that copy a member into `raw_`, and members of the class that C's pointers refer to."""
    name, kept, source = field.name, [], f"options_.{field.name}"
    if is_user(field, struct):
        lines = [f"raw_.{name} = this;"]
    elif field.ctype == "function" and name in FUNCTIONS:
        lines = function(field, camel(struct.name))
    elif field.ctype in NESTED:
        kept = [f"std::optional<Raw{NESTED[field.ctype]}> {name}_;"]
        lines = [f"if ({source} != nullptr) raw_.{name} = {name}_.emplace(*{source}).get();"]
    elif field.ctype == "const graft_cipher*":
        kept = [f"graft_cipher {name}_{{}};"]
        lines = [f"if ({source} != nullptr) {name}_ = raw_cipher(*{source}, context);", f"if ({source} != nullptr) raw_.{name} = &{name}_;"]
    elif field.is_list_of_names:
        kept = [f"std::string {name}_ = joined({source});"]
        lines = [f"raw_.{name} = or_null({name}_);"]
    elif f"{struct.name}.{name}" in OPTIONAL and field.is_text:
        lines = [f"raw_.{name} = {source} ? {source}->c_str() : nullptr;"]
    elif field.is_text:
        lines = [f"raw_.{name} = or_null({source});"] + ([f"raw_.{field.count} = {source}.size();"] if field.count else [])
    elif f"{struct.name}.{name}" in OPTIONAL:
        kept = [f"std::vector<const char*> {name}_;"]
        lines = [f"if ({source}) {name}_ = raw_names(*{source});", f"raw_.{field.count} = {name}_.size();",
                 f"{name}_.push_back(nullptr);  // so that an empty list is not NULL", f"raw_.{name} = {source} ? {name}_.data() : nullptr;"]
    elif field.count:
        convert = POINTERS[field.ctype][1]
        if convert:
            element = "const char*" if field.ctype == "const char* const*" else field.ctype.removeprefix("const ").removesuffix("*")
            kept = [f"std::vector<{element}> {name}_ = {convert}({source});"]
            source = f"{name}_"
        lines = [f"raw_.{name} = {source}.data();", f"raw_.{field.count} = {source}.size();"]
    elif field.ctype in POINTERS:
        lines = [f"raw_.{name} = {POINTERS[field.ctype][1].format(source)};"]
    else:
        value = f"*{source}" if field.defaults else source
        value = f"{value} ? 1 : 0" if field.is_switch else value
        lines = [f"if ({source}) raw_.{name} = {value};" if field.defaults else f"raw_.{name} = {value};"]
    return lines, kept


def options(struct, enums, key=None):
    """The C++ form of a struct whose defaults may depend on the field `key`, and what makes C's of it."""
    name = camel(struct.name)
    fields = [field for field in struct.fields if not is_user(field, struct)]
    copies = [assignment(field, struct, enums) for field in struct.fields]
    needs_context = any(field.ctype == "const graft_cipher*" for field in struct.fields)
    text = re.sub(r" graft_\w+_init\(\) fills in the defaults\.", "", struct.text)
    lines = [*comment(f"{text}{f' A member that is optional is the default of its {key}.' if key else ''}", ""), f"struct {name} {{"]
    for field in fields:
        lines += member(field, struct, enums)
    given = f"const {name}& options" + (", const graft_context* context" if needs_context else "")
    lines += ["};", "", "namespace detail {", "", f"/// {name} as C takes them; they must outlive it.", f"class Raw{name} {{",
              " public:", f"  explicit Raw{name}({given}) : options_(options) {{",
              *([f"    static_cast<void>({struct.name}_init(&raw_, options.{key}));"] if key else [])]
    lines += [f"    {line}" for copied, _ in copies for line in copied]
    lines += ["  }", f"  explicit Raw{name}({name}&&{', const graft_context*' if needs_context else ''}) = delete;", f"  Raw{name}(const Raw{name}&) = delete;",
              f"  Raw{name}& operator=(const Raw{name}&) = delete;",
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


def needs_init(struct, enums):
    """Whether a default is not zero: of all others, zeros are the defaults."""
    return bool(values(struct, enums))


def functions(structs):
    """What C exports to fill in the defaults of structs that have them without a key."""
    lines = []
    for struct in structs:
        name = "group" if struct.is_element else "options"
        lines += [f"graft_status {struct.name}_init({struct.name}* {name}) {{"]
        if struct.is_element:
            lines += [f"  if ({name} == nullptr) return GRAFT_INVALID_ARGUMENT;", f"  *{name} = graft::c_api::defaults<{struct.name}>();", "  return GRAFT_OK;"]
        else:
            lines += [f"  const graft::Status written = graft::c_api::write_info(graft::c_api::defaults<{struct.name}>(), {name}, \"{struct.name}\");",
                      "  return written.ok() ? GRAFT_OK : GRAFT_INVALID_ARGUMENT;"]
        lines += ["}", ""]
    return lines


def overloads(structs):
    """One name for all of them, which a template finds by the type."""
    return [f"inline void graft_init({struct.name}* options) {{ static_cast<void>({struct.name}_init(options)); }}" for struct in structs]


def init(struct, enums, key=None):
    """The defaults of C's struct, for the library's own use."""
    if key is None:
        lines = ["template <>", f"inline {struct.name} defaults() {{", f"  {struct.name} out{{}};"]
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


def ranges(struct):
    """A function that refuses numbers out of their range."""
    ends = [f for f in struct.fields if f.range]
    if not ends:
        return []
    lines = ["template <>", f"inline Status check_ranges(const {struct.name}& o) {{", "  const Number numbers[] = {"]
    for f in ends:
        low, high = (end.replace("inf", "kInfinity") for end in (f.range.low, f.range.high))
        value = f"static_cast<double>(o.{f.name})"
        if f.default.startswith("GRAFT_"):  # a word outside the range
            value = f"o.{f.name} == {f.default} ? {low} : {value}"
        lines.append(f'      {{"{f.name}", {value}, {low}, {high}, {str(f.range.low_open).lower()}, {str(f.range.high_open).lower()}}},')
    return lines + ["  };", f'  return check_numbers("{struct.name}", numbers);', "}", ""]
