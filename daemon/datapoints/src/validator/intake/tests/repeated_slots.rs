//! Several banks of one slot, in the lines of Agave 4.5.0-alpha.4. If a block is replaced, the new
//! block is replayed, and so are the blocks after it.

use super::*;
use faultline_metrics::Value;

/// Times and counts of a bank, as in the fixture.
const REPLAY_SECONDS: f64 = 0.095;
const MISSES: f64 = 4.0;

#[derive(Clone, Copy)]
struct Bank {
    slot: u64,
    transactions: u64,
    /// How often the block of the slot was replaced.
    switches: u64,
}

fn bank(slot: u64, transactions: u64) -> Bank {
    Bank {
        slot,
        transactions,
        switches: 0,
    }
}

fn switched(slot: u64, transactions: u64, switches: u64) -> Bank {
    Bank {
        slot,
        transactions,
        switches,
    }
}

/// The lines of one bank. `nanos` tells equal banks apart.
fn lines_of(bank: Bank, nanos: &mut u64) -> Vec<String> {
    const FIXTURE_SLOT: u64 = 459_702_956;
    let Bank {
        slot,
        transactions,
        switches,
    } = bank;
    let text = faultline_testkit::alpenglow::text("migration-epoch/pushed.lp").unwrap();
    let of_parent = format!("loaded-programs-cache-stats,.* slot={}i,", FIXTURE_SLOT - 1);
    let is_wanted = |line: &&str| {
        let parent = of_parent.split_once(".*").unwrap();
        let name = line.split(',').next().unwrap_or_default();
        (line.starts_with(parent.0) && line.contains(parent.1))
            || (["bank_frozen", "replay-slot-stats", "cost_tracker_stats"].contains(&name)
                && line.contains(&format!("slot={FIXTURE_SLOT}i,")))
    };
    let lines: Vec<String> = text
        .lines()
        .filter(is_wanted)
        .map(|line| {
            *nanos += 1;
            let (line, _) = line.rsplit_once(' ').unwrap();
            line.replace("8W7syB4gy2ToA6RcHsVXMT2XeVUGLsGpn5c9ZqenteNi", "A")
                .replace(&format!("slot={FIXTURE_SLOT}i"), &format!("slot={slot}i"))
                .replace(
                    "transactions=800i",
                    &format!("transactions={transactions}i"),
                )
                .replace("_count=800i", &format!("_count={transactions}i"))
                .replace("switches=0i", &format!("switches={switches}i"))
                + &format!(" {nanos}")
        })
        .collect();
    assert_eq!(lines.len(), 4);
    lines
}

fn switch(slot: u64, nanos: &mut u64) -> String {
    *nanos += 1;
    format!(
        "blockstore_switch_bank,host_id=A,from_location=Alternate(7d389EUe5M91zG7R7gP1AwPBL8jfezvCVv2ToxPCKcTx) slot={slot}i,total_elapsed_us=5300i,lock_elapsed_us=40i,backup_elapsed_us=2100i,purge_elapsed_us=900i,copy_elapsed_us=2260i {nanos}"
    )
}

/// The lines of these banks. A replaced bank follows the report of its replacement.
fn story(banks: &[Bank]) -> Vec<String> {
    let (mut nanos, mut reported) = (0, std::collections::BTreeMap::new());
    let mut lines = Vec::new();
    for bank in banks {
        let before = reported.entry(bank.slot).or_insert(0);
        lines.extend((*before..bank.switches).map(|_| switch(bank.slot, &mut nanos)));
        *before = bank.switches.max(*before);
        lines.extend(lines_of(*bank, &mut nanos));
    }
    lines
}

fn validator() -> Intake {
    let intake = intake();
    intake.set_reported_identity("A", at(1));
    intake
}

fn number(intake: &Intake, name: &str, label: Option<&str>) -> f64 {
    value(intake, 1, name, label).unwrap_or_else(|| panic!("{name} is absent"))
}

/// Transactions of blocks, and number of replaced blocks.
fn chain(intake: &Intake) -> [f64; 2] {
    [
        number(intake, "agave_block_transactions_total", Some("false")),
        number(intake, "agave_bank_switches_total", None),
    ]
}

/// Replayed slots, their time, replayed transactions, and misses of the cache.
fn work(intake: &Intake) -> [f64; 4] {
    let mut readings = Vec::new();
    intake.add_readings(at(1), &mut readings);
    let of_replay = readings.iter().find(|reading| {
        reading.metric.name == "agave_replay_slot_seconds"
            && reading.label_values[0].as_str() == "total"
    });
    let Some(Value::Histogram(replay)) = of_replay.map(|reading| &reading.value) else {
        panic!("no histogram")
    };
    [
        replay.count() as f64,
        replay.sum(),
        number(intake, "agave_replayed_transactions_total", None),
        misses(intake),
    ]
}

fn work_of(banks: usize, transactions: f64) -> [f64; 4] {
    let banks = banks as f64;
    let seconds = (banks * REPLAY_SECONDS * 1e6).round() / 1e6;
    [banks, seconds, transactions, banks * MISSES]
}

fn assert_work(intake: &Intake, expected: [f64; 4]) {
    let mut found = work(intake);
    found[1] = (found[1] * 1e6).round() / 1e6;
    assert_eq!(found, expected);
}

/// Slot 11 gets another block. 12 and 13 are replayed on it: 12 as before, 13 with fewer
/// transactions.
const SWITCH: [Bank; 7] = [
    Bank {
        slot: 10,
        transactions: 900,
        switches: 0,
    },
    Bank {
        slot: 11,
        transactions: 800,
        switches: 0,
    },
    Bank {
        slot: 12,
        transactions: 700,
        switches: 0,
    },
    Bank {
        slot: 13,
        transactions: 600,
        switches: 0,
    },
    Bank {
        slot: 11,
        transactions: 820,
        switches: 1,
    },
    Bank {
        slot: 12,
        transactions: 700,
        switches: 0,
    },
    Bank {
        slot: 13,
        transactions: 590,
        switches: 0,
    },
];
const SWITCH_BLOCKS: f64 = 900.0 + 820.0 + 700.0 + 600.0;
const SWITCH_REPLAYED: f64 = 3000.0 + 820.0 + 700.0 + 590.0;

#[track_caller]
fn assert_switch(intake: &Intake) {
    assert_eq!(chain(intake), [SWITCH_BLOCKS, 1.0]);
    assert_work(intake, work_of(SWITCH.len(), SWITCH_REPLAYED));
}

#[test]
fn a_repeated_slot_adds_its_excess_to_blocks_and_all_its_work() {
    let intake = validator();
    push(&intake, 1, &story(&SWITCH));
    assert_switch(&intake);
}

#[test]
fn banks_of_a_slot_may_arrive_in_two_pushes_and_a_push_twice() {
    let lines = story(&SWITCH);
    for at in 0..=lines.len() {
        let intake = validator();
        let (first, second) = lines.split_at(at);
        push(&intake, 1, first);
        push(&intake, 2, second);
        push(&intake, 3, first);
        push(&intake, 4, second);
        assert_switch(&intake);
    }
}

#[test]
fn the_log_counts_repeated_slots_as_pushes_do() {
    let intake = intake();
    let mut log = intake.begin_trusted(at(1));
    for line in story(&SWITCH) {
        let (name_and_tags, rest) = line.split_once(' ').unwrap();
        let (fields, _) = rest.rsplit_once(' ').unwrap();
        let (name, tags) = name_and_tags.split_once(",host_id=A").unwrap();
        let fields = fields.replace(',', " ");
        log.add_log_line(&format!(
            "[2026-10-21T12:00:00.1Z INFO  solana_metrics::metrics] datapoint: {name}{tags} {fields}"
        ));
    }
    intake.commit(log, at(1));
    assert_switch(&intake);
}

#[test]
fn a_slot_that_is_replayed_twice_more_was_switched_twice() {
    let intake = validator();
    let banks = [bank(11, 800), switched(11, 700, 1), switched(11, 900, 2)];
    push(&intake, 1, &story(&banks));
    assert_eq!(chain(&intake), [900.0, 2.0]);
    assert_work(&intake, work_of(3, 2400.0));
}

/// With each bank of a slot, the validator reports how often the slot's block was replaced so far.
#[test]
fn a_switched_slot_that_is_replayed_again_on_another_parent_was_switched_once() {
    let intake = validator();
    let banks = [
        bank(10, 900),
        bank(11, 800),
        switched(11, 800, 1),
        switched(10, 900, 1),
        switched(11, 800, 1),
    ];
    push(&intake, 1, &story(&banks));
    assert_eq!(chain(&intake), [1700.0, 2.0]);
}

/// The new block was refused, so no bank completed. Or the root moved first: then the validator
/// forgets the replacements of slots without a bank.
#[test]
fn a_switch_counts_without_a_replay_that_reports_it() {
    let intake = validator();
    let mut nanos = 1000;
    push(&intake, 1, &story(&[bank(11, 800)]));
    assert_eq!(chain(&intake), [800.0, 0.0]);
    push(&intake, 2, &[switch(11, &mut nanos)]);
    push(&intake, 3, &lines_of(bank(11, 800), &mut nanos));
    assert_eq!(chain(&intake), [800.0, 1.0]);
}

#[test]
fn slots_of_two_forks_all_count() {
    let intake = validator();
    // 12 and 13 are both children of 11.
    push(
        &intake,
        1,
        &story(&[bank(11, 800), bank(12, 700), bank(13, 600)]),
    );
    assert_eq!(chain(&intake), [2100.0, 0.0]);
}

#[test]
fn a_slot_below_the_root_counts_once_however_late() {
    let intake = validator();
    let lines = story(&[bank(11, 800), bank(12, 700), bank(13, 600), bank(11, 800)]);
    let root = "bank-forks_set_root,host_id=A elapsed_ms=3i,slot=13i,tx_count=2100i 900".to_owned();
    let costs = |line: &&String| line.starts_with("cost_tracker_stats");
    let late: Vec<String> = lines.iter().filter(costs).take(1).cloned().collect();
    let rest: Vec<String> = lines.into_iter().filter(|line| *line != late[0]).collect();
    push(&intake, 1, &rest[4..8]);
    push(&intake, 2, &[root]);
    push(&intake, 3, &late);
    push(&intake, 4, &rest);
    assert_eq!(chain(&intake)[0], 2100.0);
    assert_eq!(
        number(&intake, "agave_rooted_transactions_total", None),
        2100.0
    );
}

#[test]
fn another_process_may_replay_the_same_slots() {
    let mut nanos = 1000;
    let again: Vec<String> = [bank(12, 700), bank(13, 600), bank(13, 600)]
        .into_iter()
        .flat_map(|bank| lines_of(bank, &mut nanos))
        .collect();
    for is_pending in [false, true] {
        let intake = if is_pending { intake() } else { validator() };
        push(&intake, 1, &story(&SWITCH));
        intake.follow_validator(None);
        if !is_pending {
            intake.set_reported_identity("A", at(2));
        }
        push(&intake, 3, &again);
        intake.set_reported_identity("A", at(4));
        assert_eq!(chain(&intake), [SWITCH_BLOCKS + 1300.0, 1.0]);
    }
}

#[test]
fn slots_of_a_pending_sender_are_known_once_it_is_ours() {
    let lines = story(&SWITCH);
    for at_line in 0..=lines.len() {
        let intake = intake();
        let (pending, ours) = lines.split_at(at_line);
        push(&intake, 1, pending);
        intake.set_reported_identity("A", at(1));
        push(&intake, 2, ours);
        assert_switch(&intake);
    }
}

#[test]
fn a_slot_repeated_under_another_identity_counts_once() {
    let intake = validator();
    let lines = story(&SWITCH);
    let (first, second) = lines.split_at(16);
    let renamed = second
        .iter()
        .map(|line| line.replacen("host_id=A", "host_id=B", 1));
    push(&intake, 1, first);
    push(&intake, 2, &renamed.collect::<Vec<_>>());
    intake.set_reported_identity("B", at(2));
    assert_switch(&intake);
}

/// The bank is dropped before it is frozen. The cache reports when a bank is created.
#[test]
fn a_block_whose_parent_is_updated_counts_once_and_its_cache_deltas_twice() {
    let intake = validator();
    let lines = story(&[bank(11, 800)]);
    let again = lines[0].rsplit_once(' ').unwrap().0.to_owned() + " 900";
    let update =
        "replay-stage-update-parent,host_id=A slot=11i,old_parent_slot=10i,new_parent_slot=9i 901";
    push(&intake, 1, &[again, update.to_owned()]);
    push(&intake, 2, &lines);
    assert_eq!(chain(&intake), [800.0, 0.0]);
    assert_eq!(number(&intake, "agave_update_parents_total", None), 1.0);
    assert_work(&intake, [1.0, REPLAY_SECONDS, 800.0, 2.0 * MISSES]);
}
