use super::*;
use crate::{judge::program_cache_validity, outcome::Validity};
use proptest::prelude::*;
use std::io::Write as _;

fn read_text(text: &[u8]) -> OfflineReplay {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text).unwrap();
    read(file.path()).unwrap().offline_replay
}

fn at(ms: u64, message: &str) -> String {
    format!(
        "[2026-11-21T04:00:{:02}.{:03}000000Z INFO  solana_runtime::bank] {message}\n",
        ms / 1000,
        ms % 1000
    )
}

fn counts(ms: u64, slot: u64, [misses, reloads, evictions, insertions]: [u64; 4]) -> String {
    at(
        ms,
        &format!(
            "datapoint: loaded-programs-cache-stats slot={slot}i hits=9i misses={misses}i evictions={evictions}i \
             reloads={reloads}i insertions={insertions}i water_level=460i"
        ),
    )
}

#[test]
fn each_replayed_slot_has_its_time_hash_and_transaction_counts() {
    let frozen = |ms, slot: u64, hash: &str| {
        at(
            ms,
            &format!(
                "bank frozen: {slot} hash: {hash} accounts_delta: D signature_count: 3 last_blockhash: L"
            ),
        )
    };
    let text = [
        frozen(0, 9, "99"),
        at(0, "Processing ledger from slot 9..."),
        counts(1, 9, [100, 0, 0, 100]),
        frozen(10, 10, "AA"),
        counts(11, 10, [5, 1, 2, 3]),
        frozen(35, 11, "BB"),
        counts(36, 11, [1, 0, 0, 1]),
        // A second child of 11.
        counts(37, 11, [2, 0, 0, 0]),
        frozen(36, 10, "AA"),
        frozen(40, 13, "CC"),
        at(
            50,
            "ledger processing timing: ExecuteTimings { metrics: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1200, 13, 14], d: X }",
        ),
    ];
    let replayed = read_text(text.concat().as_bytes());
    let rows: Vec<_> = replayed
        .slots
        .iter()
        .map(|slot| (slot.slot, slot.elapsed_ms, slot.misses, slot.evictions))
        .collect();
    assert_eq!(
        rows,
        [
            (10, Some(10.0), Some(5), Some(2)),
            (11, Some(25.0), Some(3), Some(0)),
            (13, Some(5.0), None, None)
        ],
        "{replayed:#?}"
    );
    assert_eq!(
        (replayed.program_cache_us, replayed.left_out),
        (Some(1200), 0)
    );
    assert_ne!(
        replayed.slots[0].bank_fingerprint,
        replayed.slots[1].bank_fingerprint
    );
    assert_eq!(
        csv(&replayed),
        "slot,elapsed_ms,signatures,misses,reloads,evictions,insertions\n10,10.000000,3,5,1,2,3\n11,25.000000,3,3,0,0,1\n13,5.000000,3,,,,\n"
    );
}

/// Logs of `agave-ledger-tool verify` 2.1.14 for slots 1301 to 1340. Only lines of the kinds that are read remain. The
/// expected sums were computed with awk from the same lines.
#[test]
fn real_replay_logs_have_every_slot_and_independently_counted_sums() {
    let log = |name: &str| {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../faultline/tests/fixtures");
        read(&fixtures.join(name)).unwrap()
    };
    let sums = |name: &str| {
        let replayed = log(name).offline_replay;
        let sum = |of: fn(&OfflineReplaySlot) -> Option<u64>| {
            replayed.slots.iter().filter_map(of).sum::<u64>()
        };
        let slots: Vec<u64> = replayed.slots.iter().map(|slot| slot.slot).collect();
        assert_eq!(slots, (1301..=1340).collect::<Vec<_>>());
        assert!(
            replayed
                .slots
                .iter()
                .all(|slot| slot.elapsed_ms.is_some_and(|ms| ms > 0.0 && ms < 10_000.0))
        );
        assert!(
            replayed
                .slots
                .iter()
                .all(|slot| slot.bank_fingerprint.is_some())
        );
        let of_all = (
            sum(|slot| slot.misses),
            sum(|slot| slot.evictions),
            sum(|slot| slot.reloads),
        );
        (
            of_all,
            replayed.program_cache_us,
            replayed
                .slots
                .iter()
                .map(|slot| slot.bank_fingerprint)
                .collect::<Vec<_>>(),
        )
    };
    let (small, large) = (sums("replay-512.log"), sums("replay-1024.log"));
    assert_eq!((small.0, small.1), ((1378, 918, 741), Some(417_879)));
    assert_eq!((large.0, large.1), ((637, 0, 0), Some(373_698)));
    // Both logs have the same bank hashes.
    assert_eq!(small.2, large.2);
    let [small, large] =
        ["replay-512.log", "replay-1024.log"].map(|name| log(name).program_cache_totals);
    assert_eq!(
        program_cache_validity(512, &small),
        Validity::Valid,
        "{small:?}"
    );
    assert!(
        matches!(program_cache_validity(1024, &small), Validity::Invalid(_)),
        "{small:?}"
    );
    assert!(
        !matches!(program_cache_validity(1024, &large), Validity::Invalid(_)),
        "{large:?}"
    );
}

#[test]
fn a_timing_line_naming_many_programs_is_parsed() {
    let programs = "Pubkey: ProgramTiming { accumulated_us: 1 }, ".repeat(10_000);
    let line = format!(
        "ledger processing timing: ExecuteTimings {{ metrics: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14], {programs}"
    );
    assert_eq!(
        read_text(at(1, &line).as_bytes()).program_cache_us,
        Some(12)
    );
}

#[test]
fn a_log_without_a_replay_yields_nothing() {
    assert_eq!(read_text(b"hello\n\xff\xfe\n"), OfflineReplay::default());
    assert!(read(Path::new("/nowhere/at/all")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_replay_log_is_read_without_panic(
        lines in proptest::collection::vec(
            prop_oneof![
                (any::<u64>(), "[a-z0-9 :]{0,20}").prop_map(|(slot, rest)| format!("bank frozen: {slot} {rest}\n")),
                (0..60_000_u64, 0..5_u64).prop_map(|(ms, slot)| at(ms, &format!("bank frozen: {slot} hash: x"))),
                (0..60_000_u64, 0..5_u64, any::<[u64; 4]>()).prop_map(|(ms, slot, all)| counts(ms, slot, all)),
                ".{0,80}",
            ],
            0..40,
        )
    ) {
        let replayed = read_text(lines.concat().as_bytes());
        let mut slots: Vec<u64> = replayed.slots.iter().map(|slot| slot.slot).collect();
        let count = slots.len();
        slots.sort_unstable();
        slots.dedup();
        prop_assert_eq!(slots.len(), count);
        prop_assert_eq!(csv(&replayed).lines().count(), count + 1);
        prop_assert!(replayed.slots.iter().all(|slot| slot.elapsed_ms.is_none_or(|ms| ms >= 0.0)));
    }
}

#[test]
fn a_log_that_is_a_device_is_not_read() {
    let error = read(Path::new("/dev/null")).err().unwrap().to_string();
    assert!(error.starts_with("is not a regular file"), "{error}");
}
