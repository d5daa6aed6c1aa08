use super::*;
use faultline_metrics::{
    Batch, Metric, Reading, Value,
    metrics::{daemon, host, memory, process as p, resources as r, validator as v, votes as m},
};
use std::{sync::Arc, time::Duration};

fn real(metric: &'static Metric, labels: &[&'static str], value: f64) -> Reading {
    let label_values = labels.iter().map(|label| (*label).into()).collect();
    Reading {
        metric,
        label_values,
        tags: Box::default(),
        value: Value::Real(value),
    }
}

fn tick(source: Source, up: bool, readings: Vec<Reading>) -> Tick {
    let batch = Batch {
        readings,
        up,
        ..Batch::empty(source, Stamp::default())
    };
    Tick {
        number: 1,
        at: Stamp::default(),
        batches: vec![Arc::new(batch)],
    }
}

fn texts(parts: &[StatusItem]) -> Vec<&str> {
    parts.iter().map(|part| part.text.as_str()).collect()
}

fn votes_of(readings: Vec<Reading>) -> Vec<StatusItem> {
    votes::votes(Readings {
        tick: &tick(Source::Votes, true, readings),
    })
}

fn capacity_of(readings: Vec<Reading>) -> Vec<StatusItem> {
    capacity::capacity(Readings {
        tick: &tick(Source::Resources, true, readings),
    })
}

#[test]
fn under_tower_votes_earn_credits_and_cost_lamports() {
    let parts = votes_of(vec![
        real(&m::EPOCH, &[], 700.0),
        real(&m::DELINQUENT, &[], 0.0),
        real(&m::VOTE_DISTANCE, &["last_vote"], 2.0),
        real(&m::VOTE_CREDITS, &["this_epoch"], 3_456_789.0),
        real(&m::VOTE_RANK, &[], 41.0),
        real(&m::VOTE_CREDITS_VS_BEST, &[], 0.9972),
        real(&m::LEADER_SLOTS, &["passed"], 20.0),
        real(&m::LEADER_SLOTS, &["skipped"], 1.0),
        real(&m::CLUSTER_LEADER_SLOTS, &["passed"], 1000.0),
        real(&m::CLUSTER_LEADER_SLOTS, &["skipped"], 31.0),
        real(&m::NEXT_LEADER_SLOT, &[], 754.0),
        real(&m::BALANCE, &["identity"], 12.5),
        real(&v::CONSENSUS, &["tower"], 1.0),
        real(&v::SLOT_SECONDS, &[], 0.4),
    ]);
    assert_eq!(
        texts(&parts),
        [
            "votes",
            "last vote 2 slots ago",
            "rank 41, 99.7 % of the best validator's credits",
            "3,456,789 credits this epoch",
            "skipped 1 of 20 leader slots (cluster 3.1 %)",
            "leads in 12 min 34 s",
            "12.5 SOL, votes for about 11 days",
        ]
    );
    assert_eq!((parts[0].tone, parts[1].tone), (Tone::Good, Tone::Plain));
}

#[test]
fn under_alpenglow_rewards_replace_credits_and_votes_cost_nothing() {
    let parts = votes_of(vec![
        real(&m::DELINQUENT, &[], 0.0),
        real(&m::CERTIFICATE_DISTANCE, &["reward"], 8.0),
        real(&m::CERTIFICATE_DISTANCE, &["finalization"], 140.0),
        real(&m::VOTE_REWARD, &["this_epoch"], 5_250_000_000.0),
        real(&m::VOTE_REWARD_VS_BEST, &[], 0.9972),
        real(&m::ADMITTED, &["this_epoch"], 1.0),
        real(&m::ADMITTED, &["epoch_after_next"], 0.0),
        real(&m::ADMISSION_SHORTFALL, &[], 0.127),
        real(&m::BALANCE, &["identity"], 12.5),
        real(&v::CONSENSUS, &["alpenglow"], 1.0),
        real(&v::SLOT_SECONDS, &[], 0.2),
    ]);
    assert_eq!(
        texts(&parts),
        [
            "votes",
            "reward certificate 8 slots behind",
            "finalization certificate 140 slots behind",
            "not admitted to the epoch after next",
            "0.13 SOL missing for the admission ticket",
            "5.250 SOL earned this epoch",
            "99.7 % of the best validator's reward per stake",
            "12.5 SOL",
        ]
    );
}

#[test]
fn the_admission_status_names_the_epoch_and_the_shortfall() {
    for (this_epoch, after_next, shortfall, expected) in [
        (Some(1.0), Some(1.0), Some(0.0), vec!["admitted"]),
        (
            Some(0.0),
            Some(0.0),
            Some(0.5),
            vec![
                "not admitted this epoch",
                "0.5 SOL missing for the admission ticket",
            ],
        ),
        (
            None,
            None,
            Some(0.1),
            vec!["0.1 SOL missing for the admission ticket"],
        ),
        (Some(1.0), None, None, vec![]),
    ] {
        let flags = [
            (&m::ADMITTED, vec!["this_epoch"], this_epoch),
            (&m::ADMITTED, vec!["epoch_after_next"], after_next),
            (&m::ADMISSION_SHORTFALL, vec![], shortfall),
            (&m::DELINQUENT, vec![], Some(0.0)),
        ];
        let readings = flags
            .into_iter()
            .filter_map(|(metric, labels, value)| Some(real(metric, &labels, value?)));
        let parts = votes_of(readings.collect());
        assert_eq!(texts(&parts)[1..], expected);
    }
}

fn vote_account(role: &'static str) -> Reading {
    real(&m::VOTE_ACCOUNT, &["identity", role, "account"], 1.0)
}

#[test]
fn unjudged_and_unknown_vote_states_are_stated() {
    let far = votes_of(vec![
        real(&m::EPOCH, &[], 700.0),
        vote_account("voting"),
        real(&m::VOTE_CREDITS, &["this_epoch"], 12.0),
    ]);
    assert_eq!(
        texts(&far),
        ["far behind: votes are not judged", "12 credits this epoch"]
    );
    let epoch = || vec![real(&m::EPOCH, &[], 3.0)];
    assert_eq!(
        texts(&votes_of(epoch())),
        ["it has no vote account with stake"]
    );
    let unknown = votes::votes(Readings {
        tick: &tick(Source::Votes, false, epoch()),
    });
    assert_eq!(texts(&unknown), ["it is not known whether it votes"]);
    assert_eq!(votes_of(Vec::new()), []);
    let delinquent = votes_of(vec![
        real(&m::DELINQUENT, &[], 1.0),
        real(&m::LEADER_SLOTS, &["passed"], 0.0),
    ]);
    assert_eq!(delinquent, [StatusItem::new("delinquent", Tone::Bad)]);
}

#[test]
fn a_standby_is_reported_without_days_of_vote_balance() {
    let with = |delinquent| {
        votes_of(vec![
            vote_account("standby"),
            real(&m::DELINQUENT, &[], delinquent),
            real(&m::BALANCE, &["identity"], 0.0),
        ])
    };
    let words = "the vote account is another node's";
    assert_eq!(texts(&with(0.0)), ["standby", words]);
    assert_eq!(texts(&with(1.0)), ["delinquent", words]);
}

fn node(avail: f64) -> Vec<Reading> {
    let gib = f64::from(1 << 30);
    vec![
        real(&r::FILESYSTEM_SIZE, &["/", "log"], 100.0 * gib),
        real(&r::FILESYSTEM_AVAIL, &["/", "log"], 80.0 * gib),
        real(&r::FILESYSTEM_SIZE, &["/mnt/<l>", "ledger"], 1000.0 * gib),
        real(&r::FILESYSTEM_AVAIL, &["/mnt/<l>", "ledger"], avail * gib),
        real(&r::FILESYSTEM_UNTIL_FULL, &["/mnt/<l>", "ledger"], 3e5),
        real(&r::DISK_UTILISATION, &["nvme0n1"], 0.12),
        real(&r::DISK_UTILISATION, &["nvme1n1"], 0.34),
        real(&r::UDP_DROPS, &[], 12.0),
        real(&p::OPEN_FDS, &[], 900.0),
        real(&p::MAX_FDS, &[], 1_000_000.0),
    ]
}

#[test]
fn the_capacity_status_names_the_tightest_resource_and_exhaustion_time() {
    assert_eq!(
        texts(&capacity_of(node(120.0))),
        [
            "ok",
            "/mnt/<l> has 120.0 GiB (12 %) left, full in 3 d 11 h",
            "nvme1n1 34 % busy",
            "12 UDP datagrams dropped",
            "900 of 1,000,000 files open",
        ]
    );
}

#[test]
fn urgent_capacity_states_are_highlighted_and_unknown_ones_omitted() {
    let first = |readings| capacity_of(readings).swap_remove(0);
    let with = |more| {
        let mut node = node(120.0);
        node.push(more);
        node
    };
    assert_eq!(first(node(40.0)), StatusItem::new("nearly full", Tone::Bad));
    let read_only = real(&r::FILESYSTEM_READ_ONLY, &["/", "log"], 1.0);
    assert_eq!(
        first(with(read_only)),
        StatusItem::new("read-only", Tone::Bad)
    );
    let soon = real(&r::FILESYSTEM_UNTIL_FULL, &["/", "log"], 14_000.0);
    assert_eq!(
        first(with(soon)),
        StatusItem::new("full within hours", Tone::Warn)
    );
    let answers = real(&r::FILESYSTEM_AGE, &["/mnt/<l>", "ledger"], 1.0);
    assert_eq!(first(with(answers)).text, "ok");
    let dead = real(&r::FILESYSTEM_AGE, &["/dead", "snapshots"], 60.0);
    assert_eq!(
        first(with(dead)),
        StatusItem::new("/dead does not answer", Tone::Bad)
    );
    assert_eq!(capacity_of(vec![real(&p::OPEN_FDS, &[], 9.0)]), []);
    let unknown = capacity_of(vec![real(&r::UDP_SOCKETS, &[], 12.0)]);
    assert_eq!(texts(&unknown), ["no file system known"]);
}

#[test]
fn restarts_are_summed_with_their_reasons() {
    let readings = vec![
        real(&p::RESTARTS, &["exit"], 1.0),
        real(&p::RESTARTS, &["oom_kill"], 2.0),
        real(&p::RESTARTS, &["unknown"], 0.0),
    ];
    let target = Target::of(
        Readings {
            tick: &tick(Source::Target, true, readings),
        },
        Stamp::default(),
    );
    assert_eq!(texts(&target.state), ["restarts 3 (exit 1, oom kill 2)"]);
}

#[test]
fn a_figure_sums_series_matching_its_labels_or_is_absent() {
    let readings = vec![
        real(&p::CPU, &["user"], 3.0),
        real(&p::CPU, &["system"], 4.0),
        real(&p::RESIDENT, &["file"], 5.0),
        real(&v::SLOTS_BEHIND, &[], f64::NAN),
    ];
    let now = Stamp {
        unix: Duration::from_secs(9),
        ..Stamp::default()
    };
    let status = Status::of(
        &tick(Source::Process, true, readings),
        now,
        None,
        Default::default(),
        &Default::default(),
    );
    let expected = BTreeMap::from([(Figure::Cpu, 7.0), (Figure::File, 5.0)]);
    assert_eq!((status.figures, status.time), (expected, 9.0));
}

#[test]
fn only_a_late_first_eviction_leaves_the_configured_capacity() {
    let of = |observed, target| {
        let readings = vec![
            real(&v::CACHE_LOADED, &[], 460.0),
            real(&v::CACHE_CAPACITY, &["configured"], 512.0),
            real(&v::CACHE_CAPACITY, &["observed"], observed),
            real(&v::CACHE_SHRINK_TARGET, &["configured"], 460.0),
            real(&v::CACHE_SHRINK_TARGET, &["observed"], target),
        ];
        let tick = tick(Source::Datapoints, true, readings);
        let readings = Readings { tick: &tick };
        let status = ProgramCacheStatus::of(readings, Stamp::default());
        let trends = AnswerInputs::default();
        let inputs = answer::inputs::add_tick(readings, None, Stamp::default(), trends);
        assert_eq!(inputs.cache_capacity, status.capacity);
        (
            status.summary().unwrap(),
            status.notes,
            inputs.can_change_capacity,
        )
    };
    // A first eviction of 512 entries.
    let (summary, notes, can_change) = of(568.0, 511.0);
    assert_eq!(summary, "460 of 512 entries, 89.8 %, evicts above 460");
    assert_eq!((notes, can_change), (vec![], Some(false)));
    // A build with a smaller cache.
    let (_, notes, can_change) = of(470.0, 423.0);
    assert!(notes[0].contains("470 entries"), "{notes:?}");
    assert_eq!(can_change, Some(true));
    let (summary, notes, can_change) = of(1024.0, 921.0);
    assert_eq!(summary, "460 of 1,024 entries, 44.9 %, evicts above 921");
    assert!(notes[0].contains("1,024 entries; by version or configuration it should be 512"));
    assert_eq!(can_change, Some(true));
}

#[test]
fn the_process_age_survives_a_clock_step() {
    let mut tick = tick(
        Source::Process,
        true,
        vec![
            real(&p::UP, &[], 1.0),
            real(&p::TARGET_INFO, &["/bin/agave-validator"], 1.0),
            real(&p::START_TIME, &[], 1_790_000_000.0),
            real(&daemon::CLOCK_STEPS, &[], 1.0),
        ],
    );
    tick.at.unix = Duration::from_secs(1_790_000_600);
    for unix in [1_780_000_000, 1_790_000_660, 1_800_000_000] {
        let now = Stamp {
            uptime: Duration::from_secs(60),
            unix: Duration::from_secs(unix),
        };
        let target = Target::of(Readings { tick: &tick }, now);
        assert_eq!(target.fact("Running for"), Some("11 min"), "{unix}");
    }
}

#[test]
fn without_a_push_of_the_followed_process_datapoints_have_no_newest_value() {
    let readings = vec![
        real(
            &daemon::SOURCE_LAST_SUCCESS,
            &["datapoints"],
            1_790_000_000.0,
        ),
        real(&daemon::SOURCE_LAST_SUCCESS, &["log"], 1_790_000_001.0),
    ];
    let newest = |source| {
        let tick = tick(source, false, readings.clone());
        sources(Readings { tick: &tick }, Stamp::default())[0].newest_values_at
    };
    assert_eq!(newest(Source::Datapoints), None, "of an earlier process");
    assert_eq!(newest(Source::Log), Some(1_790_000_001.0));
}

#[test]
fn a_cache_with_unknown_entries_does_not_report_zero_evictions() {
    let readings = vec![
        real(&v::CACHE_CAPACITY, &["configured"], 512.0),
        real(&v::CACHE_EVICTIONS, &[], 5.0),
    ];
    let tick = tick(Source::Datapoints, true, readings);
    let status = Status::of(
        &tick,
        Stamp::default(),
        None,
        Default::default(),
        &Default::default(),
    );
    assert_eq!(
        status.cache.summary().as_deref(),
        Some("capacity 512 entries; how many are in use is known after the next eviction")
    );
}

#[test]
fn status_parsing_ignores_unknown_fields_and_defaults_missing_ones() {
    let newer = serde_json::json!({
        "version": JSON_VERSION,
        "figures": { "slot": 7.0, "of_a_newer_release": 1.0 },
        "votes": [{ "text": "admitted", "tone": "of_a_newer_release" }],
        "last_minute": { "ages": [0.0], "values": { "slot": [null], "of_a_newer_release": [1.0] } },
        "of_a_newer_release": {},
    });
    let status: Status = serde_json::from_value(newer).unwrap();
    assert_eq!(status.figures, BTreeMap::from([(Figure::Slot, 7.0)]));
    assert_eq!(status.votes, [StatusItem::plain("admitted")]);
    assert!(status.thread_pools.is_empty());
    let values = BTreeMap::from([(Figure::Slot, vec![None])]);
    assert_eq!(status.last_minute.values, values);
}

fn lines(
    source: Source,
    readings: Vec<Reading>,
    trends: AnswerInputs,
    evidence: Option<RamEvidence>,
) -> Vec<String> {
    let now = Stamp {
        unix: Duration::from_secs(1_790_000_100),
        uptime: Duration::from_secs(100),
    };
    let tick = Tick {
        at: now,
        ..tick(source, true, readings)
    };
    let mut status_config = StatusConfig::default();
    status_config.evidence.ram = evidence;
    let status = Status::of(&tick, now, None, trends, &status_config);
    status.answers.iter().map(Answer::line).collect()
}

const RAM_PRICE: &str = "the least RAM is not measured: a search takes 4 h to a day on a dedicated host \
    (`faultline experiment plan /usr/share/doc/faultline/examples/least-ram.toml`).";

#[test]
fn a_tick_and_trends_make_three_answers() {
    let gib = f64::from(1 << 30);
    let readings = vec![
        real(&p::UP, &[], 1.0),
        real(&v::PHASE, &["absent"], 0.0),
        real(&v::PHASE, &["at_tip"], 1.0),
        real(&host::MEMORY, &["total"], 512.0 * gib),
        real(&memory::HEADROOM, &["0"], 96.0 * gib),
        real(&memory::LEVEL_LIMIT, &["0"], 480.0 * gib),
        real(&memory::LEVEL_UNRECLAIMABLE, &["0"], 384.0 * gib),
        real(&memory::BINDING, &["0"], 1.0),
        real(&v::CACHE_CAPACITY, &["configured"], 512.0),
        real(&m::DELINQUENT, &[], 0.0),
        real(&m::VOTE_RANK, &[], 3.0),
        real(&m::VOTE_DISTANCE, &["last_vote"], 40.0),
    ];
    let trends = AnswerInputs {
        reloads_per_slot: Some(7.0),
        ..AnswerInputs::default()
    };
    let evidence = RamEvidence {
        proven_bytes: 412 << 30,
        interval_bytes: [400 << 30, 412 << 30],
        release: Some("4.0.1".to_owned()),
        measured: "2026-01-31".to_owned(),
    };
    let lines = lines(Source::Process, readings, trends, Some(evidence));
    assert_eq!(
        lines,
        [
            "RAM: 412 GiB proven enough (measured on 4.0.1, 2026-01-31) of 480 allowed; 96 GiB of headroom now.",
            "Program cache: too small, 7 reloads per slot; what another size saves is not predicted: a prediction needs the blocks \
             of an hour, about 80 GB (`faultline cache fetch RUN.fltl --rpc URL`); 512 entries are a constant of this build.",
            "Earns: its last vote that landed is 40 slots old; rank 3.",
        ]
    );
}

#[test]
fn what_is_missing_is_said() {
    let of = |readings| lines(Source::Votes, readings, AnswerInputs::default(), None);
    let absent = of(vec![real(&p::UP, &[], 0.0)]);
    let reason = "no process is followed";
    assert_eq!(
        absent[0],
        format!("RAM: the headroom is not known: {reason}; {RAM_PRICE}")
    );
    assert_eq!(
        absent[1],
        format!("Program cache: the reloads are not known: {reason}.")
    );
    assert_eq!(absent[2], format!("Earns: {reason}."));
    let other = of(vec![real(&p::UP, &[], 1.0)]);
    assert_eq!(other[2], "Earns: the process is not a validator.");
    let silent = of(vec![
        real(&p::UP, &[], 1.0),
        real(&v::PHASE, &["absent"], 0.0),
        real(&m::EPOCH, &[], 700.0),
        real(&daemon::SELF_START_TIME, &[], 1_789_000_000.0),
    ]);
    assert_eq!(
        silent[1..],
        [
            "Program cache: the reloads are not known: no datapoints in the 1 min 40 s since the daemon started.",
            "Earns: it has no vote account with stake, so it earns nothing by votes.",
        ]
    );
    let restarted = of(vec![
        real(&p::UP, &[], 1.0),
        real(&v::PHASE, &["absent"], 0.0),
        real(&p::START_TIME, &[], 1_790_000_060.0),
    ]);
    let reason = "no datapoints in the 40 s since the validator started";
    assert!(restarted[1].contains(reason), "{}", restarted[1]);
}

#[test]
fn answers_of_a_newer_release_are_left_out() {
    let json = r#"{"answers":[{"subject":"disks","verdict":"fine","text":"x."},
        {"subject":"ram","verdict":"better","text":"y."}]}"#;
    let status: Status = serde_json::from_str(json).unwrap();
    let lines: Vec<String> = status.answers.iter().map(Answer::line).collect();
    assert_eq!(lines, ["RAM: y."]);
}
