"""Finds the places of a C++ or GLSL file that can be mutated; tools/dev/mutate.py runs the tests against them.

A mutant is a span of text and what replaces it. The code is formatted by clang-format, which tells a binary operator
(spaces around it) from a pointer, a reference or the bracket of a template. What does not compile is dropped later.
"""
import re
from dataclasses import dataclass

TOKEN = re.compile(r'''(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)|(?P<text>R"\((?:.*?)\)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
|(?P<number>\d(?:[\w.']|(?<=e)[+-])*)|(?P<name>[A-Za-z_]\w*(?:::[A-Za-z_~]\w*)*)|(?P<op><<=|>>=|<=>|->|::|\+\+|--|<<|[-+*/%&|^=!<>]=|&&|\|\||[^\s\w])''',
                   re.S | re.M | re.X)
LEVEL = {"*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7, ">": 7, ">=": 7, "==": 6, "!=": 6,
         "&": 5, "^": 4, "|": 3, "&&": 2, "||": 1}
FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "+": "-", "-": "+",
           "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=",
           "|=": "&=", "&=": "|="}
EXTREMES = {"min": "max", "max": "min", "std::min": "std::max", "std::max": "std::min"}
ENDS = {"return", "case", "else", "throw", "=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", ",", ";", "?", ":"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
# Arguments of these are words for people; what they say is tested elsewhere, by eye.
MESSAGES = {"corrupt", "unsupported", "invalid", "error", "internal_error", "cat", "with_context", "GRAFT_DCHECK", "GRAFT_CHECK",
            "static_assert", "note", "log_info", "log_warning", "reserve", "shrink_to_fit"}
# Statements that only save time or memory.
NO_EFFECT = {"reserve", "shrink_to_fit", "GRAFT_DCHECK", "GRAFT_CHECK", "static_assert"}
# Swapping these arguments changes nothing.
SYMMETRIC = {"min", "max", "std::min", "std::max", "add", "mul", "max_nan", "min_nan", "dot", "std::swap", "fma"}
DECLARES = re.compile(r"\b(?:layout|struct|constexpr|enum|using|template|static_assert|shared|uniform|case|operator|concept|typedef)\b")


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    spaced: bool = False  # a binary operator


@dataclass
class Mutant:
    start: int
    end: int
    before: str
    after: str
    what: str
    statement: bool = False  # both texts are whole statements


def tokens_of(source):
    found = []
    for match in TOKEN.finditer(source):
        if match.lastgroup == "skip":
            continue
        token = Token(match.lastgroup, match.group(), match.start(), match.end())
        around = source[token.start - 1:token.start] + source[token.end:token.end + 1]
        token.spaced = token.text in LEVEL and len(around) == 2 and around.isspace() and found and found[-1].text != "template"
        found.append(token)
    return found


class File:
    def __init__(self, source, glsl):
        self.source, self.glsl, self.tokens = source, glsl, tokens_of(source)
        self.pairs = self._pairs()

    def _pairs(self):
        """Index of the closing bracket of each opening one, and back."""
        pairs, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.kind != "op":
                continue
            if token.text in OPEN or (token.text == "<" and not token.spaced and not self.glsl):
                stack.append(i)
            elif token.text in CLOSE:
                while stack and self.tokens[stack[-1]].text == "<":
                    stack.pop()
                if stack:
                    pairs[i] = stack.pop()
                    pairs[pairs[i]] = i
            elif token.text == ">" and not token.spaced and stack and self.tokens[stack[-1]].text == "<":
                pairs[i] = stack.pop()
                pairs[pairs[i]] = i
        return pairs

    def text(self, first, last):
        return self.source[self.tokens[first].start:self.tokens[last].end]

    def operand(self, i, step, level):
        """Index of the outermost token of the operand next to the operator at `i`."""
        j = i + step
        while 0 <= j < len(self.tokens):
            token = self.tokens[j]
            if token.kind == "op" and j in self.pairs and (self.pairs[j] > j) == (step > 0):
                if step < 0 and token.text == "}" and self.source[token.end:token.end + 1] == "\n":
                    break  # the block before
                j = self.pairs[j] + step
                continue
            if token.text in ENDS or token.text in CLOSE or token.text in OPEN:
                break
            if token.spaced and (LEVEL[token.text] <= level if step > 0 else LEVEL[token.text] < level):
                break
            j += step
        return j - step

    def statement_starts(self):
        for i, token in enumerate(self.tokens):
            if token.text not in (";", "{", "}"):
                continue
            j = i + 1
            while j < len(self.tokens) and self.tokens[j].text in ("if", "for", "while", "else"):
                j += 2 if self.tokens[j].text == "if" and self.tokens[j + 1].text == "constexpr" else 1
                if self.tokens[j].text == "(":
                    j = self.pairs.get(j, j) + 1
            if j < len(self.tokens):
                yield j

    def statement_end(self, j):
        while j < len(self.tokens) and self.tokens[j].text not in (";", "}", ")", "]"):
            j = self.pairs.get(j, j) + 1 if self.tokens[j].text in OPEN else j + 1
        return j if j < len(self.tokens) and self.tokens[j].text == ";" else None

    def mutants(self, random):
        left_alone = self._left_alone()
        for mutant in [*self._statements(), *self._expressions(random)]:
            line = self.source[self.source.rfind("\n", 0, mutant.start) + 1:mutant.start]
            if not any(a <= mutant.start < b for a, b in left_alone) and not DECLARES.search(line):
                if not (self.glsl and re.match(r"\s*const\b", line)) and not line.startswith("const "):
                    yield mutant

    def _left_alone(self):
        """Spans of messages, checks and declarations of classes."""
        for i, token in enumerate(self.tokens[:-1]):
            if token.kind == "name" and token.text.split("::")[-1] in MESSAGES and self.tokens[i + 1].text == "(":
                yield self.tokens[i + 1].start, self.tokens[self.pairs.get(i + 1, i + 1)].end

    def _statements(self):
        for j in self.statement_starts():
            end = self.statement_end(j)
            if end is None or end == j:
                continue
            body, first = self.text(j, end), self.tokens[j]
            if first.text == "return" and end > j + 1 and not self.glsl:
                value = self.text(j + 1, end - 1)
                other = {"true": "false", "false": "true"}.get(value, "{}")
                if value not in ("{}", "nullptr", "std::nullopt", "ok_status()") and not re.fullmatch(r"std::\w+<[^()]*>\(\)", value):
                    yield Mutant(first.start, self.tokens[end].end, body, f"return {other};", "return", True)
                continue
            if first.kind != "name" or first.text in ("return", "break", "continue", "const", "auto", "using", "delete", "do"):
                continue
            k = j + 1  # a chain of names, members, subscripts and calls
            while k < end and (self.tokens[k].text in (".", "->", "[", "(") or self.tokens[k - 1].text in (".", "->")):
                k = self.pairs[k] + 1 if self.tokens[k].text in OPEN and k in self.pairs else k + 1
            called = self.tokens[k - 1].text == ")" and k == end
            if called and self.tokens[self.pairs.get(k - 1, k) - 1].text.split("::")[-1] in NO_EFFECT:
                continue
            if called or self.tokens[k].text in ("=", "++", "--") or re.fullmatch(r"[-+*/|&]=", self.tokens[k].text):
                if first.text != "GRAFT_TRY_ASSIGN":
                    yield Mutant(first.start, self.tokens[end].end, body, ";", "removed", True)
            if k < end and re.fullmatch(r"[-+*/|&]=", self.tokens[k].text):
                other = self.text(j, k - 1) + f" {FLIPPED[self.tokens[k].text]} " + self.text(k + 1, end)
                yield Mutant(first.start, self.tokens[end].end, body, other, "assignment", True)

    def _expressions(self, random):
        for i, token in enumerate(self.tokens[:-1]):
            before, after = self.tokens[i - 1] if i else token, self.tokens[i + 1]
            if token.spaced and token.text in FLIPPED:
                a, b = self.operand(i, -1, LEVEL[token.text]), self.operand(i, 1, LEVEL[token.text])
                left, right = self.text(a, i - 1), self.text(i + 1, b)
                if a < i < b and '"' not in left + right:
                    yield Mutant(self.tokens[a].start, self.tokens[b].end, self.text(a, b),
                                 f"({left} {FLIPPED[token.text]} {right})", token.text)
            elif token.text == "!" and before.text in ("(", "&&", "||", "return", "=", ",", "?", ":", "{"):
                b = self.operand(i, 1, 11)
                yield Mutant(token.start, self.tokens[b].end, self.text(i, b), self.text(i + 1, b), "!")
            elif token.kind == "number" and re.fullmatch(r"\d{1,3}u?", token.text):
                value = int(token.text.rstrip("u"))
                other = value - 1 if value > 1 and random.random() < 0.5 else value + 1
                yield Mutant(token.start, token.end, token.text, f"{other}{'u' * token.text.endswith('u')}", "constant")
            elif token.text in EXTREMES and after.text in ("(", "<"):
                close = i + 1 if after.text == "(" else self.pairs.get(i + 1, 0) + 1
                if self.tokens[close].text == "(" and close in self.pairs:
                    end = self.pairs[close]
                    yield Mutant(token.start, self.tokens[end].end, self.text(i, end),
                                 EXTREMES[token.text] + self.text(i + 1, end), token.text)
            elif token.kind == "name" and after.text == "(" and token.text not in SYMMETRIC and i + 1 in self.pairs:
                yield from self._swaps(i + 1, token.text)

    def _swaps(self, opening, name):
        args, first = [], opening + 1
        for j in range(opening + 1, self.pairs[opening] + 1):
            if self.tokens[j].text in (",",) or j == self.pairs[opening]:
                args.append((first, j - 1))
                first = j + 1
        for (a, b), (c, d) in zip(args, args[1:]):
            left, right = self.text(a, b), self.text(c, d)
            if left != right and all(re.fullmatch(r"[A-Za-z_][\w.]*", x) for x in (left, right)) and name not in ("if", "for"):
                yield Mutant(self.tokens[a].start, self.tokens[d].end, f"{left}, {right}", f"{right}, {left}", "swap")
