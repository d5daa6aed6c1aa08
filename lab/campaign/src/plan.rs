//! `campaign plan`: which versions run, how long, and the smallest change that the runs can detect.

use crate::{
    power::{self, POWER, Rule},
    round::{self, CampaignExperiment},
    settings::Campaign,
    store::Store,
    work,
};
use anyhow::Result;
use faultline_experiments::{plan_command::estimate, schedule::schedule};
use faultline_report::report::releases;
use faultline_text::{counted, number, table, time};
use std::time::Duration;

/// Noise of a run as a fraction, for the table if nothing was measured.
const ASSUMED_NOISE: [f64; 3] = [0.01, 0.02, 0.05];

pub fn page(campaign: &Campaign, store: &Store) -> Result<String> {
    let experiments = round::example(campaign)?;
    let runs = store.runs()?;
    let rule = Rule {
        pairs: pairs(&experiments),
        metrics: metrics(&experiments),
        margin: campaign.margin,
    };
    let mut page = versions(campaign, store)?;
    page += &format!(
        "each: a round of {} of runs, {}; a second round where the first shows a difference\n\n",
        counted(rule.pairs as f64, "pair"),
        duration_text(&experiments)
    );
    page += &format!(
        "A change that marks show in {} of 100 releases (margin {} %, Holm over {} metrics):\n",
        number(100.0 * POWER, 0),
        number(100.0 * rule.margin, 1),
        rule.metrics
    );
    page += &changes(rule, &power::measured_noise(&runs));
    Ok(page)
}

fn versions(campaign: &Campaign, store: &Store) -> Result<String> {
    let listed = work::synchronized_list(campaign, store)?;
    let under_test = listed
        .iter()
        .filter(|one| !one.removed && !work::is_baseline(campaign, one));
    let mut waiting = Vec::new();
    for one in under_test {
        if one.error.is_some() || work::pending_round(campaign, store, one, &listed)?.is_some() {
            waiting.push(one.program.version.as_str());
        }
    }
    let waiting = match waiting.as_slice() {
        [] => "none".to_owned(),
        some => some.join(", "),
    };
    Ok(format!(
        "{}: against {}; still to run: {waiting}\n",
        campaign.name, campaign.baseline.version
    ))
}

fn pairs(experiments: &[CampaignExperiment]) -> usize {
    match experiments {
        [one] if one.searches.is_none() => one.plan.replicates as usize,
        searches => searches.len() / 2,
    }
}

fn metrics(experiments: &[CampaignExperiment]) -> usize {
    let searches = experiments
        .iter()
        .any(|experiment| experiment.searches.is_some());
    releases::metrics()
        .filter(|metric| (metric.id == releases::LEAST_RAM) == searches)
        .count()
}

fn duration_text(experiments: &[CampaignExperiment]) -> String {
    let estimates = experiments
        .iter()
        .map(|experiment| estimate(&experiment.plan, schedule(&experiment.plan).len()));
    let (mut shortest, mut longest) = (0, Some(0));
    for one in estimates {
        shortest += one.shortest_seconds;
        longest = longest.zip(one.longest_seconds).map(|(sum, own)| sum + own);
    }
    let shown = |seconds| time(Duration::from_secs(seconds));
    match longest {
        Some(longest) => format!("{} to {}", shown(shortest), shown(longest)),
        None => format!("{} or longer", shown(shortest)),
    }
}

fn changes(rule: Rule, measured_noise: &[(&str, f64)]) -> String {
    let twice = Rule {
        pairs: 2 * rule.pairs,
        ..rule
    };
    let row = |name: String, noise: f64| {
        let [now, more] = [rule, twice].map(|rule| match rule.detectable(noise) {
            Some(change) => format!("{} %", number(100.0 * change, 1)),
            None => "above 100 %".to_owned(),
        });
        vec![name, format!("{} %", number(100.0 * noise, 2)), now, more]
    };
    let rows: Vec<_> = if measured_noise.is_empty() {
        let assumed = ASSUMED_NOISE.map(|noise| row("not measured yet, if".to_owned(), noise));
        assumed.into_iter().collect()
    } else {
        let known = measured_noise.iter();
        known
            .map(|(title, noise)| row((*title).to_owned(), *noise))
            .collect()
    };
    let [now, more] = [rule, twice].map(|rule| format!("WITH {} PAIRS", rule.pairs));
    table(&["METRIC", "NOISE OF A RUN", &now, &more], rows)
}
