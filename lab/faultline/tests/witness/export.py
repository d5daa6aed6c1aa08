"""Reads what `faultline export` wrote with pandas, polars and DuckDB, and compares it with what SQLite says.

    export.py RECORDING FOLDER parquet|csv

Prints the number of comparisons; ends with 1 and the differences if there are any.
"""

import datetime
import math
import pathlib
import sqlite3
import sys

import duckdb
import pandas
import polars

RECORDING, FOLDER, FORMAT = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
SAMPLES = ["process_sample", "cgroup_sample", "host_sample", "validator_sample", "daemon_sample"]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)

compared = 0
differences = []


def compare(what, found, expected):
    global compared
    compared += 1
    if found != expected:
        differences.append(f"{what}: {str(found)[:300]}, SQLite says {str(expected)[:300]}")


def tables(db):
    """Name, columns with SQLite's types, and rows, of every table and of the wide one."""
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        columns = [(column[1], column[2]) for column in db.execute(f"PRAGMA table_info({name})")]
        key = columns[0][0] if name in ("meta", "label") else "rowid"
        yield name, columns, db.execute(f"SELECT * FROM {name} ORDER BY {key}").fetchall()
    columns = [(column[1], column[2]) for column in db.execute("PRAGMA table_info(tick)")]
    terms = [f"tick.{name}" for name, _ in columns]
    for table in SAMPLES:
        for column in db.execute(f"PRAGMA table_info({table})"):
            if column[1] != "tick":
                columns.append((f"{table.removesuffix('_sample')}_{column[1]}", column[2]))
                terms.append(f"{table}.{column[1]}")
    joins = " ".join(f"LEFT JOIN {table} ON {table}.tick = tick.id" for table in SAMPLES)
    rows = db.execute(f"SELECT {', '.join(terms)} FROM tick {joins} ORDER BY tick.id").fetchall()
    labels = dict(db.execute("SELECT * FROM label ORDER BY 1"))
    named = [(name, labels.pop(name, None)) for name in ("arm", "run")]
    named += [(f"label_{name}", value) for name, value in labels.items()]
    columns += [(name, "TEXT") for name, _ in named]
    yield "wide", columns, [(*row, *(value for _, value in named)) for row in rows]


def expected(columns, rows):
    """The columns of the export: name -> (type, values). A time follows each moment."""
    out = {}
    for i, (name, kind) in enumerate(columns):
        # SQLite keeps a fraction in a column of whole numbers.
        if kind == "INTEGER" and any(isinstance(row[i], float) for row in rows):
            kind = "REAL"
        out[name] = (kind, [row[i] for row in rows])
        if kind == "INTEGER" and name.endswith("unix_ns"):
            out[name.removesuffix("unix_ns") + "time"] = ("TIME", [row[i] for row in rows])
    return out


def plain(value):
    """A cell of any library: NULL is None, a time is nanoseconds since 1970."""
    if value is None or value is pandas.NaT or value is pandas.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, pandas.Timestamp):
        return value.as_unit("ns").value
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // datetime.timedelta(microseconds=1) * 1000
    return value


def by_pandas(path):
    if FORMAT == "parquet":
        frame = pandas.read_parquet(path, dtype_backend="pyarrow")
    else:
        frame = pandas.read_csv(path, dtype_backend="pyarrow")
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    return {name: (types[name], [plain(value) for value in frame[name].tolist()]) for name in frame.columns}


def by_polars(path):
    if FORMAT == "parquet":
        frame = polars.read_parquet(path)
    else:
        frame = polars.read_csv(path, infer_schema_length=None)
    out = {}
    for name in frame.columns:
        column, kind = frame[name], str(frame[name].dtype)
        if kind.startswith("Datetime"):
            column = column.dt.epoch("ns")
        out[name] = (kind, column.to_list())
    return out


def by_duckdb(path):
    read = f"read_parquet('{path}')" if FORMAT == "parquet" else f"read_csv('{path}', header = true, delim = ',', quote = '\"', escape = '\"', sample_size = -1)"
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    out = {}
    for name, kind, *_ in db.execute(f"DESCRIBE SELECT * FROM {read}").fetchall():
        shown = f'epoch_ns("{name}")' if kind.startswith("TIMESTAMP") else f'"{name}"'
        out[name] = (kind, [plain(value) for (value,) in db.execute(f"SELECT {shown} FROM {read}").fetchall()])
    return out


# What each library calls the types. A column of CSV without any value has no type to find.
TYPES = {
    "pandas": {"INTEGER": "int64[pyarrow]", "REAL": "double[pyarrow]", "TEXT": "string", "TIME": "timestamp[ns, tz=UTC][pyarrow]"},
    "polars": {"INTEGER": "Int64", "REAL": "Float64", "TEXT": "String", "TIME": "Datetime(time_unit='ns', time_zone='UTC')"},
    "duckdb": {"INTEGER": "BIGINT", "REAL": "DOUBLE", "TEXT": "VARCHAR", "TIME": "TIMESTAMP"},
}


def moment(value):
    """A time of a CSV file that a library has left as a text, or cut to its own precision, in microseconds."""
    if isinstance(value, str):
        whole, fraction = value.removesuffix("Z").split(".")
        seconds = (datetime.datetime.fromisoformat(whole + "+00:00") - EPOCH) // datetime.timedelta(seconds=1)
        value = seconds * 1_000_000_000 + int(fraction)
    return None if value is None else value // 1000


def check(table, library, found, wanted):
    compare(f"{table}, {library}: columns", list(found), list(wanted))
    for name, (kind, values) in wanted.items():
        got_kind, got = found.get(name, ("missing", []))
        where = f"{table}.{name}, {library}"
        empty = all(value is None or value == "" for value in values)
        if FORMAT == "parquet" or not (empty or kind in ("TIME", "TEXT")):
            compare(f"{where}: type", got_kind.startswith(TYPES[library][kind]) or got_kind, True)
        if kind == "TIME" and (FORMAT == "csv" or library == "duckdb"):
            got, values = [moment(value) for value in got], [moment(value) for value in values]
        if kind == "TEXT" and FORMAT == "csv":
            # A text of digits is read as a number, and few readers tell an empty text from none.
            got, values = [str(value or "") for value in got], [value or "" for value in values]
            if any(value.isdecimal() for value in values):
                continue
        compare(f"{where}: NULLs", sum(value is None for value in got), sum(value is None for value in values))
        if kind in ("INTEGER", "REAL"):
            total = lambda all: math.fsum(v for v in all if v is not None) if kind == "REAL" else sum(v for v in all if v is not None)
            compare(f"{where}: sum", total(got), total(values))
        compare(f"{where}: values", got, values)


with sqlite3.connect(f"file:{RECORDING}?mode=ro", uri=True) as db:
    for table, columns, rows in tables(db):
        wanted = expected(columns, rows)
        path = FOLDER / f"{table}.{FORMAT}"
        for library, read in [("pandas", by_pandas), ("polars", by_polars), ("duckdb", by_duckdb)]:
            try:
                found = read(path)
            except Exception as error:  # whatever a library throws is a difference
                differences.append(f"{table}, {library}: cannot be read: {type(error).__name__}: {error}")
                continue
            if rows:
                check(table, library, found, wanted)
            else:
                compare(f"{table}, {library}: rows", sum(len(values) for _, values in found.values()), 0)

print(f"{compared} comparisons, {len(differences)} differences")
print("\n".join(differences[:40]))
sys.exit(1 if differences or not compared else 0)
