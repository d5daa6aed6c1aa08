//! Votes, leader slots and the balance for vote fees, in one line. The migration to Alpenglow
//! changes the units.

use super::words::count;
use faultline_agave::consensus::Protocol;
use faultline_agave::rpc::LAMPORTS_PER_SOL;
use faultline_catalog::metrics::{validator as v, votes as m};
use faultline_catalog::{Metric, Reading, Source, Tick};
use faultline_text::time;
use std::fmt::{self, Write};
use std::time::Duration;

pub(super) fn write(tick: &Tick, out: &mut String) -> fmt::Result {
    let known = |metric: &Metric, labels: &[&str]| tick.number_of(metric, labels);
    let (badge, words) = match known(&m::DELINQUENT, &[]) {
        Some(1.0) => ("<span class=\"badge bad\">delinquent</span>", voter(tick)),
        Some(_) if is_standby(tick) => ("<span class=\"badge\">standby</span>", voter(tick)),
        Some(_) => ("<span class=\"badge good\">votes</span>", voter(tick)),
        None if account(tick).is_some() => {
            let unknown = "It is far behind: whether it is delinquent is not known.".to_owned();
            ("", [vec![unknown], voter(tick)].concat())
        }
        // Without an account the source is up only if all accounts were read and none is the
        // node's.
        None if known(&m::EPOCH, &[]).is_some() && is_up(tick) => (
            "",
            vec!["It has no vote account with stake: it does not vote.".to_owned()],
        ),
        None if known(&m::EPOCH, &[]).is_some() => {
            ("", vec!["It is not known whether it votes.".to_owned()])
        }
        None => return Ok(()),
    };
    out.push_str("<section>\n<h2>Does it earn?</h2>\n<div class=\"card title\">");
    out.push_str(badge);
    for words in words {
        write!(out, "<span class=\"nowrap\">{words}</span> ")?;
    }
    out.push_str("</div>\n</section>\n");
    Ok(())
}

fn is_up(tick: &Tick) -> bool {
    tick.batches
        .iter()
        .any(|batch| batch.source == Source::Votes && batch.up)
}

fn account(tick: &Tick) -> Option<&Reading> {
    let mut all = tick.readings();
    all.find(|reading| std::ptr::eq(reading.metric, &m::VOTE_ACCOUNT))
}

/// It runs another identity than the vote account's node, whose votes are another validator's.
fn is_standby(tick: &Tick) -> bool {
    account(tick)
        .and_then(|account| account.labels.get(1))
        .is_some_and(|role| role.as_str() == "standby")
}

fn voter(tick: &Tick) -> Vec<String> {
    let known = |metric: &Metric, labels: &[&str]| tick.number_of(metric, labels);
    let next = known(&m::NEXT_LEADER_SLOT, &[]).map(|seconds| match seconds {
        0.0 => "leads now".to_owned(),
        _ => format!("leads in {}", time(Duration::from_secs(seconds as u64))),
    });
    let is_tower = known(&v::CONSENSUS, &[Protocol::Tower.name()]) == Some(1.0);
    let standby = is_standby(tick).then(|| "the vote account is another node's".to_owned());
    let slot_seconds = known(&v::SLOT_SECONDS, &[]).filter(|_| is_tower);
    let balance = known(&m::BALANCE, &["identity"])
        .filter(|_| standby.is_none())
        .map(|sol| match slot_seconds {
            Some(seconds) => {
                let days = count(m::days_of_votes(sol, seconds).floor());
                format!("{} SOL, votes for about {days} days", count(sol))
            }
            None => format!("{} SOL", count(sol)),
        });
    { [standby].into_iter().chain(earned(tick)) }
        .chain([skipped(tick), next, balance])
        .flatten()
        .collect()
}

/// Votes and their earnings: credits with Tower, lamports with Alpenglow.
fn earned(tick: &Tick) -> [Option<String>; 7] {
    let known = |metric: &Metric, labels: &[&str]| tick.number_of(metric, labels);
    let distance = known(&m::VOTE_DISTANCE, &["last_vote"]).map(|slots| {
        let word = if slots == 1.0 { "slot" } else { "slots" };
        format!("last vote {} {word} ago", count(slots))
    });
    let behind = |certificate| known(&m::CERTIFICATE_DISTANCE, &[certificate]).map(count);
    let certificates = { behind("reward").zip(behind("finalization")) }.map(|(reward, last)| {
        format!("certificates {reward} (reward) and {last} (finalization) slots behind")
    });
    let credits = known(&m::VOTE_CREDITS, &["this_epoch"])
        .map(|credits| format!("{} credits this epoch", count(credits)));
    let rank = known(&m::VOTE_RANK, &[]).zip(known(&m::VOTE_SHARE, &[]));
    let rank = rank.map(|(rank, share)| {
        let (rank, percent) = (count(rank), count(share * 100.0));
        format!("rank {rank}, {percent} % of the best")
    });
    let reward = known(&m::VOTE_REWARD, &["this_epoch"]).map(|lamports| {
        format!(
            "{} SOL earned this epoch",
            count(lamports / LAMPORTS_PER_SOL)
        )
    });
    let per_stake = known(&m::VOTE_REWARD_OF_BEST, &[])
        .map(|share| format!("{} % of the best per stake", count(share * 100.0)));
    let flag = |in_epoch| known(&m::ADMITTED, &[in_epoch]).map(|value| value == 1.0);
    let admission = m::admission(
        flag("this_epoch"),
        flag("epoch_after_next"),
        known(&m::ADMISSION_SHORTFALL, &[]),
    );
    [
        distance,
        certificates,
        credits,
        rank,
        reward,
        per_stake,
        admission,
    ]
}

fn skipped(tick: &Tick) -> Option<String> {
    let slots = |metric| {
        let passed = tick.number_of(metric, &["passed"]);
        let both = passed.zip(tick.number_of(metric, &["skipped"]));
        both.filter(|(passed, _)| *passed > 0.0)
    };
    let cluster = slots(&m::CLUSTER_LEADER_SLOTS).map(|(passed, skipped)| skipped / passed * 100.0);
    let cluster = cluster
        .map(|percent| format!(" (cluster {} %)", count(percent)))
        .unwrap_or_default();
    let (passed, skipped) = slots(&m::LEADER_SLOTS)?;
    let (passed, skipped) = (count(passed), count(skipped));
    Some(format!(
        "skipped {skipped} of {passed} leader slots{cluster}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_catalog::{Batch, Stamp, Value};
    use std::sync::Arc;

    fn page(readings: Vec<Reading>) -> String {
        page_of(true, readings)
    }

    fn page_of(up: bool, readings: Vec<Reading>) -> String {
        let batch = Batch {
            readings,
            up,
            ..Batch::empty(Source::Votes, Stamp::default())
        };
        let tick = Tick {
            number: 1,
            at: Stamp::default(),
            batches: vec![Arc::new(batch)],
        };
        let mut out = String::new();
        write(&tick, &mut out).unwrap();
        out
    }

    fn real(metric: &'static Metric, label: Option<&'static str>, value: f64) -> Reading {
        let labels = label.map(Into::into).into_iter().collect();
        Reading {
            metric,
            labels,
            tags: Box::default(),
            value: Value::Real(value),
        }
    }

    #[test]
    fn one_line_answers_whether_a_validator_earns() {
        let html = page(vec![
            real(&m::EPOCH, None, 700.0),
            real(&m::DELINQUENT, None, 0.0),
            real(&m::VOTE_DISTANCE, Some("last_vote"), 2.0),
            real(&m::VOTE_CREDITS, Some("this_epoch"), 3_456_789.0),
            real(&m::VOTE_RANK, None, 41.0),
            real(&m::VOTE_SHARE, None, 0.9972),
            real(&m::LEADER_SLOTS, Some("passed"), 20.0),
            real(&m::LEADER_SLOTS, Some("skipped"), 1.0),
            real(&m::CLUSTER_LEADER_SLOTS, Some("passed"), 1000.0),
            real(&m::CLUSTER_LEADER_SLOTS, Some("skipped"), 31.0),
            real(&m::NEXT_LEADER_SLOT, None, 754.0),
            real(&m::BALANCE, Some("identity"), 12.5),
            real(&v::CONSENSUS, Some("tower"), 1.0),
            real(&v::SLOT_SECONDS, None, 0.4),
        ]);
        for words in [
            "<span class=\"badge good\">votes</span>",
            "last vote 2 slots ago",
            "3,456,789 credits this epoch",
            "rank 41, 99.7 % of the best",
            "skipped 1 of 20 leader slots (cluster 3.1 %)",
            "leads in 12 min 34 s",
            "12.5 SOL, votes for about 11 days",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }

    #[test]
    fn with_alpenglow_rewards_take_the_place_of_credits_and_votes_cost_nothing() {
        let html = page(vec![
            real(&m::DELINQUENT, None, 0.0),
            real(&m::CERTIFICATE_DISTANCE, Some("reward"), 8.0),
            real(&m::CERTIFICATE_DISTANCE, Some("finalization"), 140.0),
            real(&m::VOTE_REWARD, Some("this_epoch"), 5_250_000_000.0),
            real(&m::VOTE_REWARD_OF_BEST, None, 0.9972),
            real(&m::ADMITTED, Some("this_epoch"), 1.0),
            real(&m::ADMITTED, Some("epoch_after_next"), 0.0),
            real(&m::ADMISSION_SHORTFALL, None, 0.127),
            real(&m::BALANCE, Some("identity"), 12.5),
            real(&v::CONSENSUS, Some("alpenglow"), 1.0),
        ]);
        for words in [
            "certificates 8 (reward) and 140 (finalization) slots behind",
            "5.25 SOL earned this epoch",
            "99.7 % of the best per stake",
            "not admitted to the epoch after next, 0.127 SOL missing for the admission ticket",
            ">12.5 SOL<",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        assert!(
            !html.contains("credits") && !html.contains("days"),
            "{html}"
        );
    }

    fn vote_account(role: &'static str) -> Reading {
        Reading {
            metric: &m::VOTE_ACCOUNT,
            labels: ["identity", role, "account"].map(Into::into).into(),
            tags: Box::default(),
            value: Value::Real(1.0),
        }
    }

    #[test]
    fn a_validator_that_is_far_behind_has_votes_that_are_not_judged() {
        let html = page(vec![
            real(&m::EPOCH, None, 700.0),
            vote_account("voting"),
            real(&m::VOTE_CREDITS, Some("this_epoch"), 12.0),
        ]);
        for words in [
            "It is far behind: whether it is delinquent is not known.",
            "12 credits this epoch",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }

    #[test]
    fn a_standby_is_named_and_has_no_days_of_votes() {
        let account = vote_account("standby");
        let with = |delinquent| {
            page(vec![
                account.clone(),
                real(&m::DELINQUENT, None, delinquent),
                real(&m::BALANCE, Some("identity"), 0.0),
            ])
        };
        let words = "<span class=\"nowrap\">the vote account is another node's</span> </div>";
        assert!(
            with(0.0).contains(&format!("<span class=\"badge\">standby</span>{words}")),
            "{}",
            with(0.0)
        );
        assert!(
            with(1.0).contains(&format!(
                "<span class=\"badge bad\">delinquent</span>{words}"
            )),
            "{}",
            with(1.0)
        );
    }

    #[test]
    fn a_delinquent_validator_has_a_badge_and_nothing_is_said_of_what_is_not_known() {
        let html = page(vec![
            real(&m::DELINQUENT, None, 1.0),
            real(&m::LEADER_SLOTS, Some("passed"), 0.0),
        ]);
        assert!(
            html.contains("<span class=\"badge bad\">delinquent</span></div>"),
            "{html}"
        );
        assert!(page(vec![real(&m::EPOCH, None, 3.0)]).contains("it does not vote"));
        let unknown = page_of(false, vec![real(&m::EPOCH, None, 3.0)]);
        assert!(
            unknown.contains("It is not known whether it votes.")
                && !unknown.contains("does not vote"),
            "{unknown}"
        );
        assert_eq!(page(Vec::new()), "");
    }
}
