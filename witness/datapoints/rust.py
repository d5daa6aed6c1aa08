"""Tokens and items of Rust source, without comments and without what only tests compile."""

import functools
import re

TOKEN = re.compile(
    r"""(?P<space>(?:\s+|//[^\n]*)+)
    |(?P<raw>[bc]?r(\#*)".*?"\3)
    |(?P<string>[bc]?"(?:\\.|[^"\\])*")
    |(?P<char>b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^'\\\n])')
    |(?P<lifetime>'[A-Za-z_]\w*)
    |(?P<word>(?:r\#)?[A-Za-z_]\w*)
    |(?P<number>\d\w*(?:\.\d\w*)?)
    |(?P<sign>=>|::|->|[^\w\s])""",
    re.X | re.S,
)
COMMENT = re.compile(r"/\*|\*/")
CLOSING = {"(": ")", "[": "]", "{": "}"}
ITEMS = {"fn", "mod", "impl", "struct", "enum", "trait", "macro_rules"}
STATEMENTS = {"use", "const", "static", "type", "let"}  # these end with a semicolon
BEFORE_ITEMS = {"pub", "async", "unsafe", "extern"}
ONLY_TESTS = r'(test|feature="dev-context-only-utils")'
TEST = re.compile(
    rf"test|\w+(::\w+)*::test(\(.*\))?|cfg\(({ONLY_TESTS}|any\({ONLY_TESTS},{ONLY_TESTS},?\)|all\({ONLY_TESTS},.*\))\)"
)


class SourceError(Exception):
    """Source that this reader does not understand."""


class Token(str):
    """The text of a token, with `kind` and `line`."""

    def __new__(cls, text, kind, line):
        token = super().__new__(cls, text)
        token.kind, token.line = kind, line
        return token


def tokens_of(text, name):
    found, at, line = [], 0, 1
    while at < len(text):
        if text.startswith("/*", at):
            begin, depth = at, 0
            while depth or at == begin:
                mark = COMMENT.search(text, at)
                if not mark:
                    raise SourceError(f"{name}:{line}: a comment does not end")
                depth += 1 if mark[0] == "/*" else -1
                at = mark.end()
            line += text.count("\n", begin, at)
            continue
        match = TOKEN.match(text, at)
        at, kind = match.end(), match.lastgroup
        if kind != "space":
            found.append(Token(match[0], kind, line))
        if kind in ("space", "string", "raw"):
            line += match[0].count("\n")
    return found


def pairs_of(tokens, name):
    """The index of the other bracket by the index of each."""
    pairs, opened = {}, []
    for at, token in enumerate(tokens):
        if token.kind != "sign":
            continue
        if token in CLOSING:
            opened.append(at)
        elif token in CLOSING.values():
            if not opened or CLOSING[tokens[opened[-1]]] != token:
                raise SourceError(f"{name}:{token.line}: {token} closes nothing")
            begin = opened.pop()
            pairs[begin], pairs[at] = at, begin
    if opened:
        raise SourceError(f"{name}:{tokens[opened[-1]].line}: {tokens[opened[-1]]} is not closed")
    return pairs


def item_end(tokens, pairs, at):
    """(index behind the item that begins here, its name if it is a module of another file)."""
    while tokens[at] in BEFORE_ITEMS or (tokens[at] == "const" and tokens[at + 1] in ITEMS):
        at += 1
        if tokens[at] == "(":
            at = pairs[at] + 1
    keyword, name = tokens[at], tokens[at + 1]
    if keyword not in ITEMS and keyword not in STATEMENTS:
        return None, None
    while at < len(tokens):
        if tokens[at] == ";":
            return at + 1, name if keyword == "mod" else None
        if at in pairs:
            closed = tokens[at] == "{" and keyword not in STATEMENTS
            at = pairs[at]
            if closed:
                return at + 1, None
        at += 1
    return at, None


def without_tests(tokens, name):
    """(the tokens that tests alone do not need, names of modules that are tests)."""
    pairs, left, modules, at = pairs_of(tokens, name), [], [], 0
    while at < len(tokens):
        if tokens[at] == "#" and tokens[at + 1 : at + 3] == ["!", "["]:
            if TEST.fullmatch("".join(tokens[at + 3 : pairs[at + 2]])):
                return [], []
        elif tokens[at] == "#" and tokens[at + 1] == "[":
            is_test, begin = False, at
            while tokens[at] == "#" and tokens[at + 1] == "[":
                is_test |= bool(TEST.fullmatch("".join(tokens[at + 2 : pairs[at + 1]])))
                at = pairs[at + 1] + 1
            end, module = item_end(tokens, pairs, at) if is_test else (None, None)
            if module:
                modules.append(module)
            if end is None:
                left += tokens[begin:at]
            else:
                at = end
            continue
        left.append(tokens[at])
        at += 1
    return left, modules


def split(tokens, angles=False):
    """Parts between commas outside of brackets; `angles`: of types, where < is a bracket."""
    parts, depth, angle = [[]], 0, 0
    for at, token in enumerate(tokens):
        if token.kind == "sign":
            depth += (token in CLOSING) - (token in CLOSING.values())
            if token == "<" and (angles or angle or (at and tokens[at - 1] == "::")):
                angle += 1
            elif token == ">" and angle:
                angle -= 1
            elif token == "," and not depth and not angle:
                parts.append([])
                continue
        parts[-1].append(token)
    return [part for part in parts if part]


class Function:
    def __init__(self, name, owner, public, parameters, begin, body):
        self.begin = begin
        self.name, self.owner, self.public, self.body = name, owner, public, body
        self.has_self = bool(parameters) and "self" in parameters[0]
        self.parameters = {}
        for index, parameter in enumerate(parameters[self.has_self :]):
            words = parameter[1:] if parameter[0] == "mut" else parameter
            self.parameters[str(words[0])] = (index, words[2:])

    def text(self, source):
        """From the head's type parameters on."""
        return " ".join(source.tokens[self.begin : self.body[1]])


class Source:
    """A file of a crate."""

    def __init__(self, crate, path, text):
        self.crate, self.path, self.text = crate, path, text
        self.name = f"{crate}/{path}"
        self.tokens, self.test_modules = without_tests(tokens_of(text, self.name), self.name)
        self.pairs = pairs_of(self.tokens, self.name)

    @functools.cached_property
    def owners(self):
        return list(self.find_owners())

    @functools.cached_property
    def functions(self):
        return list(self.find_functions())

    def where(self, at):
        return f"{self.name}:{self.tokens[at].line}"

    def group(self, at):
        """What is between the brackets that begin here."""
        return self.tokens[at + 1 : self.pairs[at]]

    def until(self, at, sign):
        """The index of the next `sign` that is in no brackets."""
        while at < len(self.tokens) and self.tokens[at] != sign:
            at = self.pairs[at] + 1 if self.tokens[at] in CLOSING and at in self.pairs else at + 1
        return at

    def find_owners(self):
        for at, token in enumerate(self.tokens):
            if token == "impl" and (
                at == 0 or self.tokens[at - 1] in ("}", ";", "]", "{", "unsafe")
            ):
                end = self.until(at, "{")
                depth, word = 0, None
                for head in self.tokens[at + 1 : end]:
                    depth += (head == "<") - (head == ">")
                    if head == "where" and not depth:
                        break
                    if head.kind == "word" and not depth and head != "for":
                        word = str(head)
                if end < len(self.tokens):
                    yield word, end, self.pairs[end]

    def owner(self, at):
        return next((name for name, begin, end in self.owners if begin < at < end), None)

    def find_functions(self):
        for at, token in enumerate(self.tokens[:-2]):
            if token != "fn" or self.tokens[at + 1].kind != "word":
                continue
            begin, depth = at + 2, 0
            while depth or self.tokens[begin] != "(":
                depth += (self.tokens[begin] == "<") - (self.tokens[begin] == ">")
                begin += 1
            body = self.pairs[begin]
            while self.tokens[body] not in ("{", ";"):
                body = self.pairs[body] + 1 if self.tokens[body] == "[" else body + 1
            public = False
            for before in range(at - 1, max(at - 5, -1), -1):
                public |= self.tokens[before] == "pub" and self.tokens[before + 1] != "("
                if self.tokens[before] in (";", "{", "}"):
                    break
            parameters = split(self.group(begin), angles=True)
            if self.tokens[body] == "{":
                yield Function(
                    str(self.tokens[at + 1]),
                    self.owner(at),
                    public,
                    parameters,
                    at,
                    (body, self.pairs[body]),
                )

    def function(self, at):
        """The innermost one around this token."""
        around = [f for f in self.functions if f.body[0] < at < f.body[1]]
        return max(around, key=lambda f: f.body[0], default=None)
