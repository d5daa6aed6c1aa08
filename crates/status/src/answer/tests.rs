use super::*;
use crate::thresholds as t;

const GIB: f64 = (1_u64 << 30) as f64;

fn ram() -> AnswerInputs {
    AnswerInputs {
        installed: Some(512.0 * GIB),
        headroom: Some(96.0 * GIB),
        unreclaimable_share: Some(0.79),
        proven_bytes: Some(412.0 * GIB),
        ..AnswerInputs::default()
    }
}

fn cache(reloads: f64, can_change_capacity: bool) -> AnswerInputs {
    AnswerInputs {
        reloads_per_slot: Some(reloads),
        cache_seconds_per_slot: Some(0.0083),
        replay_seconds_per_slot: Some(0.0132),
        cache_capacity: Some(512.0),
        can_change_capacity: Some(can_change_capacity),
        prediction: Some(CachePrediction {
            entries: 1024.0,
            saved_seconds: 0.0079,
            measured_on: None,
        }),
        ..AnswerInputs::default()
    }
}

fn voter(consensus: Consensus) -> AnswerInputs {
    let tower = (consensus == Consensus::Tower).then_some(());
    AnswerInputs {
        consensus: Some(consensus),
        is_at_tip: Some(true),
        has_vote_account: Some(true),
        has_active_stake: Some(true),
        is_delinquent: Some(false),
        rank: tower.map(|()| 3.0),
        credits_share_of_best: tower.map(|()| 0.992),
        slots_since_landed_vote: Some(2.0),
        reward_share_of_best: tower.is_none().then_some(0.997),
        slots_since_certified_vote: tower.is_none().then_some(1.0),
        ..AnswerInputs::default()
    }
}

fn tower() -> AnswerInputs {
    voter(Consensus::Tower)
}

fn alpenglow() -> AnswerInputs {
    voter(Consensus::Alpenglow)
}

/// Lines of one subject: a change of usual inputs, the verdict, the text.
type States = &'static [(fn(&mut AnswerInputs), &'static str, &'static str)];

fn check(subject: usize, usual: impl Fn() -> AnswerInputs, states: States) {
    for (change, verdict, text) in states {
        let mut inputs = usual();
        change(&mut inputs);
        let answer = &answers(&inputs)[subject];
        assert_eq!(
            (answer.verdict.word(), answer.text.as_str()),
            (*verdict, *text)
        );
    }
}

static RAM: States = &[
    (
        |ram| {
            (ram.is_finished_run, ram.proven_bytes) = (true, None);
            (ram.headroom, ram.installed) = (Some(13.725 * GIB), Some(23.6 * GIB));
        },
        "fine",
        "at least 13 GiB of headroom of 24 installed; the least RAM is not measured: a search takes 4 h to a day on a dedicated host \
         (`faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml`).",
    ),
    (
        |ram| (ram.headroom, ram.proven_bytes) = (Some(7.688 * GIB), Some(0.500_01 * GIB)),
        "fine",
        "512.1 MiB proven enough of 512 GiB installed; 7.68 GiB of headroom now.",
    ),
    (
        |ram| (ram.limit, ram.proven_bytes) = (Some(400.2 * GIB), Some(400.2 * GIB)),
        "fine",
        "401 GiB proven enough of 401 allowed; 96 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.headroom = None;
            ram.why_headroom_unknown = Some("a level that limits memory cannot be read".to_owned());
        },
        "unknown",
        "the headroom is not known: a level that limits memory cannot be read; 412 GiB proven enough of 512 installed.",
    ),
    (
        |ram| {
            ram.unreclaimable_share = Some(0.85);
            ram.seconds_to_limit_by_half_hour_fit = Some(5400.0);
        },
        "act",
        "memory is full in 1 h 30 min at the slower pace of the last 10 and 30 minutes; 412 GiB proven enough of 512 installed; \
         96 GiB of headroom now.",
    ),
    (
        |_| {},
        "fine",
        "412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
    ),
    (
        |ram| ram.seconds_to_enough_samples = Some(47.2),
        "unknown",
        "to be judged in 48 s, after a minute of samples; 412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.unreclaimable_share = Some(0.97);
            ram.seconds_to_enough_samples = Some(47.2);
        },
        "act",
        "unreclaimable memory is 97 % of the limit; 412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
    ),
    (
        |ram| ram.proven_bytes = None,
        "fine",
        "96 GiB of headroom now of 512 installed; the least RAM is not measured: a search takes 4 h to a day on a dedicated host \
         (`faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml`).",
    ),
    (
        |ram| ram.is_finished_run = true,
        "fine",
        "412 GiB proven enough of 512 installed; at least 96 GiB of headroom.",
    ),
    (
        |ram| ram.was_oom_killed = true,
        "act",
        "a run was OOM-killed; 412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.limit = Some(400.9 * GIB);
            ram.proven_on = Some("4.0.1".to_owned());
        },
        "fine",
        "412 GiB proven enough (measured on 4.0.1), of only 400 allowed; 96 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.forecast = Some(LimitForecast {
                expected: 1_796_000_000.0,
                earliest: 1_795_800_000.0,
                latest: Some(1_796_500_000.0),
            })
        },
        "fine",
        "412 GiB proven enough of 512 installed; 96 GiB of headroom now; at this growth memory reaches the limit on \
         2026-11-30 (2026-11-27 to 2026-12-05).",
    ),
    (
        |ram| {
            ram.forecast = Some(LimitForecast {
                expected: 1_796_000_000.0,
                earliest: 1_795_800_000.0,
                latest: None,
            })
        },
        "fine",
        "412 GiB proven enough of 512 installed; 96 GiB of headroom now; at this growth memory reaches the limit on \
         2026-11-30 (2026-11-27 or later).",
    ),
    (
        |ram| {
            ram.swap = Some(1.5 * GIB);
            ram.memory_stalled_share = Some(0.12);
            ram.major_faults_per_second = Some(1240.0);
        },
        "look",
        "1.5 GiB are swapped out; tasks wait for memory 12 % of the time; 1,240 major faults per second; \
         412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.unreclaimable_share = Some(0.97);
            ram.headroom = Some(7.68 * GIB);
            ram.swap = Some(1.5 * GIB);
        },
        "act",
        "unreclaimable memory is 97 % of the limit; 412 GiB proven enough of 512 installed; 7.68 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.unreclaimable_share = Some(0.85);
            ram.seconds_to_limit_at_present_pace = Some(700.0);
        },
        "act",
        "memory is full in 11 min 40 s at its present pace; 412 GiB proven enough of 512 installed; \
         96 GiB of headroom now.",
    ),
    (
        |ram| {
            ram.proven_bytes = Some(0.5 * GIB);
            ram.headroom = Some(0.25 * GIB);
        },
        "fine",
        "512.0 MiB proven enough of 512 GiB installed; 256.0 MiB of headroom now.",
    ),
    (
        |ram| {
            ram.proven_bytes = None;
            ram.headroom = Some(0.25 * GIB);
        },
        "fine",
        "256.0 MiB of headroom now of 512 GiB installed; the least RAM is not measured: a search takes 4 h to a day on a \
         dedicated host (`faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml`).",
    ),
    (
        |ram| {
            ram.proven_bytes = Some(2.0 * GIB);
            ram.limit = Some(0.5 * GIB);
        },
        "fine",
        "2 GiB proven enough, of only 512.0 MiB allowed; 96 GiB of headroom now.",
    ),
    (
        |ram| ram.seconds_to_limit_at_present_pace = Some(700.0),
        "fine",
        "412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
    ),
    (
        |ram| {
            *ram = AnswerInputs {
                oom_kills: Some(1.0),
                proven_bytes: Some(0.5 * GIB),
                ..AnswerInputs::default()
            }
        },
        "act",
        "the kernel OOM-killed a process in the last 15 minutes; the headroom is not known: no memory \
         limit can be read; 512.0 MiB proven enough.",
    ),
    (
        |ram| {
            *ram = AnswerInputs {
                why_headroom_unknown: Some("no process is followed".to_owned()),
                ..AnswerInputs::default()
            }
        },
        "unknown",
        "the headroom is not known: no process is followed; the least RAM is not measured: a search takes 4 h to a day \
         on a dedicated host (`faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml`).",
    ),
];

static STOCK: States = &[
    (
        |cache| {
            (cache.reloads_per_slot, cache.prediction) = (Some(1.0), None);
            cache.prediction_problem =
                Some("the evidence has no prediction for 512 entries".to_owned());
        },
        "fine",
        "below the alert's 5 per slot, 1 reload and 8.3 ms per slot (62.9 % of replay); the evidence has no prediction for 512 entries.",
    ),
    (
        |cache| cache.reloads_per_slot = Some(0.0),
        "fine",
        "large enough, 0 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot.",
    ),
    (
        |cache| cache.reloads_per_slot = Some(0.3),
        "fine",
        "below the alert's 5 per slot, 0.3 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot.",
    ),
    (
        |cache| (cache.is_finished_run, cache.reloads_per_slot) = (true, Some(0.0)),
        "look",
        "below the alert's 5 per slot, 0 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot; 512 entries are a constant of this build.",
    ),
    (
        |cache| {
            cache.reloads_per_slot = Some(0.3);
            cache.seconds_to_enough_replay = Some(50.0);
        },
        "unknown",
        "to be judged in 50 s, after a minute of replayed slots; 0.3 reloads and 8.3 ms per slot (62.9 % of replay); \
         1,024 entries would save 7.9 ms per slot.",
    ),
    (
        |cache| cache.seconds_to_enough_replay = Some(50.0),
        "look",
        "too small, 24 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot; \
         512 entries are a constant of this build.",
    ),
    (
        |_| {},
        "look",
        "too small, 24 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot; \
         512 entries are a constant of this build.",
    ),
    (
        |cache| cache.prediction = None,
        "look",
        "too small, 24 reloads and 8.3 ms per slot (62.9 % of replay); what another size saves is not predicted: \
         a prediction needs the blocks of an hour, about 80 GB (`faultline cache fetch RUN.fltl --rpc URL`); \
         512 entries are a constant of this build.",
    ),
    (
        |cache| cache.can_change_capacity = None,
        "look",
        "too small, 24 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot.",
    ),
    (
        |cache| {
            cache.reloads_per_slot = None;
            cache.prediction = None;
        },
        "unknown",
        "the reloads are not known: no datapoints of replayed slots arrived.",
    ),
    (
        |cache| {
            cache.reloads_per_slot = None;
            cache.why_reloads_unknown = Some("no push for 2 min".to_owned());
        },
        "unknown",
        "the reloads are not known: no push for 2 min; 1,024 entries would save 7.9 ms per slot.",
    ),
];

static CHANGEABLE: States = &[
    (
        |_| {},
        "act",
        "too small, 24 reloads and 8.3 ms per slot (62.9 % of replay); 1,024 entries would save 7.9 ms per slot.",
    ),
    (
        |cache| {
            cache.reloads_per_slot = Some(1.0);
            cache.replay_seconds_per_slot = Some(0.004);
            cache.prediction = Some(CachePrediction {
                entries: 2048.0,
                saved_seconds: 0.0,
                measured_on: Some("4.0.1".to_owned()),
            });
        },
        "fine",
        "below the alert's 5 per slot, 1 reload and 8.3 ms per slot (summed over threads, more than replay's wall time); \
         no larger predicted size would save 1 % of replay (measured on 4.0.1).",
    ),
    (
        |cache| cache.cache_seconds_per_slot = None,
        "act",
        "too small, 24 reloads per slot; 1,024 entries would save 7.9 ms per slot.",
    ),
];

static TOWER: States = &[
    (
        |_| {},
        "fine",
        "rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| votes.seconds_to_enough_samples = Some(60.0),
        "unknown",
        "to be judged in 1 min, after a minute of samples; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| (votes.rank, votes.credits_share_of_best) = (None, None),
        "fine",
        "how it compares with the best is not known yet.",
    ),
    (
        |votes| {
            votes.leader_slots = Some(RecentLeaderSlots {
                passed: 40.0,
                skipped: 8.0,
                cluster_skipped_share: Some(0.03),
            })
        },
        "look",
        "skipped 8 of 40 leader slots in three hours; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| {
            votes.leader_slots = Some(RecentLeaderSlots {
                passed: 40.0,
                skipped: 8.0,
                cluster_skipped_share: Some(0.15),
            })
        },
        "fine",
        "rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| votes.is_delinquent = Some(true),
        "act",
        "delinquent: it earns nothing now; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| votes.slots_since_landed_vote = Some(45.0),
        "act",
        "its last vote that landed is 45 slots old; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| {
            votes.slots_since_landed_vote = Some(45.0);
            votes.is_at_tip = Some(false);
        },
        "fine",
        "rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| votes.identity_balance = Some(0.042),
        "act",
        "0.042 SOL are left for votes; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| (votes.is_delinquent, votes.is_catching_up) = (Some(true), Some(true)),
        "unknown",
        "it catches up after its start: votes are not judged; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| *votes = AnswerInputs::default(),
        "unknown",
        "it is not known whether it votes.",
    ),
    (
        |votes| {
            votes.is_delinquent = None;
            votes.why_voting_unknown = Some("it is far behind".to_owned());
        },
        "unknown",
        "it is far behind; rank 3, 99.2 % of the best validator's credits.",
    ),
    (
        |votes| {
            *votes = AnswerInputs {
                has_vote_account: Some(false),
                ..AnswerInputs::default()
            }
        },
        "unknown",
        "it has no vote account with stake, so it earns nothing by votes.",
    ),
];

static ALPENGLOW: States = &[
    (
        |votes| {
            votes.has_migrated_lately = true;
            votes.slots_since_certified_vote = Some(44.0);
        },
        "unknown",
        "it migrated minutes ago: votes are not judged yet; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |_| {},
        "fine",
        "99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.slots_since_landed_vote = Some(45.0),
        "fine",
        "99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.fewest_slots_since_certified_vote = Some(6.0),
        "look",
        "most of its votes come after their slots are final; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| {
            (
                votes.fewest_slots_since_certified_vote,
                votes.late_votes_share,
            ) = (Some(6.0), Some(0.1))
        },
        "fine",
        "99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.late_votes_share = Some(0.7),
        "look",
        "most of its votes come after their slots are final; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.slots_since_certified_vote = Some(44.0),
        "act",
        "no certificate of the last 44 slots has its vote; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.is_admitted = Some(false),
        "act",
        "not admitted to the epoch after next; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| (votes.admission_shortfall, votes.identity_balance) = (Some(0.127), Some(0.0)),
        "act",
        "0.13 SOL are missing for its admission; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.admission_shortfall = Some(0.000_4),
        "act",
        "<0.01 SOL are missing for its admission; 99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| (votes.is_admitted, votes.is_standby) = (Some(false), Some(true)),
        "fine",
        "99.7 % of the best validator's reward per stake.",
    ),
    (
        |votes| votes.consensus = Some(Consensus::Migrating),
        "unknown",
        "it migrates to Alpenglow: votes are not judged; 99.7 % of the best validator's reward per stake.",
    ),
];

#[test]
fn every_state_has_its_verdict_and_its_line() {
    check(0, ram, RAM);
    check(1, || cache(24.0, false), STOCK);
    check(1, || cache(24.0, true), CHANGEABLE);
    check(2, tower, TOWER);
    check(2, alpenglow, ALPENGLOW);
    let line = answers(&ram())[0].line();
    assert_eq!(
        line,
        "RAM: 412 GiB proven enough of 512 installed; 96 GiB of headroom now."
    );
}

#[test]
fn a_verdict_of_a_newer_release_is_unknown() {
    let json = r#"{"subject":"program_cache","verdict":"panic","text":"t."}"#;
    let answer: Answer = serde_json::from_str(json).unwrap();
    assert_eq!(answer.verdict, Verdict::Unknown);
    assert_eq!(answer.line(), "Program cache: t.");
}

/// Alert, severity, what is before the threshold in its rule.
static ALERTS: &[(&str, &str, &str, f64)] = &[
    ("OomAhead", "page", "ratio[4m]) > ", t::OOM_AHEAD_SHARE),
    (
        "OomAhead",
        "page",
        "ratio[4m]) > ",
        t::OOM_AHEAD_GROWING_SHARE,
    ),
    (
        "OomAhead",
        "page",
        "[4m:15s], ",
        t::OOM_AHEAD_PRESENT_PACE_SECONDS,
    ),
    (
        "OomAhead",
        "page",
        "[30m:15s], ",
        t::OOM_AHEAD_HALF_HOUR_PACE_SECONDS,
    ),
    ("OomHappened", "page", "[15m])) > ", 0.0),
    ("SwapInUse", "ticket", "[10m])) > ", t::SWAP_BYTES),
    (
        "MemoryPressure",
        "ticket",
        "[4m]) > ",
        t::MEMORY_STALLED_SHARE,
    ),
    (
        "MajorFaultStorm",
        "ticket",
        "[4m]) > ",
        t::MAJOR_FAULTS_PER_SECOND,
    ),
    ("CacheThrash", "ticket", "[4m]) > ", t::RELOADS_PER_SLOT),
    ("Delinquent", "page", "[5m:15s]) == ", 1.0),
    ("VotesNotLanding", "page", "[5m:15s]) > ", t::VOTE_DISTANCE),
    (
        "VotesLate",
        "ticket",
        ">= ",
        t::LATE_CERTIFIED_VOTE_DISTANCE,
    ),
    (
        "VotesLate",
        "ticket",
        "\n            > ",
        t::LATE_VOTES_SHARE,
    ),
    ("BalanceLow", "page", "[5m:15s]) < ", t::BALANCE_SOL),
    (
        "SkippedSlots",
        "ticket",
        "\n            > ",
        t::SKIPPED_SHARE,
    ),
    ("SkippedSlots", "ticket", "[3h])) > ", t::SKIPPED_SLOTS),
    (
        "SkippedSlots",
        "ticket",
        "\n            ",
        t::SKIPPED_TIMES_CLUSTER,
    ),
    ("NotAdmitted", "page", "[5m:15s]) == ", 0.0),
    ("NotAdmitted", "page", "shortfall_sol))[5m:15s]) > ", 0.0),
];

#[test]
fn thresholds_and_severities_are_those_of_the_alerts() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../grafana/prometheus/rules/faultline.alerts.yml"
    );
    let rules = std::fs::read_to_string(path).unwrap();
    for (alert, severity, comparison, threshold) in ALERTS {
        let comparison = format!("{comparison}{threshold}");
        let mut alerts = rules.split("      - alert: ").filter(|rule| {
            let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
            rule.starts_with(&format!("Agave{alert}\n"))
                && rule.contains(&format!("severity: {severity}\n"))
                && rule.split(&comparison).skip(1).any(is_whole)
        });
        assert!(alerts.next().is_some(), "{alert}: {severity}, {comparison}");
    }
}
