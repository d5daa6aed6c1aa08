//! Trace files: what is written is read, and no bytes do harm.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops at what it did not expect, in its helpers too"
)]

mod common;

use common::{load, plain};
use faultline_cache_sim::{
    Trace,
    file::{Writer, read, read_whole_records},
    predict::Coverage,
    trace::{
        ChangeKind, Loader, MAX_KEYS, MAX_LOOKUPS, MAX_PROGRAMS, MeasuredLoad, Meta, Program,
        SetInterner, Slot, SlotKind, Source, TraceChange, TransactionCall,
    },
};
use proptest::prelude::*;

fn bytes(trace: &Trace) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), trace).unwrap();
    writer.write(trace).unwrap();
    writer.into_inner()
}

/// A number below 2^28.
fn put(out: &mut Vec<u8>, number: usize) {
    out.extend([0, 7, 14].map(|shift| (number >> shift) as u8 | 0x80));
    out.push((number >> 21) as u8);
}

/// Appends a record with a right checksum.
fn append(file: &mut Vec<u8>, kind: u8, content: &[u8]) {
    file.push(kind);
    put(file, content.len());
    file.extend_from_slice(content);
    let mut sum = !0_u32;
    for byte in std::iter::once(&kind).chain(content) {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = if sum & 1 == 1 {
                sum >> 1 ^ 0xedb8_8320
            } else {
                sum >> 1
            };
        }
    }
    file.extend_from_slice(&(!sum).to_le_bytes());
}

/// A trace with everything that a file can hold.
fn everything() -> Trace {
    let meta = Meta {
        source: Source::Blocks,
        cluster: "mainnet".to_owned(),
        version: "2.1.14".to_owned(),
    };
    let mut trace = Trace::new(meta);
    add_programs(&mut trace);
    let sets = [vec![0, 1, 2], vec![4], vec![]].map(|set| trace.add_set(&set).unwrap());
    for (slot, kind) in [
        (7, SlotKind::Replayed),
        (1 << 40, SlotKind::Fork),
        ((1 << 40) + 3, SlotKind::Own),
    ] {
        let calls = sets.map(|set| TransactionCall::new(set, set == 1).unwrap());
        trace
            .add_slot(
                Slot {
                    slot,
                    parent: slot - 1,
                    transactions: 900,
                    kind,
                },
                &calls,
            )
            .unwrap();
        let slot_index = trace.slots().len() as u32 - 1;
        for (position, kind) in [(1, ChangeKind::Deployed), (3, ChangeKind::Closed)] {
            trace
                .add_change(TraceChange {
                    slot_index,
                    position,
                    program: 2,
                    kind,
                })
                .unwrap();
        }
    }
    trace
        .add_measured_load(MeasuredLoad {
            slot: 7,
            program: 4,
            compile_us: 3_000,
        })
        .unwrap();
    trace
}

fn add_programs(trace: &mut Trace) {
    let loaders = [
        None,
        Some(Loader::V1),
        Some(Loader::V2),
        Some(Loader::V3),
        Some(Loader::V4),
    ];
    for (number, loader) in (0_u8..).zip(loaders) {
        let address = loader.map(|_| [number; 32]);
        let bytes = (number > 1).then_some(u64::from(u32::MAX) >> number);
        trace
            .add_program(Program {
                address,
                loader,
                bytes,
                has_code: number != 3,
            })
            .unwrap();
    }
}

#[test]
fn a_written_trace_is_read_back() {
    for trace in [everything(), load(), plain("1 2 3\n1 2\n\n".trim_end())] {
        assert_eq!(read(bytes(&trace).as_slice()).unwrap(), trace);
    }
    let load = load();
    assert_eq!(
        (load.programs().len(), load.slots().len(), load.call_count()),
        (640, 133, 18_080)
    );
    assert!(bytes(&load).len() < 37_000, "two bytes a call");
}

#[test]
fn a_trace_file_continues_where_a_kill_interrupted_it() {
    let whole = bytes(&everything());
    for cut in 0..=whole.len() {
        let Ok(partial) = read_whole_records(&whole[..cut]) else {
            continue;
        };
        assert!(partial.end <= cut as u64);
        assert_eq!(
            partial.damage.is_none(),
            partial.end == cut as u64,
            "{cut}: {:?}",
            partial.damage
        );
        let (mut trace, begin) = (partial.trace, partial.end as usize);
        let mut writer = Writer::resume(whole[..begin].to_vec(), &trace);
        let number = SetInterner::of(&trace).intern(&mut trace, &[]).unwrap();
        let slot = Slot {
            slot: 1 << 50,
            parent: 1,
            transactions: 1,
            kind: SlotKind::Replayed,
        };
        trace
            .add_slot(slot, &[TransactionCall::new(number, false).unwrap()])
            .unwrap();
        writer.write(&trace).unwrap();
        assert_eq!(
            read(writer.into_inner().as_slice()).unwrap(),
            trace,
            "{cut}"
        );
    }
}

#[test]
fn trace_damage_is_reported_with_its_position_and_a_remedy() {
    let whole = bytes(&everything());
    let cut = read(&whole[..whole.len() - 1]).unwrap_err().to_string();
    assert!(
        cut.contains("damaged at byte") && cut.contains("ends too early"),
        "{cut}"
    );
    for (at, what) in [
        (0, "it is not a trace file of this format; name"),
        (
            7,
            "it has format 17, which this version does not know; use a newer faultline",
        ),
        (12, "byte 8: the checksum of the record is wrong; copy"),
        (whole.len() - 3, "the checksum of the record is wrong; run"),
    ] {
        let mut broken = whole.clone();
        broken[at] ^= 0x10;
        let error = read(broken.as_slice()).unwrap_err().to_string();
        assert!(error.contains(what), "{at}: {error}");
        let may_remove = error.contains("remove it");
        assert_eq!(may_remove, at == 12, "{at}: {error}");
    }
    for (short, what) in [
        ("", "byte 0: it ends too early; copy"),
        ("FLT", "byte 0: it ends too early; copy"),
        ("notes", "it is not a trace file of this format; name"),
    ] {
        let error = read(short.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(what), "{short}: {error}");
    }
}

/// To continue a file, a fetch removes what follows a damage.
#[test]
fn a_record_of_a_newer_version_is_no_damage() {
    let mut newer = bytes(&everything());
    append(&mut newer, 7, b"x");
    let error = read_whole_records(newer.as_slice())
        .err()
        .unwrap()
        .to_string();
    assert_eq!(
        error,
        "it has records of kind 7, which this version does not know; use a newer faultline"
    );
}

#[test]
fn slots_that_contradict_the_trace_are_refused() {
    let mut trace = everything();
    let [known, unknown] = [0, 9].map(|set| TransactionCall::new(set, false).unwrap());
    for (slot, parent, transactions, call, why) in [
        (7, 6, 1, known, "an earlier slot"),
        (1 << 41, 1 << 42, 1, known, "a later parent"),
        (1 << 41, 1, 0, known, "more calls than transactions"),
        (1 << 41, 1, 1, unknown, "an unknown set"),
        (
            1 << 41,
            1,
            1 << 32,
            known,
            "more transactions than there can be",
        ),
    ] {
        let slot = Slot {
            slot,
            parent,
            transactions,
            kind: SlotKind::Replayed,
        };
        assert!(trace.add_slot(slot, &[call]).is_err(), "{why}");
    }
    assert_eq!(trace, everything());
    assert_eq!(TransactionCall::new(1 << 31, false), None);
}

#[test]
fn programs_and_loads_that_contradict_the_trace_are_refused() {
    let mut trace = everything();
    assert!(trace.add_set(&[1, 2, 1]).is_err() && trace.add_set(&[5]).is_err());
    for (program, us) in [(5, 1), (4, 1 << 32)] {
        let load = MeasuredLoad {
            slot: 1,
            program,
            compile_us: us,
        };
        assert!(trace.add_measured_load(load).is_err(), "{load:?}");
    }
    let large = Program {
        bytes: Some(1 << 32),
        ..trace.programs()[0]
    };
    assert!(trace.add_program(large).is_err());
    assert_eq!(trace, everything());
}

#[test]
fn changes_that_contradict_the_trace_are_refused() {
    let mut trace = everything();
    for (slot_index, position, why) in [
        (2, 2, "before an earlier change"),
        (2, 4, "behind the slot"),
        (1, 3, "of another slot"),
    ] {
        let change = TraceChange {
            slot_index,
            position,
            program: 0,
            kind: ChangeKind::Closed,
        };
        assert!(trace.add_change(change).is_err(), "{why}");
    }
    assert_eq!(trace, everything());
}

#[test]
fn a_trace_missing_five_percent_of_slots_is_refused() {
    let trace = load();
    let recorded = trace
        .slots()
        .iter()
        .map(|slot| (slot.slot, slot.transactions))
        .collect();
    let coverage = Coverage::of(&trace, &recorded);
    assert_eq!(
        (coverage.percent(), coverage.missing_slots.len()),
        (Some(100.0), 0)
    );
    coverage.require().unwrap();
    let partial: Vec<&Slot> = trace
        .slots()
        .iter()
        .enumerate()
        .filter(|(at, _)| at % 20 != 3)
        .map(|(_, slot)| slot)
        .collect();
    let mut holed = Trace::new(trace.meta().clone());
    partial
        .iter()
        .for_each(|slot| holed.add_slot(**slot, &[]).unwrap());
    let error = Coverage::of(&holed, &recorded)
        .require()
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("missing slots: 7, the first is 991") && error.contains("below 98 %"),
        "{error}"
    );
    let nothing = Coverage::of(&trace, &[(7, 0)].into())
        .require()
        .unwrap_err();
    assert_eq!(nothing.to_string(), "no transactions were recorded");
}

proptest! {
    #[test]
    fn reading_any_trace_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(bytes.as_slice());
        let _ = read([b"FLTRACE\x01".as_slice(), &bytes].concat().as_slice());
    }

    #[test]
    fn trace_damage_is_always_detected_without_panic(at in 0..10_000_usize, bit in 0..8_u32) {
        let mut broken = bytes(&everything());
        let at = at % broken.len();
        broken[at] ^= 1 << bit;
        prop_assert!(read(broken.as_slice()).is_err());
    }

    #[test]
    fn trace_content_with_a_valid_checksum_never_panics(kind in 0_u8..9, content in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut file = bytes(&everything());
        append(&mut file, kind, &content);
        if let Err(error) = read(file.as_slice()) {
            prop_assert!(!error.to_string().contains("checksum"), "{error}");
        }
    }
}

#[test]
fn a_set_with_more_programs_than_a_transaction_has_keys_is_refused() {
    let mut trace = Trace::new(everything().meta().clone());
    let program = Program {
        address: None,
        loader: None,
        bytes: None,
        has_code: true,
    };
    for _ in 0..=MAX_KEYS {
        trace.add_program(program).unwrap();
    }
    let all: Vec<u32> = (0..=MAX_KEYS as u32).collect();
    trace.add_set(&all[1..]).unwrap();
    let refused = trace.add_set(&all).unwrap_err().to_string();
    assert!(refused.contains("257 programs"), "{refused}");
    // The same as a file.
    let set: Vec<u8> = (0..=255)
        .flat_map(|one: u8| [one | 0x80, one >> 7])
        .collect();
    let mut content = vec![0x81, 2, 0x80, 2];
    content.extend(set);
    let mut file = bytes(&trace);
    append(&mut file, 3, &content);
    let refused = read(file.as_slice()).unwrap_err().to_string();
    assert!(refused.contains("257 programs"), "{refused}");
}

/// The call of a set of all keys is a byte of the file.
#[test]
fn a_trace_with_too_many_lookups_is_refused_before_simulation() {
    let mut trace = Trace::new(everything().meta().clone());
    let program = Program {
        address: None,
        loader: None,
        bytes: None,
        has_code: true,
    };
    for _ in 0..MAX_KEYS {
        trace.add_program(program).unwrap();
    }
    let all: Vec<u32> = (0..MAX_KEYS as u32).collect();
    trace.add_set(&all).unwrap();
    let slot = |slot: u64, calls: usize| {
        let mut content = vec![slot as u8, 1];
        put(&mut content, calls);
        content.push(0);
        content.resize(content.len() + calls, 0);
        content
    };
    let most = MAX_LOOKUPS as usize / MAX_KEYS;
    let mut file = bytes(&trace);
    append(&mut file, 4, &slot(7, most));
    assert_eq!(read(file.as_slice()).unwrap().lookup_count(), MAX_LOOKUPS);
    append(&mut file, 4, &slot(8, 1));
    let refused = read(file.as_slice()).unwrap_err().to_string();
    assert!(
        refused.contains("with slot 8 it has 536871168 lookups, and the maximum is 536870912"),
        "{refused}"
    );
}

#[test]
fn a_file_with_more_programs_than_a_cluster_has_is_refused() {
    let mut file = bytes(&Trace::new(everything().meta().clone()));
    append(&mut file, 2, &vec![4; MAX_PROGRAMS]);
    assert_eq!(
        read(file.as_slice()).unwrap().programs().len(),
        MAX_PROGRAMS
    );
    append(&mut file, 2, &[4]);
    let refused = read(file.as_slice()).unwrap_err().to_string();
    assert!(refused.contains("more than 1048576 programs"), "{refused}");
}
