"""Token ids of conversations, template by template and tokenizer by tokenizer, compared with those of Hugging Face's libraries.

Usage: chat_parity.py ENCODE_TEXTS [--save]

ENCODE_TEXTS is the program of tests/text/encode_texts.cpp. The tokenizers are small ones of tests/text/tokenizers.jsonl
and real ones of the test data (GRAFT_TEST_DATA, or ../shared/data); each gets the special tokens that the templates
spell. chat_parity.json has a hash for each pair, of the ids that the library gives for the text that Jinja renders; no
message spells a special token. What Jinja refuses has to be refused. --save writes it again, with python3-jinja2, node
and npm's `tokenizers` (NODE_PATH says where). Exit status: 0 all ids are equal, 1 some are not, 77 they are equal and
the test data is absent.
"""
import glob
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.environ.get("GRAFT_TEST_DATA") or os.path.join(ROOT, "../shared/data")
EXPECTED = os.path.join(ROOT, "tests/text/chat_parity.json")
SMALL = ("ByteLevel false true", "Metaspace always true", "Metaspace first true", "Bert true null true", "fallback")
REAL = ("tokenizer-more/*/tokenizer.json.gz", "tokenizer-hf-json/*.json", "llm-tinystories-656k/tokenizer.json")
SPELLED = re.compile(r"<[|\uff5c][^|\uff5c<>'\"{}\s]{1,40}[|\uff5c]>|</?[A-Za-z_]{1,24}>|\[/?[A-Z_]{3,24}\]|\[gMASK\]|<sop>")
ROLES = ("system", "user", "assistant", "tool", "observation")
ENDS = {"bos_token": "<s>", "eos_token": "</s>"}
LIBRARY = """
const tokenizer = require('tokenizers').Tokenizer.fromFile(process.argv[1]);
tokenizer.disablePadding(); tokenizer.disableTruncation();
(async () => {
  const out = [];
  for (const text of JSON.parse(require('fs').readFileSync(0, 'utf8')))
    out.push(text === null ? null : (await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds());
  console.log(JSON.stringify(out));
})();
"""


def said(role, content, **more):
    return {"role": role, "content": content, **more}


def conversations():
    call = {"type": "function", "id": "123456789", "function": {"name": "add", "arguments": {"x": 2, "city": "Zürich"}}}
    tool = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
        "type": "object", "properties": {"x": {"type": "integer", "description": "a number"}}, "required": ["x"]}}}
    talk = [said("user", "Hi there"), said("assistant", "Hello!  How are you?\n")]
    yield {"messages": [said("user", "Hi")], "ask": True}
    yield {"messages": [said("system", "Be kind."), said("user", " leading and trailing ")], "ask": True}
    yield {"messages": talk, "ask": False}
    yield {"messages": [said("system", "x"), *talk, said("user", "日本語 \U0001f600\n\n  1234567 don't | < >")], "ask": True}
    yield {"messages": [said("user", "2 + 2?"), said("assistant", "", tool_calls=[call]),
                        said("tool", "4", name="add", tool_call_id="123456789"), said("assistant", "4")],
           "tools": [tool], "ask": False}


def templates():
    folders = [os.path.join(ROOT, "tests/text/templates"), os.path.join(DATA, "chat-templates")]
    for path in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as file:
            source = file.read()
        if "strftime_now" not in source or "date_string" in source:  # today's text is another one
            yield os.path.basename(path)[:-6], source


def tokenizers():
    with open(os.path.join(ROOT, "tests/text/tokenizers.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    for row in (row for row in lines[1:] if row["name"] in SMALL):
        parts = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                 "pre_tokenizer": None, "post_processor": None, "decoder": None, **row["parts"]}
        yield row["name"], {**parts, "model": lines[0]["models"][row["model"]]}
    for path in sorted(path for pattern in REAL for path in glob.glob(os.path.join(DATA, pattern))):
        with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
            yield os.path.relpath(path, DATA), json.load(file)


def with_special(document, special):
    """The tokenizer with these tokens as well; every third takes the white space next to it."""
    vocabulary, known = document["model"]["vocab"], document.get("added_tokens") or []
    size = max([len(vocabulary) - 1] + [token["id"] for token in known]) + 1
    names = {token["content"] for token in known} | (set(vocabulary) if isinstance(vocabulary, dict) else set())
    added = [{"id": size + i, "content": name, "single_word": False, "lstrip": i % 6 == 3, "rstrip": i % 6 == 0,
              "normalized": False, "special": True} for i, name in enumerate(n for n in special if n not in names)]
    return {**document, "added_tokens": known + added}


def hash_of(answers):
    return hashlib.sha256(json.dumps(answers).encode()).hexdigest()[:12]


def ids_of_graft(program, path, sources):
    """For each template the ids of each conversation; None where it refuses."""
    ends = "".join("{% set " + key + " = '" + value + "' %}\n" for key, value in ENDS.items())
    lines = [{**one, "template": ends + source, "date_string": "26 Jul 2024"} for source in sources for one in conversations()]
    run = subprocess.run([program, path], input="\n".join(map(json.dumps, lines)), capture_output=True, encoding="utf-8",
                         check=False)
    if run.returncode != 0:
        sys.exit(f"{path}: {run.stderr}")
    answers = [json.loads(line).get("ids") for line in run.stdout.split("\n") if line]
    each = len(answers) // len(sources)
    return [answers[i:i + each] for i in range(0, len(answers), each)]


def ids_of_library(path, sources):
    import template_parity  # pylint: disable=import-outside-toplevel; needs jinja2
    texts = []
    for source in sources:
        for one in conversations():
            environment = template_parity.environment()
            environment.filters["safe"] = str  # Jinja's makes + escape what follows, which graft does not
            values = {"tools": None, "documents": None, **one, **ENDS, "date_string": "26 Jul 2024"}
            values["add_generation_prompt"] = values.pop("ask")
            try:
                texts.append(environment.from_string(source).render(**values))
            except Exception:  # pylint: disable=broad-except; whatever Jinja refuses by
                texts.append(None)
    run = subprocess.run(["node", "-e", LIBRARY, path], input=json.dumps(texts), capture_output=True, encoding="utf-8",
                         check=True)
    answers = json.loads(run.stdout)
    each = len(answers) // len(sources)
    return [answers[i:i + each] for i in range(0, len(answers), each)]


def main():
    program, save = sys.argv[1], "--save" in sys.argv[2:]
    named = list(templates())
    special = sorted({token for _, source in named for token in SPELLED.findall(source)} |
                     {f"<|{role}|>" for role in ROLES} | set(ENDS.values()), key=lambda t: (-len(t), t))
    if not save:
        with open(EXPECTED, encoding="utf-8") as file:
            expected = json.load(file)
        special = expected["special"]
    out, pairs, wrong = {"special": special, "ids": {}}, 0, []
    with tempfile.TemporaryDirectory() as folder:
        for name, document in tokenizers():
            path = os.path.join(folder, "tokenizer.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(with_special(document, special), file)
            sources = [source for _, source in named]
            graft = ids_of_graft(program, path, sources)
            if save:
                library = ids_of_library(path, sources)
                out["ids"][name] = {}
                for (template, _), ours, theirs in zip(named, graft, library, strict=True):
                    out["ids"][name][template] = hash_of(theirs)
                    wrong += [f"{name} with {template}, conversation {i}:\n  library {b}\n  graft   {a}"
                              for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
                continue
            for (template, _), ours in zip(named, graft, strict=True):
                wanted = expected["ids"].get(name, {}).get(template)
                pairs += wanted is not None
                if wanted not in (None, hash_of(ours)):
                    wrong.append(f"{name} with {template}: other ids; --save shows them.")
    print("\n".join(wrong))
    if save:
        with open(EXPECTED, "w", encoding="utf-8") as file:
            json.dump(out, file, ensure_ascii=True, separators=(",", ":"))
            file.write("\n")
        return 1 if wrong else 0
    print(f"{pairs} pairs of a template and a tokenizer, {len(wrong)} with other ids")
    whole = sum(map(len, expected["ids"].values()))
    if not wrong and pairs < whole:
        print(f"The test data is absent ({DATA}): {whole - pairs} pairs were left out.")
        return 77
    return 1 if wrong or pairs == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
