"""Every datapoint in the sources of a release: its tags and fields."""

import re
from collections import defaultdict

from names import Names
from rust import SourceError, split

POINT = re.compile(r"datapoint|DataPoint|_counter")
CALL = re.compile(
    r"datapoint(_(error|warn|info|debug|trace))?|create_(datapoint|counter)|inc_new_counter(_\w+)?"
)
QUIET = ("debug", "trace")
FIELD_TYPES = {"i64", "f64", "bool", "String"}
ADDERS = {
    "add_field_i64": "i64",
    "add_field_f64": "f64",
    "add_field_bool": "bool",
    "add_field_str": "String",
    "add_tag": "tag",
}


class Datapoint:
    def __init__(self):
        self.fields = defaultdict(set)  # types by name; a tag has the type "tag"
        self.sites = set()

    def types(self, key):
        return " | ".join(sorted(self.fields.get(key, ())))


class Release:
    """`datapoints` by name; `unresolved` has what only running shows, by place."""

    def __init__(self, crates):
        """`crates`: the folder of each by its name."""
        self.datapoints, self.unresolved = defaultdict(Datapoint), {}
        self.names, self.count, self.added = Names(crates), 0, set()
        sources = [
            self.names.source(key) for key, text in self.names.files.items() if POINT.search(text)
        ]
        for source in sources:
            self.read(source)
        for source in sources:
            self.note_what_was_left(source)
        for name, place in self.names.doubtful.items():
            if name and name not in self.datapoints:
                self.unresolved[place] = f"perhaps a datapoint: {name}"

    def read(self, source):
        for at, token in enumerate(source.tokens[:-2]):
            is_macro = source.tokens[at + 1] == "!" and source.tokens[at + 2] in ("(", "[", "{")
            if is_macro and CALL.fullmatch(token):
                self.read_macro(source, at, split(source.group(at + 2)))
            is_new = token == "DataPoint" and source.tokens[at + 1 : at + 4] == ["::", "new", "("]
            if is_new and "$" not in source.group(at + 3):
                self.count += 1
                names = self.resolve(source.group(at + 3), source, at)
                self.read_additions(source, at, at + 3, names)

    def read_macro(self, source, at, arguments):
        macro = level = source.tokens[at]
        if macro == "datapoint":
            level, arguments = arguments[0][-1], arguments[1:]
        elif macro == "create_datapoint" and arguments[0][:2] == ["@", "point"]:
            arguments[0] = arguments[0][2:]
        if source.crate == "solana-metrics" and ("$" in arguments[0] or arguments[0][0] == "@"):
            return  # the definitions of the macros
        self.count += 1
        names = self.resolve(arguments[0], source, at)
        if "counter" in macro:
            return self.add(names, ["count"], "i64", source, at)
        quiet = next((f" ({name})" for name in QUIET if level.lower().endswith(name)), "")
        for argument in self.expanded(arguments[1:], source, at):
            if "=>" in argument and argument[0] != "(":
                name = argument[: argument.index("=>")]
                self.add(names, self.resolve(name, source, at, names), "tag", source, at)
                continue
            parts = split(argument[1:-1]) if argument[0] == "(" else []
            kind = "".join(parts[2]) if len(parts) == 3 else ""
            if kind.removeprefix("Option<").rstrip(">") not in FIELD_TYPES:
                raise SourceError(f"{source.where(at)}: {' '.join(argument)!r} is no field")
            self.add(names, self.resolve(parts[0], source, at, names), kind + quiet, source, at)
        self.read_additions(source, at, at + 2, names)

    def expanded(self, arguments, source, at):
        """`eager!{ M!(..) }` stands for what the macro M expands to."""
        for argument in arguments:
            if argument[:2] != ["eager", "!"]:
                yield argument
                continue
            macro, bodies = argument[3], []
            for other in self.names.sources(f"macro_rules! {macro} "):
                for begin in range(len(other.tokens) - 4):
                    if other.tokens[begin : begin + 3] == ["macro_rules", "!", macro]:
                        bodies.append((other, other.until(begin + 4, "=>") + 1))
            if len(bodies) != 1:
                raise SourceError(f"{source.where(at)}: {len(bodies)} macros have the name {macro}")
            yield from split(bodies[0][0].group(bodies[0][1]))

    def read_additions(self, source, at, arguments, names):
        """Fields that methods add, in a chain behind the call or to the variable that has it."""
        function, end = source.function(at), source.pairs[arguments] + 1
        begin, adding = at, []
        while source.tokens[begin - 1] in ("::", "solana_metrics", "datapoint"):
            begin -= 1
        while source.tokens[end : end + 1] == ["."] and source.tokens[end + 1] in ADDERS:
            adding.append(end + 1)
            end = source.pairs[end + 2] + 1
        if source.tokens[begin - 1] == "=" and function:
            variable = source.tokens[begin - 2]
            for use in range(end, function.body[1]):
                if source.tokens[use] == variable and source.tokens[use + 2] in ADDERS:
                    adding.append(use + 2)
        for method in adding:
            self.added.add((source.name, method))
            kind = ADDERS[source.tokens[method]]
            name = split(source.group(method + 1))[0]
            self.add(names, self.resolve(name, source, method, names), kind, source, method)

    def note_what_was_left(self, source):
        """Fields that code adds to a point of other code."""
        for at, token in enumerate(source.tokens[:-1]):
            is_call = token in ADDERS and source.tokens[at - 1] == "."
            if is_call and (source.name, at) not in self.added and source.crate != "solana-metrics":
                self.unresolved[source.where(at)] = "a field of a point that is made elsewhere"

    def add(self, names, keys, kind, source, at):
        for name in names:
            datapoint = self.datapoints[name]
            datapoint.sites.add(source.where(at))
            for key in keys:
                datapoint.fields[key].add(kind)

    def resolve(self, expression, source, at, datapoints=()):
        """The strings that an expression can be; what is not known is noted."""
        found, unknown = self.names.values(expression, source, at, frozenset())
        if found:
            unknown = {reason for reason in unknown if not reason.startswith("nothing calls")}
        if unknown:
            what = f"a field of {', '.join(sorted(datapoints))}" if datapoints else "a datapoint"
            self.unresolved[source.where(at)] = f"{what}: {'; '.join(sorted(unknown))}"
        return found - {""}
