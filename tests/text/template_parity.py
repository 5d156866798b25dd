"""Chat templates beside Jinja itself: python3-jinja2 with the settings of Hugging Face's libraries.

Usage: template_parity.py RENDER_TEMPLATES [FOLDER ...]. Each *.jinja of tests/text/templates and of the folders is run on 25
conversations by both; texts have to be equal to the byte, and what one refuses the other has to refuse.
"""
import datetime
import glob
import json
import os
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    print("Skipped: jinja2 is not installed (python3-jinja2)")
    sys.exit(77)


class Generation(jinja2.ext.Extension):
    """{% generation %}: notes where the text of its block stands."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("same"), [], [], body).set_lineno(line)

    def same(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def as_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    out = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    out.filters["tojson"] = as_json
    out.globals["raise_exception"] = refuse
    out.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return out


def function(name, description, properties, required=()):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}}


TOOLS = [
    function("get_weather", "The weather of a place.", {
        "city": {"type": "string", "description": "  its name, as in \"Zürich\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "of temperatures"}}, ["city"]),
    function("add", "Adds <numbers> & more", {
        "values": {"type": "array", "items": {"type": "number"}, "description": "what is added"},
        "deep": {"type": "object", "properties": {"x": {"type": ["integer", "null"]}}, "additionalProperties": {"type": "integer"},
                 "description": "nested"}}),
    function("nothing", "Does nothing", {}),
]


def call(name, arguments, number="123456789"):
    return {"type": "function", "id": number, "function": {"name": name, "arguments": arguments}}


def user(text):
    return {"role": "user", "content": text}


def said(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def tool(text, **more):
    return {"role": "tool", "content": text, **more}


def conversations():
    """25 of them: the variables of a template."""
    asked = [user("What is the weather in Zürich?")]
    called = asked + [said("", tool_calls=[call("get_weather", {"city": "Zürich", "unit": "celsius"})])]
    thought = "<think>\nSimple \u2192 easy.\n</think>\n\nFour."
    talks = [
        ([user("Hi")], {}),
        ([system("Be brief."), user("Hi")], {}),
        ([user("Hi"), said("Hello!"), user("Bye")], {}),
        ([system("  Spaces around \n"), user("  a \n b  "), said("\n c "), user("\td")], {}),
        ([user("Hi"), said("Hello!")], {"add_generation_prompt": False}),
        ([system("Be brief. /no_think"), user("1+1?"), said("2"), user("2+2?"), said("4"), user("3+3?")], {}),
        ([user("")], {}),
        ([], {}),
        ([said("I speak first")], {}),
        ([user("a"), user("b")], {}),
        ([system("only this")], {}),
        ([user("Forged <|im_end|> and </s> and {{ 7 * 7 }} {% if %}")], {}),
        ([user("2+2?"), said(thought), user("And 3+3?")], {}),
        ([user("2+2?"), said(thought)], {"add_generation_prompt": False}),
        ([user("2+2?"), said("Four.", reasoning_content="It is easy.\n", thinking="easy")], {"add_generation_prompt": False}),
        ([user("Think!")], {"enable_thinking": False}),
        (asked, {"tools": TOOLS}),
        ([system("Use tools.")] + asked, {"tools": TOOLS[:1]}),
        (called + [tool("12 °C", tool_call_id="123456789", name="get_weather")], {"tools": TOOLS}),
        (called + [tool("12"), tool("{\"x\": 1}"), said("It is 12 °C."), user("Thanks")], {"tools": TOOLS}),
        (asked + [{"role": "assistant", "content": None, "tool_calls": [call("add", {"values": [1, 2.5, -3e-9, 1e22], "deep": {}}),
                                                                         call("nothing", {}, "x")]}, tool("0", name="add")],
         {"tools": TOOLS[1:]}),
        ([user([{"type": "text", "text": "What is this?"}, {"type": "image"}, {"type": "text", "text": " And that?"}])], {}),
        ([user("Summarize.")], {"documents": [{"title": "A <b>", "text": "first\nsecond"}, {"title": "B", "text": "third"}]}),
        ([user("日本語 😀 \u2028 ﬁ İ"), said("はい\u00a0"), user("\"quoted\" 'single' back\\slash")], {"controls": {"length": "short"}}),
        ([{"role": "developer", "content": "unusual"}, user("Hi\r\nthere\x0b!"), {"role": "assistant", "content": "x", "name": "bot"}],
         {"add_generation_prompt": False, "date_string": "1 Jan 2025"}),
    ]
    assert len(talks) == 25
    for messages, more in talks:
        yield {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True,
               "bos_token": "<s>", "eos_token": "</s>", **more}


def main():
    mine = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
    paths = sorted(path for folder in [mine] + sys.argv[2:] for path in glob.glob(os.path.join(folder, "*.jinja")))
    with subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as program:
        cases = refused = 0
        wrong = []
        for path in paths:
            with open(path, encoding="utf-8", newline="") as file:
                source = file.read()
            texts = 0
            for number, inputs in enumerate(conversations(), 1):
                try:
                    template = environment().from_string(source)
                    expected = template.render(**inputs)
                    texts += 1
                except Exception as error:  # pylint: disable=broad-except; whatever Jinja refuses by
                    expected, reason = None, f"{type(error).__name__}: {error}"
                program.stdin.write(json.dumps({"template": source, "inputs": inputs}) + "\n")
                program.stdin.flush()
                answer = json.loads(program.stdout.readline())
                cases += 1
                refused += expected is None
                if answer.get("text") != expected:
                    wrong.append(f"{os.path.basename(path)}, conversation {number}:\n  Jinja: "
                                 f"{reason if expected is None else ascii(expected)}\n  graft: {ascii(answer)}")
            if texts == 0:
                wrong.append(f"{os.path.basename(path)}: Jinja itself refuses every conversation")
        program.stdin.close()
    print("\n".join(wrong[:40]))
    print(f"{len(paths)} templates, {cases} texts, {refused} of them refused by Jinja; {len(wrong)} differ")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
