//! The facts of one vote account from a node, read without code of the daemon.

use faultline_testkit::{Result, expose::Page, rpc::Rpc};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Maximum age of the responses on a page: five rounds of a second, and their durations.
const OLDEST: Duration = Duration::from_secs(8);

/// Marks a time ahead that is compared as a number of slots.
const SLOTS: &[(&str, &str)] = &[("as", "slots")];

/// A metric, its labels, its value; `None` if it must be absent.
type Expected = (&'static str, Vec<(&'static str, &'static str)>, Option<f64>);

/// Reads continuously, and stores the readings of the last seconds.
pub struct Witness {
    rpc: Rpc,
    identity: String,
    vote: String,
    slots_in_epoch: f64,
    read: VecDeque<(Instant, Vec<Expected>)>,
}

impl Witness {
    pub fn new(rpc: Rpc, identity: &str, vote: &str, slots_in_epoch: f64) -> Self {
        let (identity, vote) = (identity.to_owned(), vote.to_owned());
        Self {
            rpc,
            identity,
            vote,
            slots_in_epoch,
            read: VecDeque::new(),
        }
    }

    /// The values on the page that differ from all readings of the last seconds. Also an error
    /// while there are too few readings.
    pub fn contradicts(&mut self, page: &Page) -> std::result::Result<(), String> {
        let now = Instant::now();
        self.read.push_back((
            now,
            read(&self.rpc, &self.identity, &self.vote).map_err(|error| error.to_string())?,
        ));
        while self.read.len() > 1 && self.read[1].0 + OLDEST <= now {
            self.read.pop_front();
        }
        if self.read[0].0 + OLDEST > now {
            return Err("the witness has not seen enough".to_owned());
        }
        let (_, newest) = &self.read[self.read.len() - 1];
        let wrong = newest
            .iter()
            .enumerate()
            .filter_map(|(at, (name, labels, _))| {
                let seen: Vec<Option<f64>> = self.read.iter().map(|(_, read)| read[at].2).collect();
                let exported = exported_value(page, name, labels, self.slots_in_epoch);
                let numbers = || seen.iter().copied().flatten();
                let range = (
                    numbers().fold(f64::INFINITY, f64::min),
                    numbers().fold(f64::NEG_INFINITY, f64::max),
                );
                let agrees = match exported {
                    Some(exported) => (range.0 - 1e-9..=range.1 + 1e-9).contains(&exported),
                    None => seen.contains(&None),
                };
                (!agrees).then(|| format!("{name} {labels:?}: {exported:?} and not {range:?}"))
            });
        let wrong: Vec<String> = wrong.collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(wrong.join("; "))
        }
    }
}

fn read(rpc: &Rpc, identity: &str, vote: &str) -> Result<Vec<Expected>> {
    let processed = json!({"commitment": "processed"});
    let all = rpc.call("getVoteAccounts", json!([processed]))?;
    let epoch = rpc.call("getEpochInfo", json!([processed]))?;
    let [current, delinquent] =
        ["current", "delinquent"].map(|list| all[list].as_array().expect("a list"));
    let accounts: Vec<&Value> = current.iter().chain(delinquent).collect();
    let is_own = |account: &&Value| account["votePubkey"] == vote;
    let own = accounts.iter().copied().find(is_own);
    let own = own.expect("the account is one of all");
    let now = number(&epoch["epoch"]);
    let progress = number(&epoch["slotIndex"]) / number(&epoch["slotsInEpoch"]);
    let delinquent = f64::from(u8::from(delinquent.iter().any(|account| is_own(&account))));
    let commission = number(&own["commission"]) / 100.0;
    let stake = number(&own["activatedStake"]) / 1e9;
    let mut read = vec![
        ("agave_epoch", vec![], Some(now)),
        ("agave_epoch_progress_ratio", vec![], Some(progress)),
        ("agave_delinquent", vec![], Some(delinquent)),
        ("agave_vote_commission_ratio", vec![], Some(commission)),
        ("agave_stake_sol", vec![("state", "active")], Some(stake)),
    ];
    read.extend(voted_slots(own, number(&epoch["absoluteSlot"])));
    read.extend(earned_credits(own, &accounts, now));
    for (name, account) in [("identity", identity), ("vote", vote)] {
        let balance = rpc.call("getBalance", json!([account, processed]))?;
        let sol = number(&balance["value"]) / 1e9;
        read.push(("agave_balance_sol", vec![("account", name)], Some(sol)));
    }
    read.extend(leads(rpc, identity, &epoch)?);
    Ok(read)
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn voted_slots(own: &Value, newest: f64) -> Vec<Expected> {
    let mut values = Vec::new();
    for (kind, key) in [("last_vote", "lastVote"), ("root", "rootSlot")] {
        let slot = Some(number(&own[key])).filter(|slot| *slot > 0.0);
        let distance = slot.map(|slot| (newest - slot).max(0.0));
        values.push(("agave_vote_slot", vec![("kind", kind)], slot));
        values.push(("agave_vote_distance_slots", vec![("kind", kind)], distance));
    }
    values
}

fn earned_credits(own: &Value, accounts: &[&Value], epoch: f64) -> Vec<Expected> {
    let of_all: Vec<f64> = accounts
        .iter()
        .filter_map(|account| credits(account, epoch))
        .collect();
    let best = of_all.iter().copied().fold(0.0, f64::max);
    let this = credits(own, epoch);
    let ranked = this.filter(|_| best > 0.0);
    let rank = ranked.map(|own| 1.0 + of_all.iter().filter(|other| **other > own).count() as f64);
    let share = ranked.map(|own| own / best);
    let previous = credits(own, epoch - 1.0);
    vec![
        ("agave_vote_credits", vec![("in", "this_epoch")], this),
        (
            "agave_vote_credits",
            vec![("in", "previous_epoch")],
            previous,
        ),
        ("agave_vote_credits_rank", vec![], rank),
        ("agave_vote_credits_of_best_ratio", vec![], share),
    ]
}

/// Stake that was delegated to the account, and stake that was deactivated, in the present epoch in
/// SOL. Read from the node's stake accounts.
pub fn moving_stake(rpc: &Rpc, vote: &str) -> Result<(f64, f64)> {
    const STAKE_PROGRAM: &str = "Stake11111111111111111111111111111111111111";
    let epoch =
        rpc.call("getEpochInfo", json!([{"commitment": "processed"}]))?["epoch"].to_string();
    let accounts = rpc.call(
        "getProgramAccounts",
        json!([STAKE_PROGRAM, {"commitment": "processed", "encoding": "jsonParsed"}]),
    )?;
    let mut moving = (0.0, 0.0);
    for account in accounts.as_array().expect("accounts") {
        let delegation = &account["account"]["data"]["parsed"]["info"]["stake"]["delegation"];
        let text = |key: &str| delegation[key].as_str().unwrap_or_default();
        let sol = text("stake").parse::<f64>().unwrap_or_default() / 1e9;
        match (
            text("voter") == vote,
            text("activationEpoch") == epoch,
            text("deactivationEpoch") == epoch,
        ) {
            (true, true, false) => moving.0 += sol,
            (true, false, true) => moving.1 += sol,
            _ => {}
        }
    }
    Ok(moving)
}

fn credits(account: &Value, epoch: f64) -> Option<f64> {
    let epochs = account["epochCredits"].as_array().expect("credits");
    let of = epochs.iter().find(|of| number(&of[0]) == epoch)?;
    Some(number(&of[1]) - number(&of[2]))
}

/// Leader slots. Times until future ones are slots.
fn leads(rpc: &Rpc, identity: &str, epoch: &Value) -> Result<Vec<Expected>> {
    let processed = json!({"commitment": "processed"});
    let blocks = rpc.call("getBlockProduction", json!([{"commitment": "confirmed"}]))?;
    let by_identity = blocks["value"]["byIdentity"]
        .as_object()
        .expect("producers")
        .clone();
    let of = |slots: &Value| {
        (
            slots[0].as_f64().expect("slots"),
            slots[1].as_f64().expect("blocks"),
        )
    };
    let own = by_identity.get(identity).map_or((0.0, 0.0), of);
    let all = by_identity
        .values()
        .map(of)
        .fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let slot = epoch["absoluteSlot"].as_u64().expect("a slot");
    let schedule = rpc.call("getLeaderSchedule", json!([slot, processed]))?;
    let index = epoch["slotIndex"].as_u64().expect("an index") as usize;
    let mut leads = vec![false; epoch["slotsInEpoch"].as_u64().expect("slots") as usize];
    for slot in schedule[identity].as_array().into_iter().flatten() {
        leads[slot.as_u64().expect("a slot") as usize] = true;
    }
    let ahead = &leads[index..];
    let next = ahead
        .iter()
        .position(|leads| *leads)
        .map(|slots| slots as f64);
    let runs = ahead.split(|leads| *leads).map(<[bool]>::len);
    let longest = runs
        .max()
        .filter(|slots| *slots > 0)
        .map(|slots| slots as f64);
    let slots = |state, count: f64| ("agave_leader_slots", vec![("state", state)], Some(count));
    let cluster = |state, count: f64| {
        (
            "agave_cluster_leader_slots",
            vec![("state", state)],
            Some(count),
        )
    };
    Ok(vec![
        slots(
            "assigned",
            leads.iter().filter(|leads| **leads).count() as f64,
        ),
        slots("passed", own.0),
        slots("skipped", own.0 - own.1),
        cluster("passed", all.0),
        cluster("skipped", all.0 - all.1),
        ("agave_next_leader_slot_seconds", SLOTS.to_vec(), next),
        ("agave_restart_window_seconds", SLOTS.to_vec(), longest),
    ])
}

/// The value on the page. For [`SLOTS`], its seconds are converted to slots by the page's time
/// until the end of the epoch.
fn exported_value(
    page: &Page,
    name: &str,
    labels: &[(&str, &str)],
    slots_in_epoch: f64,
) -> Option<f64> {
    if labels != SLOTS {
        return page.get(name, labels);
    }
    let left = slots_in_epoch * (1.0 - page.get("agave_epoch_progress_ratio", &[])?);
    let pace = page.get("agave_epoch_remaining_seconds", &[])? / left;
    Some((page.get(name, &[])? / pace).round())
}
