"""What changed between two releases, and which of it faultlined reads."""

import difflib
import pathlib
import re

from rust import pairs_of, split, tokens_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def read_by_daemon():
    """[(datapoint, field, fields that mean the same in other releases)]"""
    return list({entry[:2]: entry for entry in [*fields_of_metrics(), *fields_of_known()]}.values())


def fields_of_metrics():
    """(datapoint, field, fields that feed the same series), as crates/metrics declares them."""
    for path in sorted((ROOT / "crates/metrics/src/metrics").glob("*.rs")):
        tokens = tokens_of(path.read_text(), path.name)
        pairs = pairs_of(tokens, path.name)
        for at, token in enumerate(tokens):
            if token == "of" and tokens[at + 1].kind == "string":
                begin = tokens.index("{", at)
                entries = [read_entry(entry) for entry in split(tokens[begin + 1 : pairs[begin]])]
                names = tokens[at + 1 : begin]
                if "by" in names:
                    entries.append(([names[-1].strip('"')], "by"))
                    names = names[: names.index("by")]
                for name in names[::2]:
                    for keys, labels in entries:
                        same = [other[0] for other, its in entries if its == labels]
                        for key in keys:
                            yield name.strip('"'), key, same if key == keys[0] else [key]


def fields_of_known():
    """The same for the datapoints that have a type in crates/agave."""
    folder = ROOT / "crates/agave/src/points"
    for path in (folder / "kinds.rs", folder / "recorded.rs"):
        tokens = tokens_of(path.read_text(), path.name)
        pairs = pairs_of(tokens, path.name)
        for at, token in enumerate(tokens):
            # "name" => Type { member: type = "key" | "key", member: type, }, or Type in "table"
            if token == "=>" and tokens[at - 1].kind == "string":
                begin = tokens.index("{", at)
                for member in split(tokens[begin + 1 : pairs[begin]]):
                    keys = [key.strip('"') for key in member[4::2] or member[:1]]
                    yield from ((tokens[at - 1].strip('"'), key, keys) for key in keys)


def read_entry(entry):
    """([field, tags that it depends on], what tells it from other series) of one series."""
    strings = [token.strip('"') for token in entry if token.kind == "string"]
    keys = ["(any)"] if entry[0] == "points" else strings[:1]
    keys += [entry[at + 1].strip('"') for at, token in enumerate(entry) if token == "where"]
    labels = next((at for at, token in enumerate(entry) if token in ("where", "as")), len(entry))
    return keys, "".join(entry[labels:])


def lookup(points, name, key):
    """The types of a field, or nothing."""
    if name not in points:
        return ""
    return "(any)" if key == "(any)" else points[name].types(key)


def alike(old, new, likeness, least):
    """Pairs of names, best first, each name once."""
    pairs = sorted((-likeness(a, b), a, b) for a in old for b in new)
    found = {}
    for value, a, b in pairs:
        if -value >= least and a not in found and b not in found.values():
            found[a] = b
    return found


def names_alike(a, b):
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def compare_read(old, new):
    lost, changed, appeared, neither = [], [], [], []
    for name, key, same in read_by_daemon():
        before, after = lookup(old, name, key), lookup(new, name, key)
        if before and not after:
            instead = ", ".join(other for other in same if lookup(new, name, other))
            what = f"faultlined reads {instead} instead" if instead else "NOTHING IS READ INSTEAD"
            lost.append(f"{name} {key}: {what}")
        elif before and before != after:
            changed.append(f"{name} {key}: {before} -> {after}")
        elif after and not before:
            appeared.append(f"{name} {key}: {after}")
        elif not before:
            neither.append(f"{name} {key}")
    return {
        "lost": lost,
        "changed its type": changed,
        "new": appeared,
        "in neither (other releases and builds)": neither,
    }


def fields_changed(old, new):
    """Lines about the fields of a datapoint that both releases have."""
    gone = sorted(old.fields.keys() - new.fields.keys())
    come = sorted(new.fields.keys() - old.fields.keys())
    both = sorted(old.fields.keys() & new.fields.keys())
    renamed = alike(gone, come, names_alike, 0.85)
    lines = [f"  - {key}: {old.types(key)}" for key in gone if key not in renamed]
    lines += [f"  + {key}: {new.types(key)}" for key in come if key not in renamed.values()]
    lines += [f"  > {a}: {old.types(a)} -> {b}: {new.types(b)}" for a, b in renamed.items()]
    types = [(key, old.types(key), new.types(key)) for key in both]
    return lines + [f"  ~ {key}: {a} -> {b}" for key, a, b in types if a != b]


def listed(name, point):
    fields = ", ".join(f"{key}: {point.types(key)}" for key in sorted(point.fields))
    return f"{name} {{ {fields} }} {min(point.sites)}"


def section(title, lines):
    print(f"\n{title}: {len(lines)}" if lines else f"\n{title}: none")
    for line in lines:
        print(f"  {line}")


def report(releases):
    """Prints what changed from the first to the second release."""
    for version, release in releases.items():
        points = release.datapoints
        fields = sum(len(point.fields) for point in points.values())
        print(f"Agave {version}: {len(points)} datapoints, {fields} fields, {release.count} calls")
    old, new = (release.datapoints for release in releases.values())
    for title, lines in compare_read(old, new).items():
        section(f"Read by faultlined, {title}", lines)
    renamed = renamed_datapoints(old, new)
    gone = sorted(old.keys() - new.keys() - renamed.keys())
    come = sorted(new.keys() - old.keys() - set(renamed.values()))
    section("Datapoints, probably renamed", [f"{a} -> {b}" for a, b in renamed.items()])
    section("Datapoints, vanished", [listed(name, old[name]) for name in gone])
    section("Datapoints, appeared", [listed(name, new[name]) for name in come])
    pairs = sorted([*renamed.items(), *((name, name) for name in old.keys() & new.keys())])
    changed = [(b, fields_changed(old[a], new[b])) for a, b in pairs]
    title = "Fields: - vanished, + appeared, > probably renamed, ~ changed the type"
    section(title, ["\n  ".join([name, *lines]) for name, lines in changed if lines])
    for version, release in releases.items():
        print_unresolved(f"{version}: what", release)


def print_unresolved(title, release):
    lines = [f"{place}: {what}" for place, what in sorted(release.unresolved.items())]
    section(f"{title} the sources do not show", lines)


def renamed_datapoints(old, new):
    """By name and fields. Where the same code reports several, fields do not tell them apart."""
    sites = [[point.sites for point in points.values()] for points in (old, new)]
    gone = [name for name in old.keys() - new.keys() if sites[0].count(old[name].sites) == 1]
    come = [name for name in new.keys() - old.keys() if sites[1].count(new[name].sites) == 1]

    def likeness(a, b):
        fields = old[a].fields.keys(), new[b].fields.keys()
        shared = len(fields[0] & fields[1]) / max(len(fields[0] | fields[1]), 1)
        return names_alike(a, b) if shared > 0.3 else 0

    return alike(gone, come, likeness, 0.7)
