"""C++: a class for each handle of C, whose methods call the functions that take it; and structs that own what C lends.

A function belongs to the class of the handle that it makes, else of its first parameter. A status becomes Status, what is
written through a pointer becomes Result<...>, a pointer and a count become a vector, a span or a text.
"""

import re
import textwrap

from description import Wrong
from names import camel, comment

#: Handles whose class is written by hand over the generated one, `detail::<Class>Calls`.
EXTENDED = {"graft_context", "graft_devices", "graft_model", "graft_session", "graft_generator", "graft_trainer", "graft_data_set", "graft_evaluation",
            "graft_delta", "graft_embedder", "graft_gradients", "graft_task", "graft_tokenizer"}
#: Functions whose C++ form is written by hand: it takes functions of the app, makes a context, or reads numbers of a type.
BY_HAND = {
    "graft_version", "graft_status_name", "graft_message", "graft_context_create", "graft_context_create_vulkan", "graft_vulkan_wanted",
    "graft_vulkan_wanted_destroy", "graft_session_bind", "graft_session_run_async", "graft_train_step_async", "graft_train_next_async",
    "graft_generate_async", "graft_task_done", "graft_task_wait", "graft_set_progress", "graft_model_read", "graft_model_write",
    "graft_trainer_read", "graft_trainer_write", "graft_delta_numbers", "graft_data_from_memory", "graft_data_from_callback", "graft_data_split",
    "graft_data_field", "graft_generator_submit", "graft_generator_submit_tokens", "graft_generator_finished", "graft_generator_drop",
    "graft_generator_last", "graft_generate_tokens", "graft_embed", "graft_embed_tokens", "graft_devices_find", "graft_devices_message",
    "graft_devices_remembered", "graft_context_self_test", "graft_context_known_kernels", "graft_model_verify", "graft_gradients_compute",
    "graft_model_load_adapters_together", "graft_model_load_adapters_sources", "graft_group_in_process", "graft_group_release",
    "graft_delta_average", "graft_known_device_at", "graft_loss_kinds", "graft_loss_names", "graft_metric_names", "graft_evaluation_confusion",
    "graft_delta_privacy_order", "graft_data_select", "graft_evaluations_compare"}
#: Texts and handles that may be absent.
OPTIONAL = {
    "graft_checkpoint_save.tag", "graft_model_add_adapters.options", "graft_model_load_adapters.path", "graft_session_swap_adapters.path",
    "graft_generator_swap_adapters.path", "graft_model_merge_adapters.quantize", "graft_warm_start.snapshot", "graft_gate.path", "graft_gate.old",
    "graft_trainer_join.loader", "graft_trainer_meet.loader", "graft_trainer_restart.model", "graft_warm_start.cipher"}
#: Numbers that may be left out.
DEFAULTS = {"graft_model_add_adapters.seed": "0", "graft_trainer_copy.ema": "false", "graft_delta_apply.rate": "1", "graft_memory_expire.now_ms": "0",
            "graft_memory_data.now_ms": "0", "graft_memory_mix.now_ms": "0"}
#: Methods that would have no good name otherwise.
NAMES = {
    "graft_delta_apply": "apply", "graft_evaluate_model": "of", "graft_evaluate_trainer": "of", "graft_generator_tokenizer": "of",
    "graft_forecast_training": "forecast", "graft_data_open_with": "open", "graft_data_open": "open",
    "graft_model_open_source": "open", "graft_delta_load_source": "load", "graft_model_load_adapters_source": "load_adapters",
    "graft_session_swap_adapters_source": "swap_adapters", "graft_generator_swap_adapters_source": "swap_adapters",
    "graft_data_add_reference_with": "add_reference", "graft_importance_add_tokens": "add", "graft_trainer_copy": "copy",
    "graft_checkpoint_open": "open_checkpoint", "graft_checkpoint_save": "save_checkpoint", "graft_checkpoint_close": "close_checkpoint",
    "graft_checkpoint_set_data": "set_checkpoint_data", "graft_checkpoint_describe": "describe_checkpoint",
    "graft_checkpoint_acknowledge": "acknowledge", "graft_train_micro_step": "micro_step", "graft_gradients_get": "gradient", "graft_evaluate_data": "evaluate",
    "graft_memory_data": "of_memory", "graft_memory_mix": "mixed"}
#: Functions that another class has than that of the handle that they make.
OWNERS = {"graft_averager_finish": "graft_averager", "graft_server_step": "graft_server"}
#: Lists, by the function of one of them.
LISTS = {"graft_importance_at": "matrices", "graft_plan_node_at": "nodes", "graft_plan_value_at": "values", "graft_profile_phase_at": "phases",
         "graft_gate_condition": "gate_conditions", "graft_model_metadata_at": "metadata_list", "graft_store_metadata_at": "metadata_list",
         "graft_model_class": "classes", "graft_evaluation_class": "classes", "graft_data_class": "classes", "graft_store_damaged": "all_damaged",
         "graft_memory_at": "records"}
#: Structs that stay as C has them: they are filled for each batch or tensor, or have a form written by hand.
VIEWS = {"graft_binding", "graft_tensor_info", "graft_batch", "graft_generated", "graft_field", "graft_shown_token"}
#: Texts of which each line is one.
LINES = {"graft_snapshot.tags", "graft_memory_added.evicted"}


def plain(ctype):
    """std::uint64_t for uint64_t."""
    return f"std::{ctype}" if re.fullmatch(r"u?int\d+_t|size_t", ctype) else ctype


def wrapped(head, arguments, tail, indent):
    """A call in lines of at most 120 columns."""
    text = f"{indent}{head}({', '.join(arguments)}){tail}"
    if len(text) <= 120:
        return [text]
    lines = textwrap.wrap(f"{', '.join(arguments)}){tail}", 118 - len(indent) - 4, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}{head}(", *(f"{indent}    {line}" for line in lines)]


class Calls:
    def __init__(self, declarations, options):
        self.declarations = declarations
        self.options = options  #: names of structs that have a C++ form
        self.destroys = {f.parameters[0].ctype[:-1]: f.name for f in declarations.functions.values()
                         if f.name.endswith("_destroy") and f.parameters[0].ctype[:-1] in declarations.handles}
        self.handles = [name for name in declarations.handles if name in self.destroys]

    def handle_of(self, ctype):
        name = ctype.removeprefix("const ").rstrip("*")
        return name if name in self.handles else None

    def owner(self, function):
        """The handle whose class has the function."""
        if function.name in OWNERS:
            return OWNERS[function.name]
        last = function.parameters[-1].ctype if function.parameters else ""
        if last.endswith("**") and self.handle_of(last) and not last.startswith("const"):
            return self.handle_of(last)
        first = function.parameters[0].ctype if function.parameters else ""
        return self.handle_of(first) if first.count("*") == 1 else None

    def generated(self):
        """Functions by the handle that has them."""
        found = {name: [] for name in self.handles}
        for function in self.declarations.functions.values():
            if function.name in BY_HAND or function.name.endswith(("_destroy", "_init")):
                continue
            owner = self.owner(function)
            if owner is None:
                raise Wrong(f"{function.name} takes and makes no handle; its C++ form has to be written by hand (calls.py).")
            found[owner].append(function)
        return found

    # ---- Structs ----

    def is_owned(self, layout):
        return layout.name not in VIEWS and any("*" in member.ctype for member in layout.members)

    def members(self, layout):
        """Pairs of a member's declaration and its value of `raw`."""
        members, made = [m for m in layout.members if m.name != "struct_size"], []
        skip = False
        for i, member in enumerate(members):
            if skip:
                skip = False
                continue
            count = members[i + 1].name if i + 1 < len(members) and members[i + 1].ctype == "size_t" else ""
            raw = f"raw.{member.name}"
            if f"{layout.name}.{member.name}" in LINES:
                made.append((member, f"std::vector<std::string> {member.name}", f"detail::lines({raw})"))
            elif member.ctype == "const char*" and count != "bytes":
                made.append((member, f"std::string {member.name}", f"detail::text({raw})"))
            elif member.ctype.startswith("const ") and member.ctype.endswith("*") and count:
                element = member.ctype[6:-1]
                owned = element in self.declarations.layouts and self.is_owned(self.declarations.layouts[element])
                kind = camel(element) if owned else plain(element)
                made.append((member, f"std::vector<{kind}> {member.name}", f"detail::items<{kind}>({raw}, raw.{count})"))
                skip = True
            elif member.size:
                made.append((member, f"std::array<{plain(member.ctype)}, {member.size}> {member.name}", f"std::to_array({raw})"))
            elif "*" in member.ctype:
                raise Wrong(f"{layout.name}.{member.name} has no C++ form.")
            elif member.ctype == "int":
                made.append((member, f"bool {member.name}", f"{raw} != 0"))
            else:
                made.append((member, f"{plain(member.ctype)} {member.name}", raw))
        return made

    def infos(self):
        """Structs that C fills."""
        used = set()
        for function in self.declarations.functions.values():
            if function.name in BY_HAND - {"graft_data_field", "graft_evaluations_compare", "graft_known_device_at"}:
                continue
            used |= {p.ctype.removeprefix("const ").rstrip("*") for p in function.parameters if self.is_out(p)}
        lines, done = [], set()

        def add(name):
            if name in done or name not in self.declarations.layouts or name in VIEWS | self.options:
                return
            done.add(name)
            layout = self.declarations.layouts[name]
            text = layout.text or f"As {name}."
            if not self.is_owned(layout):
                lines.extend([*comment(text, ""), f"using {camel(name)} = {name};", ""])
                return
            for member in layout.members:
                add(member.ctype.removeprefix("const ").rstrip("*"))
            made = self.members(layout)
            lines.extend([*comment(re.sub(r" ?(Pointers|Texts) are valid[^.]*\.", "", text), ""), f"struct {camel(name)} {{", f"  {camel(name)}() = default;",
                          f"  explicit {camel(name)}(const {name}& raw)"])
            values = [f"{declared.split()[-1]}({value})" for _, declared, value in made]
            lines.extend(f"      {':' if i == 0 else ' '} {value}{',' if i + 1 < len(values) else ' {}'}" for i, value in enumerate(values))
            lines.append("")
            for member, declared, _ in made:
                text = re.sub(r";? ?valid [^;.]*", "", member.text)
                lines.extend([*comment(text, "  "), f"  {declared}{'' if declared.startswith('std::') and 'int' not in declared.split()[0] else ' = {}'};"])
            lines.extend(["};", ""])

        for name in self.declarations.layouts:
            if name in used:
                add(name)
        return lines

    # ---- Functions ----

    @staticmethod
    def is_out(parameter):
        return (parameter.ctype.endswith("**") or parameter.ctype.endswith("*") and not parameter.ctype.startswith("const ")
                ) and not parameter.ctype.startswith(("void", "function")) and not parameter.ctype.endswith("* const*")

    def value(self, name):
        """The C++ type of a struct."""
        layout = self.declarations.layouts[name]
        own = {"graft_tensor_info": "TensorInfo", "graft_binding": "Binding"}
        return own[name] if name in own else name if name in VIEWS else camel(layout.name)

    def outputs(self, function, parameters):
        """Lines that declare what C writes to, its arguments, and (type, name, value) of each."""
        lines, arguments, outs, at = [], [], [], 0
        while at < len(parameters):
            p, kind = parameters[at], parameters[at].ctype
            follower = parameters[at + 1] if at + 1 < len(parameters) else None
            sized = follower is not None and follower.ctype == "size_t*"
            at += 1
            if kind.endswith("**") and sized:
                at += 1
                element = kind.removeprefix("const ")[:-2]
                size = follower.name if follower.name != p.name else "size"
                lines += [f"{kind[:-1]} {p.name} = nullptr;", f"std::size_t {size} = 0;"]
                arguments += [f"&{p.name}", f"&{size}"]
                if element == "void":
                    value, typed = f"detail::bytes_at({p.name}, {size})", "std::span<const std::byte>"
                    if at < len(parameters) and parameters[at].ctype == "graft_tensor_info*":
                        lines, arguments = [*lines, "TensorInfo info{};"], [*arguments, "&info"]
                        value, typed, at = f"TensorView{{{value}, info}}", "TensorView", at + 1
                elif element == "char":
                    value, typed = f"std::string({p.name}, {size})", "std::string"
                elif not kind.startswith("const"):
                    value, typed = f"std::span({p.name}, {size})", f"std::span<{plain(element)}>"
                else:
                    layout = self.declarations.layouts.get(element)
                    owned = self.value(element) if layout else plain(element)
                    value, typed = f"detail::items<{owned}>({p.name}, {size})", f"std::vector<{owned}>"
                outs.append((typed, p.name, value))
            elif kind == "const char**":
                lines.append(f"const char* {p.name} = nullptr;")
                arguments.append(f"&{p.name}")
                outs.append(("std::string", p.name, f"detail::text({p.name})"))
            elif kind.endswith("**") and self.handle_of(kind):
                lines.append(f"{kind[:-1]} {p.name} = nullptr;")
                arguments.append(f"&{p.name}")
                made = camel(self.handle_of(kind))
                outs.append((made, p.name, f"{made}({p.name}, context())"))
            elif kind.endswith("**"):
                raise Wrong(f"{function.name}: what {p.name} points to has no C++ form.")
            else:
                base = kind[:-1]
                layout = self.declarations.layouts.get(base)
                if layout:
                    sized = any(member.name == "struct_size" for member in layout.members)
                    lines.append(f"auto {p.name} = detail::sized<{base}>();" if sized else f"{base} {p.name}{{}};")
                    owned = self.is_owned(layout)
                    outs.append((self.value(base), p.name, f"{self.value(base)}({p.name})" if owned else p.name))
                else:
                    lines.append(f"{plain(base)} {p.name}{{}};")
                    outs.append(("bool" if base == "int" else plain(base), p.name, f"{p.name} != 0" if base == "int" else p.name))
                arguments.append(f"&{p.name}")
        return lines, arguments, outs

    def inputs(self, function, parameters):
        """C++ parameters with their defaults, lines before the call, and C's arguments."""
        declared, lines, arguments, at = [], [], [], 0
        while at < len(parameters):
            p, kind, where = parameters[at], parameters[at].ctype, f"{function.name}.{parameters[at].name}"
            follower = parameters[at + 1] if at + 1 < len(parameters) else None
            counted = follower is not None and (follower.name.endswith("count") or follower.name == "bytes") and follower.ctype in ("size_t", "uint64_t")
            base = kind.removeprefix("const ").rstrip("*")
            at += 1
            name, default = p.name, None
            if kind == "const char*" and counted:
                at += 1
                declared.append((f"std::string_view {name}", None))
                arguments += [f"{name}.data()", f"{name}.size()"]
                continue
            if kind.endswith("*") and kind != "const char*" and counted:
                at += 1
                if base == "void" and kind == "const void*":
                    typed, data = "std::span<const std::byte>", name
                elif kind == "const void* const*":
                    typed, data = "const std::vector<const void*>&", name
                elif kind == "const char* const*":
                    typed, data = "const std::vector<std::string>&", f"detail::raw_names({name})"
                elif base == "graft_binding":
                    typed, data = "const std::vector<Binding>&", f"detail::raw_bindings({name})"
                elif base == "graft_chat_message":
                    typed, data = "std::span<const ChatMessage>", f"detail::raw_messages({name})"
                elif plain(base) != base or base in ("double", "float"):
                    typed, data = f"std::span<const {plain(base)}>", name
                else:
                    raise Wrong(f"{where} has no C++ form.")
                declared.append((f"{typed} {name}", None))
                if data != name:
                    lines.append(f"const auto raw_{name} = {data};")
                    data = f"raw_{name}"
                arguments += [f"{data}.data()", f"{data}.size()"]
                continue
            if kind == "const char*":
                typed, argument = "const std::string&", f"detail::or_null({name})" if where in OPTIONAL else f"{name}.c_str()"
                default = "{}" if where in OPTIONAL else None
            elif self.handle_of(kind) and kind.count("*") == 1:
                typed = f"const {camel(base)}Handle"
                typed, argument = (f"{typed}*", f"{name} == nullptr ? nullptr : {name}->get()") if where in OPTIONAL else (f"{typed}&", f"{name}.get()")
                default = "nullptr" if where in OPTIONAL else None
            elif base in self.options and kind.startswith("const"):
                context = ", context_of" if base in ("graft_checkpoint_options", "graft_store_options", "graft_memory_options") else ""
                lines.append(f"const detail::Raw{camel(base)} raw_{name}({name}{context});")
                typed, argument, default = f"const {camel(base)}&", f"raw_{name}.get()", "{}"
            elif base == "graft_source":
                lines.append(f"const graft_source raw_{name} = {name}.raw();")
                typed, argument = "const Source&", f"&raw_{name}"
            elif base == "graft_cipher":
                lines += [f"graft_cipher raw_{name}{{}};", f"if ({name} != nullptr) raw_{name} = detail::raw_cipher(*{name}, context_of);"]
                typed, argument, default = "Cipher*", f"{name} == nullptr ? nullptr : &raw_{name}", "nullptr"
            elif kind in ("const void*", "const uint64_t*"):
                typed, argument = kind, name
            elif "*" in kind or kind == "function" or kind in self.declarations.callbacks:
                raise Wrong(f"{where} has no C++ form.")
            elif kind == "int":
                typed, argument = "bool", f"{name} ? 1 : 0"
            else:
                typed, argument = plain(kind), name
            default = DEFAULTS.get(where, default)
            separator = "" if typed.endswith(("&", "*")) else " "
            declared.append((f"{typed}{separator or ' '}{name}", default))
            arguments.append(argument)
        for i in range(len(declared)):
            if any(default is None for _, default in declared[i:]):
                declared[i] = (declared[i][0], None)
        return [text + (f" = {default}" if default else "") for text, default in declared], lines, arguments

    def name(self, function, handle):
        if function.name in NAMES:
            return NAMES[function.name]
        short = {"graft_data_set": "graft_data_", "graft_memory_file": "graft_memory_"}.get(handle, f"{handle}_")
        for prefix in (f"{handle}_", short, "graft_"):
            if function.name.startswith(prefix):
                name = function.name.removeprefix(prefix)
                return {"class": "class_name"}.get(name, name)

    def text(self, function):
        text = re.sub(r"(?:^|(?<=[.;] ))[^.;]*\bmay be NULL[.;]\s*", "", function.text)
        layout = self.declarations.layouts.get(function.parameters[-1].ctype[:-1])
        if re.fullmatch(r"Fills \w+\.", text) and layout:
            text = layout.text
        if re.match(r"[a-z]+\b(?!_)", text):  # not the word of a status
            text = text[:1].upper() + text[1:]
        return text if text else f"See {function.name}."

    def method(self, function, handle):
        makes = function.parameters[-1].ctype.endswith("**") and self.handle_of(function.parameters[-1].ctype)
        is_static = bool(makes) and makes == handle
        parameters = function.parameters[:-1] if is_static else function.parameters[1:]
        # Handles that C takes without const are no outputs.
        ins, outs = [], []
        for p in parameters:
            (outs if self.is_out(p) and (p.ctype.endswith("**") or not self.handle_of(p.ctype)) else ins).append(p)
        declared, lines, arguments = self.inputs(function, ins)
        out_lines, out_arguments, values = self.outputs(function, outs)
        name = self.name(function, handle)
        context = f"{ins[0].name}.context()" if is_static else "context()"
        lines = [line.replace("context_of", context) for line in lines]
        given = arguments if is_static else ["get()", *arguments]
        given += out_arguments
        doc = comment(self.text(function), "  ")
        const = " const" if not is_static and function.parameters[0].ctype.startswith("const") else ""
        if is_static:
            cls = camel(handle) if handle not in EXTENDED else "Made"
            lines += [f"{handle}* made = nullptr;", *wrapped(f"const graft_status code = {function.name}", [*given, "&made"], ";", ""),
                      f"return detail::made(code, {context}, {cls}(made, {context}));"]
            head = (f"template <typename Made = {camel(handle)}>", f"static Result<Made> {name}") if handle in EXTENDED else (None, f"static Result<{cls}> {name}")
            signature = [*([f"  {head[0]}"] if head[0] else []), *wrapped(head[1], declared, " {", "  ")]
            return doc + signature + [f"    {line}" for line in lines] + ["  }"]
        if function.result != "graft_status":
            if function.result == "const char*":
                typed, value = "std::string", "detail::text({0})"
            elif function.result == "int":
                typed, value = "bool", "{0} != 0"
            else:
                typed, value = plain(function.result), "{0}"
            call = value.format(f"{function.name}({', '.join(given)})")
            lines.append(f"{'' if typed == 'void' else 'return '}{call};")
        elif not values:
            typed = "Status"
            lines += wrapped(f"return status({function.name}", given, ");", "")
        else:
            lines += out_lines
            typed, value = f"Result<{values[0][0]}>", values[0][2]
            before = []
            if len(values) == 2 and values[0][0] == "bool" and function.parameters[-1].ctype.endswith("_metrics*"):
                typed, value = f"Result<std::optional<{values[1][0]}>>", f"{values[0][2]} ? std::optional({values[1][2]}) : std::nullopt"
            elif len(values) > 1:
                struct = f"{camel('graft_' + name)}Result"
                before = [f"  /// What {name}() gives.", f"  struct {struct} {{", *[f"    {kind} {out}{'{}' if not kind.startswith('std::v') else ''};" for kind, out, _ in values],
                          "  };"]
                typed, value = f"Result<{struct}>", f"{struct}{{{', '.join(v for _, _, v in values)}}}"
            lines += [*wrapped(f"const Status called = status({function.name}", given, ");", ""), "if (!called.ok()) return called;", f"return {value};"]
            doc = before + doc
        signature = wrapped(f"{typed} {name}", declared, f"{const} {{", "  ")
        if len(lines) == 1 and len(signature) == 1 and len(signature[0]) + len(lines[0]) <= 116:
            return doc + [f"{signature[0]} {lines[0]} }}"]
        return doc + signature + [f"    {line}" for line in lines] + ["  }"]

    def listing(self, function, handle):
        """All of what a function of an index gives."""
        ins = [p for p in function.parameters[1:] if not self.is_out(p) or self.handle_of(p.ctype)]
        outs = [p for p in function.parameters[1:] if self.is_out(p) and not self.handle_of(p.ctype)]
        indexed = ins and ins[-1].name in ("index", "heap", "fact", "quirk", "worker") and ins[-1].ctype == "size_t"
        if not indexed or not (function.result == "const char*" or function.result == "graft_status" and outs):
            return []
        name = LISTS.get(function.name) or self.name(function, handle) + "s"
        declared, lines, arguments = self.inputs(function, ins[:-1])
        const = " const" if function.parameters[0].ctype.startswith("const") else ""
        before = lines
        if function.result == "const char*":
            typed = "std::string"
            call = wrapped(f"while (const char* one = {function.name}", ["get()", *arguments, "all.size()"], ") all.emplace_back(one);", "")
        else:
            out_lines, out_arguments, values = self.outputs(function, outs)
            if len(values) > 1:
                typed, value = f"std::pair<{values[0][0]}, {values[1][0]}>", f"{values[0][2]}, {values[1][2]}"
            else:
                typed, value = values[0][0], values[0][2]
            before = before + out_lines
            call = [*wrapped(f"while ({function.name}", ["get()", *arguments, "all.size()", *out_arguments], " == GRAFT_OK) {", ""),
                    f"  all.emplace_back({value});", "}"]
        return [f"  /// All that {self.name(function, handle)}() gives, in its order.", *wrapped(f"std::vector<{typed}> {name}", declared, f"{const} {{", "  "),
                *(f"    {line}" for line in [*before, f"std::vector<{typed}> all;", *call, "return all;"]), "  }"]

    def handle_aliases(self):
        """The base of each class."""
        lines = [f"class {camel(handle)};" for handle in self.handles] + [""]
        for handle in self.handles:
            lines += [f"/// Owns a {handle}.", f"using {camel(handle)}Handle = detail::Object<{handle}, {self.destroys[handle]}>;"]
        return lines

    def class_of(self, handle, functions):
        name = camel(handle) + ("Calls" if handle in EXTENDED else "")
        doc = comment(self.declarations.handles[handle] or f"A {handle}.", "")
        lines = [*doc, f"class {name} : public {camel(handle)}Handle {{", " public:",
                 "  /// Takes the handle over; `context` is the one that it was made from.",
                 f"  {name}({handle}* handle, graft_context* context) : Object(handle, context) {{}}"]
        for function in functions:
            lines += self.method(function, handle) + self.listing(function, handle)
        return [*lines, "};"]

    def file_of(self, handle):
        return f"graft/{handle.removeprefix('graft_')}{'_calls' if handle in EXTENDED else ''}.hpp"

    def headers(self, notice):
        """Texts of headers by path."""
        def header(includes, lines, inner=""):
            begins = [f"namespace {inner} {{", ""] if inner else []
            return [f"// {notice}", "#pragma once", "", *includes, "", "namespace graft {", "inline namespace v0 {", *begins, *([] if begins else [""]), *lines, "",
                    *([f"}}  // namespace {inner}"] if inner else []), "}  // namespace v0", "}  // namespace graft"]

        out = {"graft/handles.hpp": header(['#include "graft/base.hpp"'], self.handle_aliases()),
               "graft/infos.hpp": header(["#include <array>", "#include <string>", "#include <vector>", "", '#include "graft/base.hpp"',
                                             '#include "graft/distribute.h"', '#include "graft/steps.h"'], self.infos())}
        for handle, functions in self.generated().items():
            made = {OWNERS[name]: "graft/delta.hpp" for name in OWNERS}.get(handle)
            includes = ["#include <cstddef>", "#include <cstdint>", "#include <optional>", "#include <span>", "#include <string>", "#include <string_view>",
                        "#include <utility>", "#include <vector>", "", *([f'#include "{made}"'] if made else []), '#include "graft/infos.hpp"',
                        '#include "graft/options.hpp"', '#include "graft/source.hpp"']
            out[self.file_of(handle)] = header(includes, self.class_of(handle, functions), "detail" if handle in EXTENDED else "")
        return out
