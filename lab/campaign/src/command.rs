use crate::args::{
    AddArgs, Campaign as CampaignCommand, CampaignArgs, CheckArgs, RunArgs, VerifyArgs,
};
use crate::compare::{Group, Release, WithoutRatio};
use crate::mark::{ALPHA, Mark};
use crate::settings::{self, Campaign, Program};
use crate::store::{FROM_COMMAND, FROM_FILE, Store, find};
use crate::work;
use crate::{page, plan, programs, shown, verify};
use anyhow::{Context as _, bail};
use faultline_common::args::UsageError;
use faultline_common::clock;
use faultline_common::output::{print, say};
use faultline_experiments::lock::Lock;
use faultline_report::report::{Scalar, releases};
use faultline_stats::arms::welch_test;
use faultline_stats::holm;
use faultline_text::{number as grouped, p_value, table};
use itertools::Itertools;
use std::path::Path;

const LOCK: &str = "lock";

/// Returns the exit code. Fails also if the campaign was stopped or has versions without a result.
pub fn run(args: &CampaignArgs) -> anyhow::Result<u8> {
    match &args.what {
        CampaignCommand::Run(args) => run_all(args),
        CampaignCommand::Plan { folder } => {
            let (campaign, store) = open(folder)?;
            print(&plan::page(&campaign, &store)?).map(|()| 0)
        }
        CampaignCommand::Add(args) => add(args),
        CampaignCommand::Verify(args) => verify(args),
        CampaignCommand::Status { folder, json } => {
            let (campaign, store) = open(folder)?;
            print(&shown::status(&campaign, &store, *json)?).map(|()| 0)
        }
        CampaignCommand::Remove { folder, version } => remove(folder, version),
        CampaignCommand::Export { folder, out } => {
            let (campaign, store) = open(folder)?;
            let rows = shown::export(&campaign, &store, out)?;
            print(&format!("{}: {rows} rows\n", out.display())).map(|()| 0)
        }
        CampaignCommand::Check(args) => check(args),
    }
}

fn open(folder: &Path) -> anyhow::Result<(Campaign, Store)> {
    let campaign = Campaign::read(folder)?;
    let store = Store::open(&campaign.folder)?;
    Ok((campaign, store))
}

fn run_all(args: &RunArgs) -> anyhow::Result<u8> {
    let campaign = Campaign::read(&args.folder)?;
    let _lock = lock(&campaign)?;
    let mut store = Store::open(&campaign.folder)?;
    if let Err(why) = work::run(&campaign, &mut store, args)? {
        bail!(
            "the campaign has stopped: {why}; `faultline campaign run {}` continues",
            campaign.folder.display()
        );
    }
    say(&format!(
        "every version has its result: {}",
        campaign
            .folder
            .join(page::FOLDER)
            .join("index.html")
            .display()
    ));
    Ok(0)
}

fn add(args: &AddArgs) -> anyhow::Result<u8> {
    let (campaign, store) = open(&args.folder)?;
    let version = settings::version(args.version.clone()).map_err(UsageError)?;
    if version == campaign.baseline.version
        || campaign.programs.iter().any(|one| one.version == version)
    {
        bail!("{version} is in campaign.toml already");
    }
    if args.path.is_none() && campaign.get.is_none() {
        bail!(UsageError(format!(
            "{version}: say where it is with --path, or how versions are built in [get] of campaign.toml"
        )));
    }
    let path = args.path.as_ref().map(std::path::absolute).transpose()?;
    if let Some(path) = path.as_ref().filter(|path| !path.is_file()) {
        bail!("{}: no such file", path.display());
    }
    let program = Program {
        version,
        name: args.name.clone().unwrap_or_default(),
        path,
    };
    if let Some(same) = find(&store.listed()?, &program.version) {
        programs::check_unchanged(&campaign, &program, same)?;
    }
    store.add(&program, FROM_COMMAND, clock::unix_ns())?;
    say(&format!(
        "{} is on the list; `faultline campaign run` measures it",
        program.version
    ));
    Ok(0)
}

fn verify(args: &VerifyArgs) -> anyhow::Result<u8> {
    let (campaign, mut store) = open(&args.folder)?;
    let (compared, damaged) = verify::verify(&campaign, &store)?;
    let mut text = String::new();
    for one in &damaged {
        text += &format!("{}: {}\n", one.run.recording, one.why);
    }
    text += &format!(
        "{} of {compared} recordings are as they were measured\n",
        compared - damaged.len()
    );
    print(&text)?;
    if damaged.is_empty() {
        return Ok(0);
    }
    let folder = campaign.folder.display();
    if args.repeat {
        let _lock = lock(&campaign)?;
        verify::repeat(&campaign, &mut store, &damaged)?;
        page::rewrite_pages(&campaign, &mut store)?;
        say(&format!(
            "these runs and their pairs have no result any more: `faultline campaign run {folder}` repeats them"
        ));
    } else {
        say(&format!(
            "restore these files, or let `faultline campaign verify --repeat {folder}` drop their results"
        ));
    }
    Ok(1)
}

fn lock(campaign: &Campaign) -> anyhow::Result<Lock> {
    let is_running = |who| {
        format!(
            "{}: this campaign is being run already{who}",
            campaign.folder.display()
        )
    };
    Lock::take_or(&campaign.folder.join(LOCK), is_running)
}

fn remove(folder: &Path, version: &str) -> anyhow::Result<u8> {
    let (campaign, mut store) = open(folder)?;
    let listed = work::synchronized_list(&campaign, &store)?;
    let Some(one) = find(&listed, version).filter(|one| !one.removed) else {
        bail!("{version} is not on the list");
    };
    if work::is_baseline(&campaign, one) || one.source == FROM_FILE {
        bail!("{version} is in campaign.toml: take it out there");
    }
    store.remove(version)?;
    page::rewrite_pages(&campaign, &mut store)?;
    say(&format!(
        "{version} is off the list and the pages; its recordings and results stay"
    ));
    Ok(0)
}

struct MetricComparison {
    title: &'static str,
    ratio: f64,
    p: Option<f64>,
    mark: Mark,
    worse: bool,
}

fn check(args: &CheckArgs) -> anyhow::Result<u8> {
    let (mut campaign, store) = open(&args.folder)?;
    campaign.margin = args
        .margin
        .map_or(campaign.margin, |percent| percent / 100.0);
    let groups = page::groups(&campaign, &store)?;
    let group = groups.first().context("no release has a result yet")?;
    let release = match &args.release {
        Some(version) => find_release(group, version)?,
        None => group
            .releases
            .iter()
            .rev()
            .find(|one| one.version != args.against)
            .context("no other release has a result")?,
    };
    let listed = store.listed()?;
    let failed = find(&listed, &release.version);
    if let Some(why) = failed.and_then(|one| one.error.as_ref()) {
        bail!(
            "{} has no result that can be checked: {why}",
            release.version
        );
    }
    let checked = match args.against == group.conditions.baseline {
        true => against_baseline(release),
        false => against(
            release,
            find_release(group, &args.against)?,
            campaign.margin,
        ),
    };
    let without_ratio: Vec<(&Scalar, WithoutRatio)> = releases::metrics()
        .filter_map(|metric| Some((metric, WithoutRatio::of(metric, &release.runs)?)))
        .collect();
    let baseline = &group.conditions.baseline;
    let not_comparable = without_ratio.iter().map(|(metric, why)| {
        let why = match why {
            WithoutRatio::Missing => format!("{} has no value", release.version),
            WithoutRatio::Zero { worse: true } => {
                format!("a run has 0, and every pair is worse than with {baseline}")
            }
            WithoutRatio::Zero { worse: false } => "a run has 0".to_owned(),
        };
        format!("not comparable: {}: {why}\n", metric.title)
    });
    print(&format!(
        "{}{} against {}: {}\n{}",
        listing(&checked),
        release.version,
        args.against,
        summary(&checked, campaign.margin),
        not_comparable.collect::<String>()
    ))?;
    if let Some(why) = inconclusive_reason(release, &checked) {
        bail!("{}: {why}", release.version);
    }
    let is_worse = checked.iter().any(|one| one.mark.is_worse())
        || without_ratio.iter().any(|(_, why)| why.is_worse());
    Ok(u8::from(is_worse))
}

fn listing(checked: &[MetricComparison]) -> String {
    let rows = checked.iter().map(|one| {
        let word = match one.mark {
            Mark::Nothing => "-",
            other => other.verdict(),
        };
        vec![
            one.title.to_owned(),
            format!("{:+.1} %", 100.0 * (one.ratio - 1.0)),
            one.p.map_or("-".to_owned(), p_value),
            word.to_owned(),
        ]
    });
    table(
        &["METRIC", "DIFFERENCE", "TEST (HOLM)", "SHOWN"],
        rows.collect(),
    )
}

fn summary(checked: &[MetricComparison], margin: f64) -> String {
    let count = |mark: Mark| checked.iter().filter(|one| one.mark == mark).count();
    let margin = grouped(100.0 * margin, 1);
    let worse = count(Mark::Worse);
    let mut text = format!("{worse} metrics are worse by more than {margin} %");
    match count(Mark::WorseUntested) {
        0 => {}
        some => text += &format!(", and {some} in every pair, without a test"),
    }
    text
}

/// Why these results do not prove that a release is no worse.
fn inconclusive_reason(release: &Release, checked: &[MetricComparison]) -> Option<String> {
    let complete_runs = |of_baseline| {
        let own = release
            .runs
            .iter()
            .filter(|run| run.of_baseline == of_baseline);
        own.filter(|run| run.is_complete()).count()
    };
    let (own, baseline) = (complete_runs(false), complete_runs(true));
    let unrepeated = checked
        .iter()
        .filter(|one| one.mark == Mark::Unrepeated && one.worse)
        .map(|one| one.title)
        .join(", ");
    if own < baseline {
        return Some(format!(
            "{own} of its runs ran as planned, and {baseline} of the baseline's next to them"
        ));
    }
    let untested = |one: &MetricComparison| one.p.is_none() && !one.mark.is_worse();
    if checked.iter().all(untested) {
        return Some(
            "nothing could be tested: no metric has three pairs of runs with unlike values"
                .to_owned(),
        );
    }
    (!unrepeated.is_empty()).then(|| {
        format!("worse in one round of runs, and not repeated: {unrepeated}; `campaign run` repeats what is beyond the margin of campaign.toml")
    })
}

fn find_release<'g>(group: &'g Group, version: &str) -> anyhow::Result<&'g Release> {
    group
        .releases
        .iter()
        .find(|release| release.version == version)
        .with_context(|| format!("{version} has no result under the conditions of the newest one"))
}

fn against_baseline(release: &Release) -> Vec<MetricComparison> {
    let known = releases::metrics().zip(&release.judged);
    known
        .filter_map(|(metric, judged)| {
            let judged = judged.as_ref()?;
            let ratio = judged.test.ratio.value;
            let worse = Mark::of(metric.better, ratio) == Mark::Worse;
            Some(MetricComparison {
                title: metric.title,
                ratio,
                p: judged.holm,
                mark: judged.mark,
                worse,
            })
        })
        .collect()
}

/// Compares two releases by their ratios to the baseline, because they did not run next to each
/// other.
fn against(release: &Release, other: &Release, margin: f64) -> Vec<MetricComparison> {
    let both = releases::metrics().zip(release.judged.iter().zip(&other.judged));
    let known: Vec<_> = both
        .filter_map(|(metric, (own, other))| Some((metric, own.as_ref()?, other.as_ref()?)))
        .collect();
    let p = known
        .iter()
        .map(|(_, own, other)| welch_test(other.rounds.all(), own.rounds.all()).map(|test| test.p));
    let adjusted = holm::adjust(&p.collect::<Vec<_>>());
    let checked = known.into_iter().zip(adjusted);
    checked
        .map(|((metric, own, other), p)| {
            let ratio = own.test.ratio.value / other.test.ratio.value;
            let direction = Mark::beyond(metric.better, ratio, margin);
            let mark = match p {
                Some(p) if p < ALPHA => direction,
                Some(_) => Mark::Nothing,
                None if is_disjoint(own.rounds.all(), other.rounds.all()) => direction.untested(),
                None => Mark::Untested,
            };
            MetricComparison {
                title: metric.title,
                ratio,
                p,
                mark,
                worse: Mark::of(metric.better, ratio) == Mark::Worse,
            }
        })
        .collect()
}

fn is_disjoint(a: &[f64], b: &[f64]) -> bool {
    let low = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    low(a) > high(b) || low(b) > high(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{groups, tests::runs};
    use crate::store::RunRow;

    fn message(rows: &[RunRow]) -> Option<String> {
        let group = groups(rows, 0.05).remove(0);
        inconclusive_reason(&group.releases[0], &against_baseline(&group.releases[0]))
    }

    #[test]
    fn unmeasured_untested_or_unrepeated_metrics_do_not_pass() {
        let fine = runs("1.1.0", 1.0, 1);
        assert_eq!(message(&fine), None);
        let killed = |mut rows: Vec<RunRow>, both: bool| {
            for run in rows.iter_mut().filter(|run| both || !run.of_baseline) {
                (run.outcome, run.values) = ("oom".to_owned(), Vec::new());
            }
            message(&rows).unwrap()
        };
        assert!(killed(fine.clone(), false).contains("0 of its runs ran as planned, and 3"));
        assert!(killed(fine, true).contains("nothing could be tested"));
        let unrepeated = message(&runs("1.1.0", 1.08, 1)).unwrap();
        assert!(
            unrepeated.contains("not repeated: Replay time per slot, p95"),
            "{unrepeated}"
        );
        assert_eq!(message(&runs("1.1.0", 0.9, 1)), None);
        assert_eq!(
            message(&runs("1.1.0", 1.08, 2)),
            None,
            "that it is worse says the exit code"
        );
    }
}
