"""The reader of sources, with a crate for each way to write a datapoint."""

import pathlib
import tempfile
import unittest

from compare import alike, fields_changed, names_alike, read_by_daemon
from extract import Datapoint, Release
from rust import SourceError

FIXTURE = pathlib.Path(__file__).parent / "fixture"
EXPECTED = {
    "always": "a: i64",
    "cache_of_client": "hits: i64",
    "complete": "time: i64",
    "connections": "count: i64",
    "create_executor_trace": "slot: i64",
    "from_literal": "count: i64",
    "from_struct": "count: i64",
    "index": "full-size: i64, incremental-size: i64",
    "index_startup": "full-size: i64, incremental-size: i64",
    "interrupted": "time: i64",
    "metrics": 'points_lost: i64, quoted \\" and, closed ): bool',
    "named_by_constant": "a: i64",
    "not_trace": "slot: i64 (debug)",
    "os-config": "host: tag",
    "plain": "address: tag, average: f64, constant_field: bool, error: String, "
    "maximum: Option<i64>, slot: i64, traced: i64 (trace)",
    "replay": "load_us: i64, replay_us: i64, task_us: i64, total_batches_len: Option<i64>",
    "rpc-counter": "count: i64",
    "service": "id: tag, sent: i64, slot: i64",
    "with_level": "slot: i64",
}


def shown(point):
    return ", ".join(
        f"{key}: {' | '.join(sorted(point.fields[key]))}" for key in sorted(point.fields)
    )


def release_of(text):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "src/lib.rs"
        source.parent.mkdir()
        source.write_text(text)
        return Release({"solana-core": pathlib.Path(folder)})


def point(**fields):
    made = Datapoint()
    for key, kind in fields.items():
        made.fields[key].add(kind)
    return made


class Test(unittest.TestCase):
    maxDiff = None

    def test_every_way_to_write_a_datapoint_is_read(self):
        release = Release({folder.name: folder for folder in FIXTURE.iterdir()})
        self.assertEqual({name: shown(its) for name, its in release.datapoints.items()}, EXPECTED)
        self.assertEqual(
            {
                place.split(":")[0] + ": " + what.split(" (")[0]
                for place, what in release.unresolved.items()
            },
            {
                "solana-core/src/service/mod.rs: a field of os-config: key is computed",
                "solana-core/src/service/mod.rs: a datapoint: nothing calls never_called",
                "solana-core/src/service/mod.rs: a field of a point that is made elsewhere",
                "solana-core/src/service/mod.rs: perhaps a datapoint: reported by another type",
                "solana-client/src/lib.rs: perhaps a datapoint: of another type",
            },
        )

    def test_what_is_not_understood_is_an_error_with_its_line(self):
        for text, error in [
            ('\nfn f() { datapoint_info!("a", ("b", 1)); }', "lib.rs:2: .* is no field"),
            ('fn f() {\n datapoint_info!("a", ("b", 1, u64)); }', "lib.rs:2: .* is no field"),
            ('fn f() { datapoint_info!("a", more!(b)); }', "lib.rs:1: .* is no field"),
            (
                'fn f() { datapoint_info!("a", eager!{unknown!(b)}); }',
                "lib.rs:1: 0 macros have the name unknown",
            ),
            ('fn f() { datapoint_info!("a", ("b", 1, i64); }', "lib.rs:1: . closes nothing"),
            ("fn f() {\n /* datapoint", "lib.rs:2: a comment does not end"),
        ]:
            with self.assertRaisesRegex(SourceError, error):
                release_of(text)

    def test_a_changed_field_is_told_from_a_renamed_one(self):
        old = point(load_us="i64", slot="i64", gone="i64", clean="Option<i64>")
        new = point(load_ns="i64", slot="i64", appeared="i64", clean="i64")
        self.assertEqual(
            fields_changed(old, new),
            [
                "  - gone: i64",
                "  + appeared: i64",
                "  > load_us: i64 -> load_ns: i64",
                "  ~ clean: Option<i64> -> i64",
            ],
        )
        self.assertEqual(alike(["a_us", "b_us"], ["b_ns"], names_alike, 0.7), {"b_us": "b_ns"})

    def test_what_faultlined_reads_has_names_of_other_releases(self):
        read = {(name, key): same for name, key, same in read_by_daemon()}
        load = [f"read_only_accounts_cache_load_{unit}" for unit in ("us", "ns")]
        for key in load:
            self.assertEqual(read["accounts_db_store_timings", key], load)
        self.assertEqual(read["validator-set_identity", "id"], ["new_id", "id"])
        self.assertEqual(read["cost_tracker_stats", "is_leader"], ["is_leader"])
        self.assertEqual(read["replay-stage-update-parent", "(any)"], ["(any)"])
        self.assertEqual(read["accounts_index_startup", "count"], ["count"])
