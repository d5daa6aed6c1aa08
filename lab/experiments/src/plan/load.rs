mod arms;
mod search;
mod whole;
mod workload;

use super::{
    Begin, Concurrent, CountedFrom, HostRules, Kind, Order, PageCache, Plan, Recorder, ReportRules,
    Rule, Severity, Stop, Workload,
};
use faultline_report::report::{SCALARS, scalar};
use faultline_runner::isolation::CpuSet;
use faultline_settings::{ConfigError, Table, choice, flag, number, size, text, time, within};
use itertools::Itertools;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;

const MAX_PLAN_BYTES: u64 = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

pub fn load(file: &Path) -> Result<Plan, Vec<ConfigError>> {
    let file_error = |what: String| {
        vec![ConfigError {
            file: Some(file.to_owned()),
            ..ConfigError::new(what)
        }]
    };
    let absolute = std::path::absolute(file).map_err(|error| file_error(error.to_string()))?;
    match std::fs::metadata(file) {
        Ok(meta) if !meta.is_file() => {
            return Err(file_error(
                "is no file: name the plan's own file".to_owned(),
            ));
        }
        Ok(meta) if meta.len() > MAX_PLAN_BYTES => {
            return Err(file_error(
                "is larger than 1 MiB, so it is no plan".to_owned(),
            ));
        }
        _ => {}
    }
    let text = std::fs::read_to_string(file).map_err(|error| file_error(error.to_string()))?;
    parse(&text, &absolute)
}

/// Relative paths are relative to the folder of `file`, which is absolute and may not exist.
/// Returns all mistakes.
pub fn parse(text: &str, file: &Path) -> Result<Plan, Vec<ConfigError>> {
    let plan_folder = PlanFolder(file.parent().unwrap_or(Path::new("/")).to_owned());
    let (plan, mistakes) = faultline_settings::read(text, Some(file), |mut top| {
        let (plan, source_lines) = sections(&mut top, &plan_folder);
        let errors = top.errors();
        top.finish();
        let plan = Plan {
            file: file.to_owned(),
            text: text.to_owned(),
            ..plan
        };
        // Consequences of mistakes are not reported.
        if errors.is_empty() {
            whole::check(&plan, &source_lines, errors);
            search::check(&plan, source_lines.search, errors);
        }
        plan
    });
    plan.filter(|_| mistakes.is_empty()).ok_or(mistakes)
}

struct PlanFolder(PathBuf);

impl PlanFolder {
    /// Absolute, without `.`; `..` is resolved lexically.
    fn path(&self, value: &DeValue<'_>) -> Result<PathBuf, String> {
        text(value).map(|text| self.join(&text))
    }

    /// Without a slash, a name for `PATH`.
    fn program(&self, text: &str) -> PathBuf {
        if text.contains('/') && !text.starts_with('{') {
            self.join(text)
        } else {
            PathBuf::from(text)
        }
    }

    fn join(&self, text: &str) -> PathBuf {
        let mut path = PathBuf::new();
        for part in self.0.join(text).components() {
            match part {
                std::path::Component::CurDir => {}
                std::path::Component::ParentDir => drop(path.pop()),
                other => path.push(other),
            }
        }
        path
    }
}

#[derive(Default)]
struct SourceLines {
    arms: Vec<Option<usize>>,
    lanes: Vec<Option<usize>>,
    workload: Option<usize>,
    how: Option<usize>,
    counted_from: Option<usize>,
    first_transaction_within: Option<usize>,
    search: Option<usize>,
}

fn sections(top: &mut Table<'_>, plan_folder: &PlanFolder) -> (Plan, SourceLines) {
    let mut plan = general(top, plan_folder);
    let mut source_lines = SourceLines::default();
    if !top.has("workload") {
        top.lacks("workload", "[workload] is missing: what is run");
    }
    let mut single = None;
    let has_lane_tables = top.has("lane");
    top.table("workload", |t| {
        source_lines.workload = t.line();
        plan.workload = workload::workload(t, plan_folder);
        single = workload::single_lane(t, plan_folder);
        if single.is_none() && !has_lane_tables {
            t.lacks(
                "ledger",
                "workload.ledger is missing: the folder that a run works in",
            );
        }
    });
    plan.stop = default_stop(plan.workload.kind);
    workload::lanes(
        top,
        plan_folder,
        single,
        (&mut plan.lanes, &mut source_lines),
    );
    begin(top, &mut plan, (plan_folder, &mut source_lines));
    let searches = top.has("search");
    top.table("stop", |t| {
        source_lines.counted_from = t.line_of("counted_from");
        source_lines.first_transaction_within = t.line_of("first_transaction_within");
        if searches && t.has("duration") {
            t.errors().push(
                t.line_of("duration"),
                "stop.duration: a search ends by itself; say search.most instead",
            );
        }
        stop(t, &mut plan.stop);
    });
    top.table("host", |t| host(t, &mut plan.host));
    top.table("recorder", |t| plan.recorder = recorder(t, plan_folder));
    top.table("report", |t| {
        plan.report.primary = t.take("primary", |v| metric(text(v)?));
        plan.report.margin = t.take("margin", |v| percent(number(v)?));
    });
    (plan.arms, source_lines.arms) = arms::arms(top, plan_folder);
    concurrent(top, &mut plan);
    source_lines.search = top.line_of("search");
    if searches {
        source_lines.arms = vec![source_lines.search];
    }
    search::search(top, &mut plan);
    (plan, source_lines)
}

/// The keys before all sections.
fn general(top: &mut Table<'_>, plan_folder: &PlanFolder) -> Plan {
    let mut plan = default_plan();
    plan.name = top.need("name", |v| name(&text(v)?)).unwrap_or_default();
    plan.folder = top
        .need("folder", |v| plan_folder.path(v))
        .unwrap_or_default();
    let replicates = top.take("replicates", |v| within(v, 1..=1000));
    top.set("attempts", &mut plan.attempts, |v| within(v, 1..=100));
    top.set("seed", &mut plan.seed, |v| within(v, 0..=u64::MAX >> 1));
    order(top, &mut plan);
    // ABBA is balanced only with an even number of replicates.
    let pairs = plan.order == Order::Abba && !top.has("concurrent");
    let default_replicates = if top.has("search") { 1 } else { 3 };
    plan.replicates = replicates.unwrap_or(if pairs && default_replicates > 1 {
        4
    } else {
        default_replicates
    });
    plan
}

fn default_plan() -> Plan {
    Plan {
        file: PathBuf::new(),
        text: String::new(),
        name: String::new(),
        folder: PathBuf::new(),
        replicates: 3,
        order: Order::Abba,
        seed: 1,
        attempts: 3,
        workload: Workload {
            cache_variable: "AGAVE_PROGRAM_CACHE_ENTRIES".to_owned(),
            ..Workload::default()
        },
        begin: Begin::AsIs,
        page_cache: PageCache::DropFiles,
        stop: default_stop(Kind::Validator),
        host: HostRules {
            cool_down: 5 * MINUTE,
            patience: 30 * MINUTE,
            busy_cpus: Rule {
                bound: 2.0,
                severity: Severity::Warn,
            },
            free_disk: Rule {
                bound: 100 << 30,
                severity: Severity::Refuse,
            },
            swap: Severity::Warn,
            huge_pages: Severity::Warn,
            governor: Severity::Warn,
            leftovers: Severity::Refuse,
        },
        recorder: Recorder::default(),
        arms: Vec::new(),
        lanes: Vec::new(),
        concurrent: None,
        report: ReportRules::default(),
        search: None,
    }
}

fn default_stop(kind: Kind) -> Stop {
    let follows = kind == Kind::Validator;
    Stop {
        duration: 12 * HOUR,
        counted_from: if follows {
            CountedFrom::FirstTransaction
        } else {
            CountedFrom::Start
        },
        first_transaction_within: follows.then_some(6 * HOUR),
        no_progress_for: follows.then_some(30 * MINUTE),
        at_tip_within: None,
        grace: 2 * MINUTE,
    }
}

fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.len() <= 40 && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?}: a name has 1 to 40 lower-case letters, digits and dashes, as in \"ram-mainnet\""
    ))
}

fn order(top: &mut Table<'_>, plan: &mut Plan) {
    let words = [
        ("abba", Order::Abba),
        ("latin-square", Order::LatinSquare),
        ("random", Order::Random),
        ("sequential", Order::Sequential),
    ];
    let line = top.line_of("order");
    let given = top.take("order", |v| choice(v, &words));
    // Reports a mistake only once.
    let forced = top
        .take("force_order", flag)
        .unwrap_or(top.has("force_order"));
    plan.order = given.unwrap_or(plan.order);
    if plan.order == Order::Sequential && !forced {
        top.errors().push(
            line,
            "order: with \"sequential\" whatever changes with time looks like a difference between arms; choose \
             another order, or say force_order = true",
        );
    }
    if top.has("concurrent") {
        for key in ["order", "force_order", "seed"] {
            if top.has(key) {
                top.errors().push(
                    top.line_of(key),
                    format!(
                        "{key}: means nothing where all arms run at the same time; leave it out"
                    ),
                );
            }
        }
    }
}

fn begin(
    top: &mut Table<'_>,
    plan: &mut Plan,
    (plan_folder, source_lines): (&PlanFolder, &mut SourceLines),
) {
    if !top.has("begin") {
        top.lacks(
            "begin",
            "[begin] is missing: say how = \"download\", \"restore\" or \"as-is\"",
        );
    }
    top.table("begin", |t| {
        source_lines.how = t.line_of("how");
        let how = [("download", 0), ("restore", 1), ("as-is", 2)];
        let how = t.need("how", |v| choice(v, &how));
        let from = t.take("from", |v| plan_folder.path(v));
        plan.begin = match (how, from) {
            (Some(1), Some(from)) => Begin::Restore { from },
            (Some(1), None) if !t.has("from") => {
                t.lacks(
                    "from",
                    "begin: from is missing: the folder whose snapshots are copied before each run",
                );
                Begin::AsIs
            }
            (Some(0 | 2), Some(_)) => {
                t.refuse("from is for how = \"restore\" only; leave it out");
                Begin::AsIs
            }
            (Some(0), None) => Begin::Download,
            _ => Begin::AsIs,
        };
        let words = [
            ("drop-files", PageCache::DropFiles),
            ("drop-all", PageCache::DropAll),
            ("leave", PageCache::Leave),
        ];
        t.set("page_cache", &mut plan.page_cache, |v| choice(v, &words));
    });
}

fn stop(t: &mut Table<'_>, stop: &mut Stop) {
    t.set("duration", &mut stop.duration, |v| {
        at_least(time(v)?, Duration::from_secs(1))
    });
    let words = [
        ("first-transaction", CountedFrom::FirstTransaction),
        ("start", CountedFrom::Start),
    ];
    t.set("counted_from", &mut stop.counted_from, |v| {
        choice(v, &words)
    });
    t.set(
        "first_transaction_within",
        &mut stop.first_transaction_within,
        time_or_never,
    );
    t.set("no_progress_for", &mut stop.no_progress_for, time_or_never);
    t.set("at_tip_within", &mut stop.at_tip_within, time_or_never);
    t.set("grace", &mut stop.grace, time);
}

fn time_or_never(value: &DeValue<'_>) -> Result<Option<Duration>, String> {
    match value.as_str() {
        Some("never") => Ok(None),
        _ => at_least(time(value)?, Duration::from_secs(1)).map(Some),
    }
}

fn host(t: &mut Table<'_>, rules: &mut HostRules) {
    t.set("cool_down", &mut rules.cool_down, time);
    t.set("patience", &mut rules.patience, time);
    t.table("busy_cpus", |t| {
        t.set("at_most", &mut rules.busy_cpus.bound, number);
        t.set("otherwise", &mut rules.busy_cpus.severity, severity);
    });
    t.table("free_disk", |t| {
        t.set("at_least", &mut rules.free_disk.bound, size);
        t.set("otherwise", &mut rules.free_disk.severity, severity);
    });
    t.set("swap", &mut rules.swap, severity);
    t.set("huge_pages", &mut rules.huge_pages, severity);
    t.set("governor", &mut rules.governor, severity);
    t.set("leftovers", &mut rules.leftovers, severity);
}

fn recorder(t: &mut Table<'_>, plan_folder: &PlanFolder) -> Recorder {
    Recorder {
        program: t.take("program", |v| {
            text(v).map(|text| plan_folder.program(&text))
        }),
        config: t.take("config", |v| plan_folder.path(v)),
        interval: t.take("interval", |v| {
            at_least(time(v)?, Duration::from_millis(100))
        }),
        cpus: t.take("cpus", |v| CpuSet::parse(&text(v)?)),
        targets: t.take("targets", |v| targets(plan_folder.path(v)?)),
    }
}

fn severity(value: &DeValue<'_>) -> Result<Severity, String> {
    choice(
        value,
        &[
            ("ignore", Severity::Ignore),
            ("warn", Severity::Warn),
            ("refuse", Severity::Refuse),
        ],
    )
}

fn concurrent(top: &mut Table<'_>, plan: &mut Plan) {
    let arms: Vec<String> = plan.arms.iter().map(|arm| arm.name.clone()).collect();
    // After a mistake, an arm may lack its name: then `twice` is not checked.
    let is_valid = top.errors().is_empty();
    top.table("concurrent", |t| {
        let twice = t.take("twice", |v| {
            let wanted = text(v)?;
            let arm_index = arms.iter().position(|arm| *arm == wanted);
            arm_index
                .or_else(|| (!is_valid).then_some(0))
                .ok_or_else(|| {
                    format!(
                        "{wanted:?} is no arm; name the one that runs twice in each turn: {}",
                        arms.iter().map(|name| format!("{name:?}")).join(", ")
                    )
                })
        });
        let shared_device = t
            .take("shared_device", severity)
            .unwrap_or(Severity::Refuse);
        plan.concurrent = Some(Concurrent {
            twice: twice.unwrap_or(0),
            shared_device,
        });
    });
}

fn at_least(time: Duration, least: Duration) -> Result<Duration, String> {
    if time < least {
        Err(format!("{time:?} is shorter than {least:?}"))
    } else {
        Ok(time)
    }
}

fn metric(text: String) -> Result<String, String> {
    if scalar(&text).is_some() {
        return Ok(text);
    }
    let known = SCALARS.iter().map(|scalar| scalar.id).join(", ");
    Err(format!("{text:?} is no metric; there are {known}"))
}

fn targets(file: PathBuf) -> Result<PathBuf, String> {
    let ending = file.extension().and_then(|ending| ending.to_str());
    if ending.is_some_and(|ending| ["json", "yml", "yaml"].contains(&ending)) {
        return Ok(file);
    }
    Err(format!(
        "{}: Prometheus reads targets only from files that end in .json, .yml or .yaml",
        file.display()
    ))
}

fn percent(number: f64) -> Result<f64, String> {
    if number > 0.0 && number < 100.0 {
        Ok(number / 100.0)
    } else {
        Err(format!("{number} is not between 0 and 100"))
    }
}

#[cfg(test)]
mod tests;
