use super::*;
use crate::Reason;

const HEAD: &str = "[2025-03-01T12:00:00.123456789Z INFO  solana_metrics::metrics] ";

fn records(log: &str) -> Vec<Result<String, Reason>> {
    let mut splitter = LogSplitter::with_max_line(200);
    let mut found = Vec::new();
    let mut keep = |record: Result<&[u8], BadLine>| {
        found.push(
            record
                .map(|record| String::from_utf8_lossy(record).into_owned())
                .map_err(|bad| bad.reason),
        );
    };
    splitter.feed(log.as_bytes(), &mut keep);
    splitter.finish(&mut keep);
    found
}

#[test]
fn a_line_gives_time_and_message() {
    let text = format!("{HEAD}Validator initialized");
    let line = LogLine::parse(&text);
    assert_eq!(line.time_ns, Some(1_740_830_400_123_456_789));
    assert_eq!(line.message, "Validator initialized");
}

#[test]
fn a_logged_datapoint_has_space_separated_fields_and_its_lines_time() {
    let text = format!("{HEAD}datapoint: cost,id=3 a=1i m=\"x y, z=2i\" b=2.5");
    let point = LogLine::parse(&text).point().unwrap().unwrap();
    assert_eq!(
        (point.name(), point.tag("id"), point.tag("host_id")),
        ("cost", Some("3"), None)
    );
    assert_eq!(
        point
            .fields()
            .map(|field| field.unwrap().raw())
            .collect::<Vec<_>>(),
        ["1i", "\"x y, z=2i\"", "2.5"]
    );
    assert_eq!(point.timestamp(), Some(1_740_830_400_123_456_789));
}

#[test]
fn frankendancers_head_is_skipped_and_gives_no_time() {
    let text = "NOTICE 12:00 metrics/src/metrics.rs(331)[solana_metrics::metrics]: datapoint: bank_frozen slot=7i hash=\"x\"";
    let point = LogLine::parse(text).point().unwrap().unwrap();
    assert_eq!((point.name(), point.timestamp()), ("bank_frozen", None));
}

#[test]
fn a_message_that_mentions_a_datapoint_is_not_a_datapoint() {
    assert!(
        LogLine::parse(&format!("{HEAD}sent datapoint: a b=1i"))
            .point()
            .is_none()
    );
}

#[test]
fn continuation_lines_of_a_string_are_joined_without_their_indentation() {
    let log =
        format!("{HEAD}datapoint: panic message=\"one\n      two\n    \n    end\" line=1i\nnext\n");
    let joined = format!("{HEAD}datapoint: panic message=\"one\n  two\n\nend\" line=1i");
    assert_eq!(records(&log), [Ok(joined), Ok("next".into())]);
}

#[test]
fn an_unterminated_string_ends_at_the_next_log_message() {
    let log = format!("{HEAD}datapoint: panic message=\"one\n{HEAD}other\n");
    assert_eq!(
        records(&log),
        [Err(Reason::UnbalancedQuote), Ok(format!("{HEAD}other"))]
    );
}

#[test]
fn a_multi_line_record_has_a_size_limit() {
    let log = format!(
        "{HEAD}datapoint: panic message=\"one\n{}next\n",
        "    aaaaaaaaaaaaaaaaaaaa\n".repeat(30)
    );
    let found = records(&log);
    assert_eq!(found.first(), Some(&Err(Reason::TooLong)));
    assert_eq!(found.last(), Some(&Ok("next".into())));
}

#[test]
fn continuation_lines_of_other_messages_come_on_their_own() {
    assert_eq!(
        records("a \"x\n    b\nc\n"),
        [Ok("a \"x".into()), Ok("    b".into()), Ok("c".into())]
    );
}

#[test]
fn each_startup_step_in_the_log_is_recognised() {
    let of = |message: &str| LogLine::parse(&format!("{HEAD}{message}")).progress();
    for (message, progress) in [
        (
            "Downloading 1000 bytes from http://1.2.3.4:8899/snapshot.tar.bz2",
            Progress::Downloading,
        ),
        (
            "downloaded 500 bytes 50.0% 99.5 bytes/s",
            Progress::Downloading,
        ),
        ("snapshot untar took 131.4s", Progress::Unpacked),
        ("incremental snapshot untar took 900ms", Progress::Unpacked),
        (
            "generating index: 5/10 slots... (3/s)",
            Progress::GeneratingIndex,
        ),
        (
            "generating index: processed 5/10 slots...",
            Progress::GeneratingIndex,
        ),
        ("Processing ledger from slot 12...", Progress::ReplayBegins),
        ("ledger holds data through slot 34", Progress::Replaying),
        (
            "processing ledger: slot=20, root_slot=5 slots=9, slots/s=4.5, txs/s=1",
            Progress::Replaying,
        ),
        (
            "ledger processed in 163 µs and 511 ns. root slot is 0, 1 bank: 0",
            Progress::Replayed,
        ),
        (
            "Waiting for 80% of activated stake at slot 96542804 to be in gossip...",
            Progress::WaitingForSupermajority,
        ),
        ("Validator initialized", Progress::Initialized),
    ] {
        assert_eq!(of(message), Some(progress), "{message}");
    }
    for other in [
        "Validator initialized?",
        "Downloading x bytes from y",
        "Waiting for a friend",
        "bank frozen: 7",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn a_frozen_bank_line_gives_hash_and_signatures_unlike_a_datapoint() {
    let of = |message: &str| {
        let text = format!("{HEAD}{message}");
        LogLine::parse(&text)
            .frozen_bank()
            .map(|bank| (bank.slot, bank.hash.map(str::to_owned), bank.signatures))
    };
    let whole = "bank frozen: 7 hash: 9xQe accounts_delta: 5dRo signature_count: 12 last_blockhash: 3Fy capitalization: 500, \
                 stats: BankHashStats { num_updated_accounts: 7 }";
    assert_eq!(of(whole), Some((7, Some("9xQe".to_owned()), Some(12))));
    assert_eq!(of("bank frozen: 7"), Some((7, None, None)));
    for other in [
        "bank frozen: x hash: y",
        "datapoint: bank_frozen slot=7i",
        "bank frozen:",
        "bank frozen: -1",
    ] {
        assert_eq!(of(other), None, "{other}");
    }
}

#[test]
fn replay_times_are_parsed_for_known_field_orders() {
    let of = |message: &str| LogLine::parse(&format!("{HEAD}{message}")).replay_timings();
    let line = |metrics: &str| {
        format!("ledger processing timing: ExecuteTimings {{ metrics: [{metrics}], details: X }}")
    };
    let known = of(&line("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14"));
    assert_eq!(
        known,
        Some(ReplayTimings {
            program_cache_us: Some(12),
        })
    );
    for other in [
        "1, 2, 3",
        "",
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
        "a",
    ] {
        assert_eq!(of(&line(other)), Some(ReplayTimings::default()), "{other}");
    }
    assert_eq!(of("ledger processing timing: 3s"), None);
}

#[test]
fn only_log_messages_of_migration_steps_are_recognised() {
    let of = |message: &str| {
        let line =
            format!("[2026-10-21T12:00:00.1Z INFO  agave_votor_messages::migration] {message}");
        LogLine::parse(&line).migration()
    };
    let starts = |slot| Some(Migration::Starts { slot });
    let enabled = |genesis_slot| Some(Migration::Enabled { genesis_slot });
    let certificate = "genesis_cert: GenesisCert { block: Block { slot: 459652999, block_id: 7Np4 }, signature: [] }";
    for (message, expected) in [
        (
            "DMz6: Alpenglow feature flag was activated in 459648000, migration will start at 459653000",
            starts(459_653_000),
        ),
        (
            "DMz6: Alpenglow migration phase Migration { migration_slot: 459653000, genesis_block: None, genesis_cert: None }",
            starts(459_653_000),
        ),
        ("DMz6: Alpenglow migration phase PreFeatureActivation", None),
        ("DMz6: Alpenglow enabled!", enabled(None)),
        (
            "DMz6: Alpenglow enabled during startup! Genesis slot 459652999",
            enabled(Some(459_652_999)),
        ),
        (
            &format!("DMz6: Alpenglow migration phase AlpenglowEnabled {{ {certificate} }}"),
            enabled(Some(459_652_999)),
        ),
        (
            &format!(
                "DMz6: Alpenglow migration phase FullAlpenglowEpoch {{ full_alpenglow_epoch: 1065, {certificate} }}"
            ),
            enabled(Some(459_652_999)),
        ),
        (
            &format!(
                "Pre startup initializing alpenglow migration from root bank: FullAlpenglowEpoch {{ full_alpenglow_epoch: 1065, {certificate} }}"
            ),
            enabled(Some(459_652_999)),
        ),
        (
            "Pre startup initializing alpenglow migration from root bank: PreFeatureActivation",
            None,
        ),
        (
            "Alpenglow enabled, not starting AncestorHashesService",
            None,
        ),
        ("DMz6: Enabling alpenglow during startup", None),
        (
            "DMz6: Alpenglow feature flag was activated in x, migration will start at y",
            None,
        ),
    ] {
        assert_eq!(of(message), expected, "{message}");
    }
}

#[test]
fn times_agree_with_date_of_coreutils() {
    // Computed by `date -u -d ... +%s`.
    for (text, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T23:59:59Z", 951_868_799),
        ("2024-12-31T12:00:00Z", 1_735_646_400),
        ("2100-03-01T00:00:00Z", 4_107_542_400),
        ("1969-12-31T23:59:59Z", -1),
    ] {
        assert_eq!(unix_nanos(text), Some(seconds * 1_000_000_000), "{text}");
    }
}

#[test]
fn any_number_of_decimals_is_a_fraction_of_a_second() {
    assert_eq!(unix_nanos("1970-01-01T00:00:01.5Z"), Some(1_500_000_000));
    assert_eq!(unix_nanos("1970-01-01T00:00:00.000000001Z"), Some(1));
    assert_eq!(unix_nanos("1970-01-01T00:00:00.0000000001Z"), None);
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    for text in [
        "2023-02-29T00:00:00Z",
        "2023-13-01T00:00:00Z",
        "2023-00-01T00:00:00Z",
        "2023-01-00T00:00:00Z",
        "2023-01-01T24:00:00Z",
        "9999-01-01T00:00:00Z",
        "2023-01-01T00:00:00",
        "+023-01-01T00:00:00Z",
        "",
    ] {
        assert_eq!(unix_nanos(text), None, "{text}");
    }
}
