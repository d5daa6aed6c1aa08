//! A real cluster of one validator migrates from Tower to Alpenglow. Slots take 0.1 s, and the
//! migration begins 32 slots after the gate's activation.
//!
//! Votes, credits and rewards are compared with an independent reading of JSON-RPC. Votor's
//! counters are compared with the sums of the pushed lines. Meanwhile the shipped rules run, with
//! all times divided by [`FASTER`].

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "an independent reader has its own clock"
)]

use super::{migration_alerts::pages, prometheus_restart::faster_rules};
use faultline_testkit::{
    Result,
    binaries::{NO_MIGRATION_MESSAGE, migrating_validator},
    cluster::metrics_config,
    daemon::Daemon,
    eventually::eventually_ok,
    expose::Page,
    ports::PortBlock,
    process::{Program, Running},
    prometheus::{Prometheus, PrometheusOptions},
    rpc::Rpc,
    sink::Sink,
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    fs,
    path::Path,
    time::{Duration, Instant},
};

const FASTER: u32 = 12;
const TIMEOUT: Duration = Duration::from_secs(300);
const SLOTS_PER_EPOCH: u64 = 768;
const MIGRATION_SLOT_OFFSET: u64 = 32;
const GATE: &str = "A1pengvuM6JEcyNuTnMqepBKhwHE3N6PmUrdATGawhJS";
/// The data of the gate's account while it is pending. When it is activated, the account has its
/// slot.
const PENDING_GATE: &str = "AAAAAAAAAAAA";
/// The epoch number of the entry between the credits of Tower and the rewards of Alpenglow.
const MARKER: u64 = u64::MAX;
/// A page may show responses of up to five rounds of a second.
const MAX_AGE: Duration = Duration::from_secs(8);

#[test]
#[ignore = "needs FAULTLINE_AGAVE_ALPENGLOW_BIN and four minutes"]
fn a_live_migration_matches_an_independent_reading_and_fires_no_page() -> Result<()> {
    let Some(program) = migrating_validator() else {
        eprintln!("{NO_MIGRATION_MESSAGE}");
        return Ok(());
    };
    let folder = tempfile::tempdir().expect("a folder");
    let sink = Sink::start()?;
    let ports = PortBlock::claim(18_000)?;
    let daemon = start_daemon(folder.path(), &sink)?;
    let _validator = start_validator(&program, folder.path(), &ports, &daemon)?;
    let prometheus = Prometheus::start(&PrometheusOptions {
        targets: vec![daemon.metrics().parse().expect("an address")],
        rule_files: faster_rules(folder.path(), FASTER),
        ..PrometheusOptions::default()
    })?;
    let rpc = Rpc::new(([127, 0, 0, 1], ports.port(10)).into());
    let mut reader = Reader::new(rpc);

    reader.wait_for(&daemon, "votes with Tower", |page, answer| {
        protocol(page) == Some("tower") && answer.root > Some(0.0)
    });
    reader.wait_for(
        &daemon,
        "both halves of the migration's epoch",
        |page, answer| {
            let halves = [answer.credits[0], answer.lamports[0]];
            protocol(page) == Some("alpenglow") && halves.iter().all(Option::is_some)
        },
    );
    let genesis = reader.rpc.call("getAgGenesisCert", json!([]))?;
    let slot = genesis["block"]["slot"].as_f64();
    assert_eq!(
        slot,
        Some((SLOTS_PER_EPOCH + MIGRATION_SLOT_OFFSET - 1) as f64)
    );
    assert_eq!(
        daemon.scrape()?.get("agave_alpenglow_genesis_slot", &[]),
        slot
    );
    reader.wait_for(
        &daemon,
        "rewards of the epoch after the migration",
        |_, answer| answer.credits[0].is_none() && answer.lamports.iter().all(Option::is_some),
    );
    counters_match_the_pushed_lines(&daemon, &sink);
    assert_eq!(pages(&prometheus)?, [""; 0]);
    Ok(())
}

fn start_daemon(folder: &Path, sink: &Sink) -> Result<Daemon> {
    let (config, upstream) = (folder.join("c.toml"), folder.join("upstream"));
    fs::write(&upstream, metrics_config(&sink.url())).expect("an upstream");
    let text = format!(
        "[validator]\ninterval = \"1s\"\n[threads]\nenabled = false\n[forward]\nmetrics_config_file = {upstream:?}\n"
    );
    fs::write(&config, text).expect("a configuration");
    let (config, ledger) = (config.display().to_string(), folder.join("ledger"));
    let ledger = ledger.display().to_string();
    let arguments = ["--config", &config, "--ledger", &ledger];
    Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &arguments, folder)
}

/// Starts a validator whose Alpenglow gate is pending. The gate is activated with the second epoch.
fn start_validator(
    program: &Path,
    folder: &Path,
    ports: &PortBlock,
    daemon: &Daemon,
) -> Result<Running> {
    let gate = folder.join("gate.json");
    let account = json!({"pubkey": GATE, "account": {
        "lamports": 1_000_000_000, "data": [PENDING_GATE, "base64"], "space": 9, "rentEpoch": 0,
        "owner": "Feature111111111111111111111111111111111111", "executable": false,
    }});
    fs::write(&gate, account.to_string()).expect("an account");
    let number = |place: u16| ports.port(place).to_string();
    let range = format!("{}-{}", ports.port(20), ports.port(60));
    let (ledger, slots) = (
        folder.join("ledger").display().to_string(),
        SLOTS_PER_EPOCH.to_string(),
    );
    let (gate, [gossip, rpc, faucet]) = (gate.display().to_string(), [1, 10, 12].map(number));
    let arguments = [
        ["--ledger", &ledger],
        ["--bind-address", "127.0.0.1"],
        ["--gossip-port", &gossip],
        ["--rpc-port", &rpc],
        ["--faucet-port", &faucet],
        ["--dynamic-port-range", &range],
        ["--slots-per-epoch", &slots],
        ["--ticks-per-slot", "16"],
        ["--deactivate-feature", GATE],
        ["--account", GATE],
    ];
    // The validator writes details of purged banks into its working folder.
    let (chdir, program) = (
        format!("--chdir={}", folder.display()),
        program.display().to_string(),
    );
    let mut command = vec![chdir, program];
    command.extend(arguments.concat().iter().map(ToString::to_string));
    command.extend([gate, "--quiet".to_owned()]);
    let environment = [
        ("AGAVE_NO_ENFORCE_NOFILE", "1".to_owned()),
        (
            "AGAVE_MIGRATION_SLOT_OFFSET",
            MIGRATION_SLOT_OFFSET.to_string(),
        ),
        ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
        (
            "SOLANA_METRICS_CONFIG",
            metrics_config(&daemon.ingest_url()),
        ),
    ];
    Running::start(&Program {
        path: "/usr/bin/env".into(),
        arguments: command,
        environment: environment
            .map(|(name, value)| (name.to_owned(), Some(value)))
            .into(),
        output: folder.join("validator.log"),
    })
}

fn protocol(page: &Page) -> Option<&'static str> {
    let is_on = |name: &&str| page.get("agave_consensus", &[("protocol", name)]) == Some(1.0);
    ["tower", "migrating", "alpenglow"].into_iter().find(is_on)
}

/// The only account in a response to `getVoteAccounts`. Pairs are of this epoch and of the previous
/// one.
#[derive(Debug, Clone)]
struct Answer {
    at: Instant,
    last_vote: Option<f64>,
    root: Option<f64>,
    credits: [Option<f64>; 2],
    lamports: [Option<f64>; 2],
}

struct Reader {
    rpc: Rpc,
    answers: VecDeque<Answer>,
}

impl Reader {
    fn new(rpc: Rpc) -> Self {
        let answers = VecDeque::new();
        Self { rpc, answers }
    }

    /// Waits for a page and a response for which `fits` is true, and whose numbers are equal.
    fn wait_for(&mut self, daemon: &Daemon, what: &str, fits: impl Fn(&Page, &Answer) -> bool) {
        eventually_ok(TIMEOUT, what, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            let answer = self.read().map_err(|error| error.to_string())?;
            if !fits(&page, &answer) {
                return Err(format!("{:?} {answer:?}", protocol(&page)));
            }
            self.contradiction(&page)
        });
    }

    fn read(&mut self) -> Result<Answer> {
        let processed = json!([{"commitment": "processed"}]);
        let accounts = self.rpc.call("getVoteAccounts", processed.clone())?;
        let epoch = self.rpc.call("getEpochInfo", processed)?["epoch"].as_u64();
        let own = &accounts["current"][0];
        let entries: Vec<[u64; 3]> = own["epochCredits"]
            .as_array()
            .map(|entries| {
                entries
                    .iter()
                    .map(|entry| [0, 1, 2].map(|at| whole(&entry[at])))
                    .collect()
            })
            .unwrap_or_default();
        let marker = entries.iter().position(|entry| entry[0] == MARKER);
        let (tower, alpenglow) = entries.split_at(marker.unwrap_or(entries.len()));
        let earned = |entries: &[[u64; 3]]| {
            [epoch, epoch.and_then(|epoch| epoch.checked_sub(1))].map(|epoch| {
                let entry = entries.iter().find(|entry| Some(entry[0]) == epoch)?;
                Some((entry[1] - entry[2]) as f64)
            })
        };
        let answer = Answer {
            at: Instant::now(),
            last_vote: own["lastVote"].as_f64(),
            root: own["rootSlot"].as_f64(),
            credits: earned(tower),
            lamports: earned(alpenglow),
        };
        self.answers.push_back(answer.clone());
        while self.answers[0].at + MAX_AGE < answer.at {
            self.answers.pop_front();
        }
        Ok(answer)
    }

    /// Compares the page with all recent responses, because it may show any of them.
    fn contradiction(&self, page: &Page) -> std::result::Result<(), String> {
        self.compare(page, "agave_vote_slot", ("kind", "last_vote"), |answer| {
            answer.last_vote
        })?;
        for (at, epoch) in ["this_epoch", "previous_epoch"].into_iter().enumerate() {
            let label = ("in", epoch);
            self.compare(page, "agave_vote_credits", label, |answer| {
                answer.credits[at]
            })?;
            self.compare(page, "agave_vote_reward_lamports", label, |answer| {
                answer.lamports[at]
            })?;
        }
        Ok(())
    }

    fn compare(
        &self,
        page: &Page,
        metric: &str,
        label: (&str, &str),
        value: impl Fn(&Answer) -> Option<f64>,
    ) -> std::result::Result<(), String> {
        let found = page.get(metric, &[label]);
        let recent: Vec<Option<f64>> = self.answers.iter().map(value).collect();
        let numbers = || recent.iter().flatten().copied();
        let (least, most) = (numbers().reduce(f64::min), numbers().reduce(f64::max));
        let agrees = if found.is_some() {
            least <= found && found <= most
        } else {
            recent.contains(&None)
        };
        if agrees {
            Ok(())
        } else {
            Err(format!("{metric} {label:?} is {found:?}, not {recent:?}"))
        }
    }
}

fn whole(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

struct Counter {
    metric: &'static str,
    labels: &'static [(&'static str, &'static str)],
    point: &'static str,
    /// Text that selects the lines.
    selector: &'static str,
    /// The field that is summed; `None` counts lines.
    field: Option<&'static str>,
}

const COUNTERS: [Counter; 6] = [
    Counter {
        metric: "agave_votes_sent_total",
        labels: &[("kind", "notarize")],
        point: "event_handler_sent_vote_count",
        selector: "vote=\"Notarize\"",
        field: Some("count"),
    },
    Counter {
        metric: "agave_votes_sent_total",
        labels: &[("kind", "skip")],
        point: "event_handler_sent_vote_count",
        selector: "vote=\"Skip\"",
        field: Some("count"),
    },
    Counter {
        metric: "agave_certificates_total",
        labels: &[("kind", "finalize_fast"), ("from", "built")],
        point: "consensus_pool_generated_certs",
        selector: "",
        field: Some("finalize_fast"),
    },
    Counter {
        metric: "agave_consensus_votes_received_total",
        labels: &[("kind", "notarize")],
        point: "consensus_pool_ingested_votes",
        selector: "",
        field: Some("notarize"),
    },
    Counter {
        metric: "agave_votor_events_total",
        labels: &[("event", "finalized")],
        point: "event_handler_received_event_count_and_timing",
        selector: "event=\"Finalized\"",
        field: Some("count"),
    },
    Counter {
        metric: "agave_finalization_seconds_count",
        labels: &[("path", "fast")],
        point: "event_handler_slot_tracking",
        selector: "finalized=",
        field: None,
    },
];

/// Reads the page first, so that the forwarded lines include all lines that the page counts.
fn counters_match_the_pushed_lines(daemon: &Daemon, sink: &Sink) {
    for counter in &COUNTERS {
        eventually_ok(TIMEOUT, counter.metric, || {
            let page = daemon.scrape().map_err(|error| error.to_string())?;
            let (found, sums) = (page.get(counter.metric, counter.labels), counter.sums(sink));
            if found.is_some_and(|found| found > 0.0 && sums.contains(&found)) {
                Ok(())
            } else {
                Err(format!("{found:?}, the lines have {:?}", sums.last()))
            }
        });
    }
}

impl Counter {
    /// Sums of the first line, of the first two lines, and so on.
    fn sums(&self, sink: &Sink) -> Vec<f64> {
        let mut sum = 0.0;
        let mut sums = Vec::new();
        for body in sink.bodies() {
            let text = String::from_utf8_lossy(&body).into_owned();
            let is_counted =
                |line: &&str| is_point(line, self.point) && line.contains(self.selector);
            for line in text.lines().filter(is_counted) {
                sum += self.field.map_or(1.0, |field| value_of(line, field));
                sums.push(sum);
            }
        }
        sums
    }
}

fn is_point(line: &str, point: &str) -> bool {
    let rest = line.strip_prefix(point);
    rest.is_some_and(|rest| rest.starts_with([',', ' ']))
}

fn value_of(line: &str, field: &str) -> f64 {
    let fields = line
        .split([' ', ','])
        .filter_map(|pair| pair.split_once('='));
    let value = fields
        .filter(|(name, _)| *name == field)
        .map(|(_, value)| value);
    let mut numbers = value.map(|value| value.trim_end_matches(['i', 'u']).parse::<f64>());
    numbers
        .next()
        .and_then(std::result::Result::ok)
        .unwrap_or(0.0)
}
