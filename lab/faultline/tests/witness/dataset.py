"""Reads what `faultline export --into dataset` wrote with DuckDB and polars, and compares it with what SQLite says.

    dataset.py RECORDING.md

The recordings are */run.fltl. Runs the queries of the document as they stand. Prints their answers; ends with 1 and the differences if
there are any.
"""

import glob
import math
import re
import sqlite3
import sys

import duckdb
import polars

differences = []


def compare(what, found, expected):
    same = math.isclose(found, expected, rel_tol=1e-9) if isinstance(expected, float) else found == expected
    if not same:
        differences.append(f"{what}: {found}, SQLite says {expected}")


recordings = [sqlite3.connect(f"file:{path}?mode=ro", uri=True) for path in glob.glob("*/run.fltl")]
arm_of = [dict(db.execute("SELECT * FROM label"))["arm"] for db in recordings]


def by_arm(sql, merge):
    """What a query of one number says of each recording, merged for each arm."""
    values = [(arm, db.execute(sql).fetchone()[0]) for arm, db in zip(arm_of, recordings)]
    return {arm: merge([value for of, value in values if of == arm]) for arm in sorted(set(arm_of))}


def mean(values):
    return math.fsum(values) / len(values)


tables = sorted(path.removeprefix("dataset/") for path in glob.glob("dataset/*"))
duck = duckdb.connect()
for table in tables:
    pattern = f"dataset/{table}/**/*.parquet"
    of = "tick" if table == "wide" else table
    expected = sum(db.execute(f"SELECT count(*) FROM {of}").fetchone()[0] for db in recordings)
    runs = f"SELECT count(*), count(DISTINCT run), count(DISTINCT host), min(day) FROM read_parquet('{pattern}')"
    rows, found, hosts, _ = duck.execute(runs).fetchone()
    compare(f"{table}: rows by DuckDB", rows, expected)
    frame = polars.scan_parquet(pattern, hive_partitioning=True)
    compare(f"{table}: rows by polars", frame.select(polars.len()).collect().item(), expected)
    if table == "wide":
        compare("runs", found, len(recordings))
        compare("hosts: five, and the unknown one", hosts, 6)
        sums = [db.execute("SELECT sum(resident_anon_bytes) FROM process_sample").fetchone()[0] for db in recordings]
        column = polars.col("process_resident_anon_bytes")
        compare("a sum by polars", frame.select(column.sum()).collect().item(), float(sum(sums)))

document = open(sys.argv[1]).read()
queries = re.findall(r"```sql\n-- (.*?)\n(.*?)```", document, re.DOTALL)
compare("queries of the document", len(queries), 5)
answers = []
for question, sql in queries:
    found = duck.execute(sql)
    names = [column[0] for column in found.description]
    rows = {row[0]: dict(zip(names, row)) for row in found.fetchall()}
    print(question, *rows.values(), sep="\n  ")
    compare(f"{question} arms", sorted(rows), sorted(set(arm_of)))
    missing = [name for row in rows.values() for name, value in row.items() if value is None]
    compare(f"{question} columns without a value", missing, [])
    answers.append(rows)

# As in the report: no transaction, entry or shred.
OWN_SLOT = "(total_transactions = 0 AND total_entries = 0 AND total_shreds = 0)"
EXPECTED = [
    (0, "needed_gib", "SELECT max(unreclaimable_bytes) / 1073741824.0 FROM cgroup_sample", max),
    (2, "anon_gib", "SELECT max(resident_anon_bytes) / 1073741824.0 FROM process_sample", max),
    (3, "runs", "SELECT 1", sum),
    (3, "oom_killed", "SELECT count(*) > 0 FROM event WHERE kind = 'oom_kill'", sum),
    (4, "misses_per_batch", "SELECT avg(misses) FROM program_cache_point", mean),
    (4, "cache_ms_per_slot", f"SELECT avg(program_cache_us) / 1000.0 FROM replay_slot_point WHERE NOT {OWN_SLOT}", mean),
]
for query, column, sql, merge in EXPECTED:
    for arm, expected in by_arm(sql, merge).items():
        compare(f"{queries[query][0]} {column} of {arm}", answers[query].get(arm, {}).get(column), expected)
for db in recordings:
    compare("recordings with own slots", db.execute(f"SELECT count(*) > 0 FROM replay_slot_point WHERE {OWN_SLOT}").fetchone()[0], 1)


def p95(db):
    """By linear interpolation, as in the report."""
    us = f"SELECT replay_total_elapsed_us FROM replay_slot_point WHERE NOT {OWN_SLOT} ORDER BY 1"
    values = [us for us, in db.execute(us)]
    below, share = divmod(0.95 * (len(values) - 1), 1)
    return (values[int(below)] * (1 - share) + values[int(below) + 1] * share) / 1000


for arm in sorted(set(arm_of)):
    expected = mean([p95(db) for of, db in zip(arm_of, recordings) if of == arm])
    compare(f"replay_p95_ms of {arm}", answers[4].get(arm, {}).get("replay_p95_ms"), expected)
SUM = "resident_anon_bytes + resident_file_bytes + resident_shmem_bytes"
totals, samples = (by_arm(f"SELECT {of}({SUM}) FROM process_sample", sum) for of in ("sum", "count"))
for arm, total in totals.items():
    compare(f"resident_gib of {arm}", answers[1].get(arm, {}).get("resident_gib"), total / samples[arm] / 2**30)
span = "SELECT max(uptime_ns) - min(uptime_ns) AS d FROM tick WHERE process IS NOT NULL GROUP BY session, process"
SUMS = [
    (1, "faults_per_second", "major_faults"),
    (2, "cpus", "cpu_user_seconds + cpu_system_seconds"),
    (2, "read_bytes_per_second", "io_read_bytes"),
]
for query, column, name in SUMS:
    pairs = [
        (arm, db.execute(f"SELECT sum(d) FROM ({span})").fetchone()[0], sum(
            high - low for low, high in db.execute(
                f"SELECT min({name}), max({name}) FROM process_sample JOIN tick ON tick.id = tick"
                " WHERE process IS NOT NULL GROUP BY session, process")))
        for arm, db in zip(arm_of, recordings)
    ]
    for arm in sorted(set(arm_of)):
        ns, total = (sum(pair[i] for pair in pairs if pair[0] == arm) for i in (1, 2))
        compare(f"{column} of {arm}", answers[query].get(arm, {}).get(column), 1e9 * total / ns)

print(f"{len(tables)} tables, {len(differences)} differences")
print("\n".join(differences[:40]))
sys.exit(1 if differences or not tables else 0)
