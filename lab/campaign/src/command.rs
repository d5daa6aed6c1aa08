use crate::{
    args::{AddArgs, CampaignArgs, CampaignCommand, CheckArgs},
    changes, comparability,
    compare::{MetricTest, NoRatioReason, Release, ReleaseGroup},
    page, plan, programs,
    settings::{self, Campaign, Program},
    status,
    store::{FROM_COMMAND, find_version},
    tasks::{self, open_campaign},
    verdict::{SIGNIFICANCE_LEVEL, Verdict},
    verify, work,
};
use anyhow::{Context as _, Result, bail, ensure};
use faultline_common::{
    args::UsageError,
    clock,
    files::{AtPath, open_regular},
    output::{print, say},
};
use faultline_report::report::{RunMetric, releases};
use faultline_stats::{arms::welch_p, holm};
use faultline_text::{counted, lines, number, p_value, table};
use itertools::Itertools;
use std::path::Path;

/// Returns the exit code. `run` and `slurm` fail also if a version has no result.
pub fn run(args: &CampaignArgs) -> Result<u8> {
    match &args.command {
        CampaignCommand::Run(args) => {
            let campaign = Campaign::read(&args.dir)?;
            let (_lock, mut store) = tasks::open_to_advance(&campaign)?;
            work::run(&campaign, &mut store, args)?;
            work::say_done(&campaign, "every version");
        }
        CampaignCommand::Slurm(args) => tasks::slurm(args)?,
        CampaignCommand::Round(args) => return tasks::run_task(args),
        CampaignCommand::Plan { dir } => {
            let (campaign, store) = open_campaign(dir)?;
            print(&plan::overview(&campaign, &store)?)?;
        }
        CampaignCommand::Add(args) => add(args)?,
        CampaignCommand::Verify(args) => return verify::run(args),
        CampaignCommand::Status { dir, json } => {
            let (campaign, store) = open_campaign(dir)?;
            print(&status::status(&campaign, &store, *json)?)?;
        }
        CampaignCommand::Remove { dir, version } => remove(dir, version)?,
        CampaignCommand::Export { dir, out } => {
            let (campaign, store) = open_campaign(dir)?;
            let rows = status::export(&campaign, store, out)?;
            print(&format!(
                "{}: {}\n",
                out.display(),
                counted(rows as f64, "row")
            ))?;
        }
        CampaignCommand::Check(args) => return check(args),
    }
    Ok(0)
}

fn add(args: &AddArgs) -> Result<()> {
    let (campaign, store) = open_campaign(&args.dir)?;
    let version = settings::checked_version(args.version.clone()).map_err(UsageError)?;
    if args.path.is_none() && campaign.build.is_none() {
        bail!(UsageError(format!(
            "{version}: name its program with --path, or say in [get] of campaign.toml how versions are built"
        )));
    }
    let path = args.path.as_ref().map(std::path::absolute).transpose()?;
    if let Some(path) = &path {
        open_regular(path).at(path)?;
    }
    let program = Program {
        version,
        name: args.name.clone().unwrap_or_default(),
        path,
    };
    let mut forms = work::sync_listed_versions(&campaign, &store)?;
    forms.retain(|listed| listed.program.without_v() == program.without_v());
    if let Some(pair) = work::duplicate(&forms) {
        bail!(pair);
    }
    for listed in forms {
        let form = &listed.program.version;
        ensure!(
            !campaign.configures(form),
            "{form} is in campaign.toml already"
        );
        programs::check_unchanged(&campaign, &program, &listed)?;
        ensure!(
            listed.removed || listed.program == program,
            "{form} is on the list with another program, name or leading `v`: run `faultline campaign remove` first"
        );
    }
    store.add(&program, FROM_COMMAND, clock::unix_ns())?;
    say(&format!(
        "{} is on the list; `faultline campaign run` measures it",
        program.version
    ));
    Ok(())
}

fn remove(folder: &Path, version: &str) -> Result<()> {
    let (campaign, mut store) = open_campaign(folder)?;
    let versions = work::sync_listed_versions(&campaign, &store)?;
    if campaign.configures(version) {
        bail!("{version} is in campaign.toml: take it out there");
    }
    if find_version(&versions, version).is_none_or(|listed| listed.removed) {
        bail!("{version} is not on the list");
    }
    store.remove(version)?;
    page::rewrite_pages(&campaign, &mut store)?;
    say(&format!(
        "{version} is off the list and the pages; its recordings and results stay"
    ));
    Ok(())
}

struct MetricComparison {
    metric: &'static RunMetric,
    ratio: f64,
    /// Adjusted by Holm.
    p: Option<f64>,
    verdict: Verdict,
}

fn check(args: &CheckArgs) -> Result<u8> {
    if args.release.as_ref() == Some(&args.against) {
        bail!(UsageError(format!(
            "--against and --release both name {}: name two versions",
            args.against
        )));
    }
    let (mut campaign, store) = open_campaign(&args.dir)?;
    if let Some(percent) = args.margin {
        campaign.margin = percent / 100.0;
    }
    let listed = store.listed_versions()?;
    work::duplicate(&listed).iter().for_each(|pair| say(pair));
    let current = work::current_conditions(&campaign, &listed);
    let is_other = |group: &&ReleaseGroup| current.as_ref() != Some(&group.conditions);
    let groups = page::shown_groups(&campaign, &store)?;
    let newest = groups.iter().min_by_key(is_other);
    let group = newest.context("no release has a result yet")?;
    let mut versions = group.releases.iter().map(|release| &release.version);
    let newest = versions.rfind(|version| **version != args.against);
    let version = args.release.as_ref().or(newest);
    let version = version.context("no other release has a result")?;
    if let Some(listed) = find_version(&listed, version).filter(|listed| !listed.removed)
        && let Some(error) = &listed.error
    {
        bail!("{version} has no result that can be checked: {error}");
    }
    if is_other(&group) {
        say(
            "the current plan and baseline are not known to have results: `faultline campaign run` measures them; these are the newest of another plan or baseline",
        );
    }
    let release = find_release(group, version)?;
    let other = (args.against != group.conditions.baseline)
        .then(|| find_release(group, &args.against))
        .transpose()?;
    let comparisons = match other {
        None => compare_with_baseline(release),
        Some(other) => compare_with(release, other, campaign.margin),
    };
    let no_ratio_reasons = releases::metrics()
        .filter_map(|metric| Some((metric, release.no_ratio_reason(metric)?)))
        .collect_vec();
    let no_ratio_lines = no_ratio_reasons.iter().map(|(metric, reason)| {
        let reason = no_ratio_text(reason, version, &group.conditions.baseline);
        format!("not comparable: {}: {reason}\n", metric.title)
    });
    print(&format!(
        "{}{version} against {}: {}\n{}{}",
        metric_table(&comparisons),
        args.against,
        summary(&comparisons, campaign.margin),
        comparability_notes(release, other),
        no_ratio_lines.collect::<String>()
    ))?;
    if let Some(reason) = inconclusive_reason(release, &comparisons) {
        bail!("{version}: {reason}");
    }
    let is_worse = comparisons.iter().any(|one| one.verdict.is_worse())
        || no_ratio_reasons.iter().any(|(_, reason)| reason.is_worse());
    Ok(u8::from(is_worse))
}

fn no_ratio_text(reason: &NoRatioReason, version: &str, baseline: &str) -> String {
    match reason {
        NoRatioReason::Missing => format!("{version} has no value"),
        NoRatioReason::Zero { always_worse: true } => {
            format!("a run has 0, and {version} is worse than {baseline} in every pair")
        }
        NoRatioReason::Zero { .. } => "a run has 0".to_owned(),
    }
}

/// Lines on what is not compared by slot, and on releases of unknown consensus.
fn comparability_notes(release: &Release, other: Option<&Release>) -> String {
    let both = || std::iter::once(release).chain(other);
    let mut notes = both()
        .filter_map(changes::not_comparable_sentence)
        .collect_vec();
    if let (true, Some(other)) = (notes.is_empty(), other)
        && release.has_other_consensus(other)
    {
        let [own_cluster, other_cluster] = [release, other]
            .map(|release| comparability::cluster_text(&release.comparability.cluster));
        notes.push(format!(
            "{} is not comparable with {} by slot: {own_cluster} against {other_cluster}.",
            release.version, other.version
        ));
    }
    notes.extend(both().filter_map(|release| {
        let unknown = release.comparability.unknown_consensus.as_ref()?;
        Some(format!(
            "{} is compared all the same: {unknown}.",
            release.version
        ))
    }));
    lines(&notes)
}

fn metric_table(comparisons: &[MetricComparison]) -> String {
    let rows = comparisons.iter().map(|comparison| {
        let word = match comparison.verdict {
            Verdict::NothingShown => "-",
            other => other.name(),
        };
        let difference = match comparison.verdict {
            Verdict::NotComparable => "-".to_owned(),
            _ => format!("{:+.1} %", 100.0 * (comparison.ratio - 1.0)),
        };
        vec![
            comparison.metric.title.to_owned(),
            difference,
            comparison.p.map_or("-".to_owned(), p_value),
            word.to_owned(),
        ]
    });
    table(
        &["METRIC", "DIFFERENCE", "TEST (HOLM)", "VERDICT"],
        rows.collect(),
    )
}

fn summary(comparisons: &[MetricComparison], margin: f64) -> String {
    if is_nothing_tested(comparisons) {
        return "no metric could be tested".to_owned();
    }
    let count = |verdict: Verdict| {
        comparisons
            .iter()
            .filter(|comparison| comparison.verdict == verdict)
            .count()
    };
    let margin = number(100.0 * margin, 1);
    let worse = count(Verdict::Worse);
    let mut text = format!(
        "{} worse by more than {margin} %",
        counted(worse as f64, "metric")
    );
    match count(Verdict::WorseUntested) {
        0 => {}
        some => text += &format!(", and {some} in every pair, without a test"),
    }
    text
}

fn is_nothing_tested(comparisons: &[MetricComparison]) -> bool {
    comparisons
        .iter()
        .all(|comparison| comparison.p.is_none() && !comparison.verdict.is_worse())
}

fn inconclusive_reason(release: &Release, comparisons: &[MetricComparison]) -> Option<String> {
    let [own_runs, baseline_runs] = [false, true].map(|is_baseline| {
        let runs = release.runs.iter();
        runs.filter(|run| run.is_baseline == is_baseline && run.is_usable())
            .count()
    });
    let unconfirmed = comparisons
        .iter()
        .filter(|comparison| {
            matches!(
                comparison.verdict,
                Verdict::Unconfirmed | Verdict::OtherMachine
            ) && Verdict::direction(comparison.metric.better, comparison.ratio) == Verdict::Worse
        })
        .map(|comparison| comparison.metric.title)
        .join(", ");
    if own_runs < baseline_runs {
        return Some(format!(
            "{own_runs} of its runs ran as planned, and {baseline_runs} runs of the baseline"
        ));
    }
    if is_nothing_tested(comparisons) {
        return Some(
            "nothing could be tested: no comparable metric has enough pairs of runs whose ratios differ"
                .to_owned(),
        );
    }
    (!unconfirmed.is_empty()).then(|| {
        format!(
            "worse in one round of runs, and not confirmed: {unconfirmed}; if there is no second round, `campaign run` repeats what is beyond the margin of campaign.toml"
        )
    })
}

fn find_release<'g>(group: &'g ReleaseGroup, version: &str) -> Result<&'g Release> {
    group
        .releases
        .iter()
        .find(|release| release.version == version)
        .with_context(|| {
            format!(
                "{version} has no result against the baseline {} with the plan and machine of these results: see `faultline campaign status`",
                group.conditions.baseline
            )
        })
}

fn compare_with_baseline(release: &Release) -> Vec<MetricComparison> {
    release
        .tests
        .iter()
        .map(|test| MetricComparison {
            metric: test.metric,
            ratio: test.ratio_test.ratio.value,
            p: test.adjusted_p,
            verdict: test.verdict,
        })
        .collect()
}

/// Compares two releases by their ratios to the baseline, because their runs are no pairs.
fn compare_with(release: &Release, other: &Release, margin: f64) -> Vec<MetricComparison> {
    let pairs = release
        .tests
        .iter()
        .filter_map(|own| Some((own, other.test(own.metric)?)))
        .collect_vec();
    let is_comparable = |test: &MetricTest| release.is_comparable_with(other, test.metric);
    let p = pairs.iter().map(|(own, theirs)| {
        welch_p(&theirs.pair_ratios.logarithms, &own.pair_ratios.logarithms)
            .filter(|_| is_comparable(own))
    });
    let adjusted = holm::adjust(&p.collect_vec());
    pairs
        .into_iter()
        .zip(adjusted)
        .map(|((own, theirs), p)| {
            let ratio = own.ratio_test.ratio.value / theirs.ratio_test.ratio.value;
            let direction = Verdict::direction_beyond(own.metric.better, ratio, margin);
            let verdict = match p {
                _ if !is_comparable(own) => Verdict::NotComparable,
                Some(p) if p < SIGNIFICANCE_LEVEL => direction,
                Some(_) => Verdict::NothingShown,
                None if is_disjoint(
                    &own.pair_ratios.logarithms,
                    &theirs.pair_ratios.logarithms,
                ) =>
                {
                    direction.untested()
                }
                None => Verdict::Untested,
            };
            MetricComparison {
                metric: own.metric,
                ratio,
                p,
                verdict,
            }
        })
        .collect()
}

/// Two releases have no pairs to compare.
fn is_disjoint(a: &[f64], b: &[f64]) -> bool {
    let is_below = |a: &[f64], b: &[f64]| a.iter().all(|a| b.iter().all(|b| a < b));
    is_below(a, b) || is_below(b, a)
}

#[cfg(test)]
mod tests;
