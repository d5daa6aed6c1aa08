"""What strings an expression can be: names stand in variables, arguments and structs, too."""

import functools
import re

from rust import Source, split

WRAPPERS = {"Arc", "Box", "Cow", "Some"}
NOT_BEFORE_VALUES = {"struct", "impl", "for", "let", "->"}
ENDINGS = {"clone", "as_str", "to_string", "into", "unwrap"}


class Names:
    def __init__(self, crates):
        """`crates`: the folder of each by its name."""
        self.files, self.parsed = {}, {}
        self.doubtful = {}  # where a string is given to a method with the name of one that reports
        for crate, folder in crates.items():
            for path in sorted((folder / "src").rglob("*.rs")):
                self.files[crate, str(path.relative_to(folder))] = path.read_text()
        self.leave_out_test_modules()

    def source(self, key):
        if key not in self.parsed:
            self.parsed[key] = Source(*key, self.files[key])
        return self.parsed[key]

    def sources(self, word, crate=None):
        """Files of one crate, or of all, in which the word occurs."""
        for key, text in self.files.items():
            if crate in (None, key[0]) and word in text:
                yield self.source(key)

    @functools.cache
    def has(self, item, crate=None):
        """How many items there are, such as `struct Name`."""
        texts = (
            text for key, text in self.files.items() if crate in (None, key[0]) and item in text
        )
        return sum(len(re.findall(rf"\b{item}\b", text)) for text in texts)

    def leave_out_test_modules(self):
        pattern = re.compile(
            r"#\[cfg\([^\]]*test[^\]]*\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(\w+\))? )?mod \w+;"
        )
        for key in [key for key, text in self.files.items() if pattern.search(text)]:
            crate, path = key
            folder = re.sub(r"(/?(lib|main|mod)|)\.rs$", "", path)
            for module in self.source(key).test_modules:
                of_module = re.compile(rf"{folder}/{module}(\.rs|/.*)")
                for other in list(self.files):
                    if other[0] == crate and of_module.fullmatch(other[1]):
                        del self.files[other]

    def values(self, expression, source, at, seen):
        """(strings, reasons why there may be others)"""
        tokens = list(expression)
        while tokens and tokens[0] in ("&", "*"):
            tokens = tokens[1:]
        while tokens[-2:] == ["(", ")"] and tokens[-3] in ENDINGS:
            tokens = tokens[:-4]
        if tokens[-1:] == [")"] and tokens[0] == "(" or tokens[0] in WRAPPERS and "(" in tokens:
            return self.values(tokens[tokens.index("(") + 1 : -1], source, at, seen)
        if len(tokens) == 1 and tokens[0].kind in ("string", "raw"):
            return {re.sub(r'^[bcr#]*"|"#*$', "", tokens[0])}, set()
        if tokens[0] in ("if", "match"):
            return self.joined((branch, source, at) for branch in branches(tokens))
        is_path = set(tokens[1::2]) <= {".", "::"}
        if is_path and all(token.kind in ("word", "number") for token in tokens[::2]):
            return self.named(tokens, source, at, seen)
        return set(), {f"{' '.join(expression)} is computed ({source.where(at)})"}

    def joined(self, expressions, seen=frozenset()):
        found, unknown = set(), set()
        for expression, source, at in expressions:
            values = self.values(expression, source, at, seen)
            found |= values[0]
            unknown |= values[1]
        return found, unknown

    def named(self, path, source, at, seen):
        key, function = str(path[-1]), source.function(at)
        mark = (source.name, function and function.body, "".join(path))
        if mark in seen:
            return set(), set()
        seen |= {mark}
        if len(path) == 1 and key.islower() and function:
            pattern, value = assigned(source, function, at, key)
            if value == ["self"]:
                return self.members(function.owner, key, source, seen)
            if value and pattern[0] == "(":
                index = split(pattern[1:-1]).index([key])
                tuples = branches(value) if value[0] in ("if", "match") else [value]
                return self.joined(((split(one[1:-1])[index], source, at) for one in tuples), seen)
            if value:
                return self.values(value, source, at, seen)
            if key in function.parameters:
                return self.arguments(source, function, key, seen)
        elif key.isupper():
            return self.constants(source, key, seen)
        elif len(path) == 3 and path[1] == "." and function:
            declared = function.parameters.get(str(path[0]), (0, []))[1]
            owners = [str(name) for name in declared if name[0].isupper()]
            if path[0] == "self":
                owners = [function.owner]
            if owners:
                return self.members(owners[-1], key, source, seen)
        return set(), {f"{''.join(path)} is computed ({source.where(at)})"}

    def constants(self, source, key, seen):
        found = []
        for other in [source, *self.sources(f"const {key}:", source.crate)]:
            for at in range(len(other.tokens) - 3):
                if other.tokens[at : at + 3] == ["const", key, ":"]:
                    begin = other.until(at, "=") + 1
                    found.append((other.tokens[begin : other.until(begin, ";")], other, begin))
            if found:
                return self.joined(found, seen)
        return set(), {f"{key} is not a constant of {source.crate}"}

    def members(self, owner, key, source, seen):
        """What a field of a struct is set to, where values of the struct are made."""
        found = []
        public = self.has(f"pub struct {owner}", source.crate)
        for other in self.sources(owner, None if public else source.crate):
            for at, token in enumerate(other.tokens[:-1]):
                bracket, before = other.tokens[at + 1], other.tokens[at - 1]
                is_type = token == owner or (token == "Self" and other.owner(at) == owner)
                if not is_type or bracket not in ("(", "{") or before in NOT_BEFORE_VALUES:
                    continue
                for index, part in enumerate(split(other.group(at + 1))):
                    if (bracket == "(" and key == str(index)) or part == [key]:
                        found.append((part, other, at))
                    elif bracket == "{" and part[:2] == [key, ":"]:
                        found.append((part[2:], other, at))
        if not found:
            return set(), {f"{owner}.{key} is set nowhere ({source.name})"}
        return self.joined(found, seen)

    def arguments(self, source, function, key, seen):
        """What callers of a function give for a parameter."""
        index, found = function.parameters[key][0], []
        for other in self.sources(f"{function.name}(", None if function.public else source.crate):
            for at, token in enumerate(other.tokens[:-1]):
                is_call = token == function.name and other.tokens[at + 1] == "("
                if not is_call or other.tokens[at - 1] == "fn":
                    continue
                given = split(other.group(at + 1))
                given = given[1:] if function.has_self and other.tokens[at - 1] == "::" else given
                if len(given) != len(function.parameters):
                    continue
                if self.calls(function, source, other, at):
                    found.append((given[index], other, at))
                elif other.tokens[at - 1] == "." and given[index][0].kind == "string":
                    self.doubtful[given[index][0].strip('"')] = other.where(at)
        if not found:
            return set(), {f"nothing calls {function.name} ({source.name})"}
        return self.joined(found, seen)

    def calls(self, function, source, other, at):
        """Whether the call is of this function, as far as the name and the type before it show."""
        before, owner = other.tokens[at - 1], function.owner
        aliases = re.findall(rf"\b{owner} as (\w+)", other.text)
        names = aliases if aliases and other.crate != source.crate else [owner, *aliases]
        if other.crate != source.crate and not aliases and self.has(f"struct {owner}", other.crate):
            return False  # another type of this name
        if not owner:
            is_near = other.crate == source.crate or source.crate.replace("-", "_") in other.text
            return before != "." and is_near
        if before == "::":
            named = at - 2
            while other.tokens[named] == ">":
                while other.tokens[named] != "<":
                    named -= 1
                named -= 2 if other.tokens[named - 1] == "::" else 1
            is_self = other.tokens[named] == "Self" and other.crate == source.crate
            return other.tokens[named] in names or (is_self and other.owner(at) == owner)
        if before != "." or not function.has_self:
            return False
        receiver, around = other.tokens[at - 2], other.function(at)
        if receiver == "self":
            return other.owner(at) == owner
        types = types_of(receiver, around.text(other)) if around else []
        types = types or types_of(receiver, other.text)
        if owner in types or self.has(f"fn {function.name}") == 1:
            return True
        return not types and owner in other.text


def branches(tokens):
    """The expressions that an `if` or a `match` can end with."""
    depth, bodies, arms = 0, [[]], tokens[0] == "match"
    for token in tokens:
        depth -= token == "}"
        if depth:
            bodies[-1].append(token)
        elif bodies[-1]:
            bodies.append([])
        depth += token == "{"
    for body in filter(None, bodies):
        if not arms:
            yield last_statement(body)
            continue
        for arm in split(body):
            arrow = arm.index("=>") + 1
            yield last_statement(arm[arrow + 1 : -1]) if arm[arrow] == "{" else arm[arrow:]


def last_statement(tokens):
    ends = [at for at, token in enumerate(tokens) if token == ";"]
    return tokens[ends[-1] + 1 :] if ends else tokens


def assigned(source, function, at, key):
    """(pattern, value) of the last `let` before `at` that makes the local variable."""
    for begin in range(at, function.body[0], -1):
        if source.tokens[begin] != "let":
            continue
        equals = source.until(begin, "=")
        pattern = [token for token in source.tokens[begin + 1 : equals] if token != "mut"]
        value = source.tokens[equals + 1 : source.until(equals, ";")]
        if pattern[:1] == [key] and pattern[1:2] in ([], [":"]):
            return pattern, value
        opening = pattern.index("{") if value == ["self"] and "{" in pattern else 0
        if pattern[opening : opening + 1] in (["{"], ["("]) and [key] in split(
            pattern[opening + 1 : -1]
        ):
            return pattern, value
    return None, None


def types_of(variable, text):
    declared = re.findall(rf"\b{re.escape(variable)}\b\s*(?::|=)\s*([^;,{{}}]+)", text)
    return [name for text in declared for name in re.findall(r"\b[A-Z]\w*", text)]
