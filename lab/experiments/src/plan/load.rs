mod arms;
mod consistency;
mod workload;

use super::{
    Concurrent, CountedFrom, HostRules, InitialState, Lane, Order, PageCache, Plan,
    RecorderOptions, ReportRules, Rule, Severity, SlurmOptions, StopRules, Workload, WorkloadKind,
};
use anyhow::{bail, ensure};
use clap::ValueEnum;
use faultline_common::{args::percent_within_range, files::open_regular};
use faultline_report::report::{RUN_METRICS, run_metric};
use faultline_runner::{isolation::CpuSet, record::recorder::DEFAULT_SAMPLING_INTERVAL};
use faultline_settings::{
    ConfigError, Table, choice, flag, mismatch, number, size, text, time, whole_number_within,
};
use itertools::Itertools;
use std::{
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};
use toml::de::DeValue;

const MAX_PLAN_BYTES: u64 = 1 << 20;
const EXAMPLE_PLANS_HINT: &str = "plans to copy and adapt are in experiments/ of the source, \
    /usr/share/doc/faultline/examples/ of the package and /usr/local/share/faultline/experiments/ of \
    the tarball";
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

pub fn load(file: &Path) -> Result<Plan, Vec<ConfigError>> {
    match read_text(file) {
        Ok((text, absolute)) => parse(&text, &absolute).and_then(refuse_own_deletion),
        Err(error) => Err(vec![ConfigError {
            file: Some(file.to_owned()),
            ..ConfigError::new(error.to_string())
        }]),
    }
}

/// Only for a user's plan: the experiment's folder has a copy.
fn refuse_own_deletion(plan: Plan) -> Result<Plan, Vec<ConfigError>> {
    let mut folders = plan.lanes.iter().flat_map(Lane::folders);
    let folder = folders.find(|folder| plan.file.starts_with(folder));
    let Some(folder) = folder.filter(|_| plan.initial_state != InitialState::AsIs) else {
        drop(folders);
        return Ok(plan);
    };
    let what = format!(
        "the plan is inside {}, which is cleared before a run; keep it elsewhere",
        folder.display()
    );
    Err(vec![ConfigError {
        file: Some(plan.file),
        ..ConfigError::new(what)
    }])
}

fn read_text(file: &Path) -> anyhow::Result<(String, PathBuf)> {
    let absolute = std::path::absolute(file)?;
    let opened = match open_regular(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("is not there; {EXAMPLE_PLANS_HINT}")
        }
        opened => opened?,
    };
    ensure!(
        opened.metadata()?.len() <= MAX_PLAN_BYTES,
        "is larger than 1 MiB, so it is no plan"
    );
    Ok((io::read_to_string(opened)?, absolute))
}

/// `file` is absolute and need not exist. Returns all mistakes.
pub fn parse(text: &str, file: &Path) -> Result<Plan, Vec<ConfigError>> {
    let base_folder = BaseFolder(file.parent().unwrap_or(Path::new("/")).to_owned());
    // A plan has no secrets.
    let quotes_line = true;
    let (plan, mistakes) = faultline_settings::read(text, Some(file), quotes_line, |mut top| {
        let (mut plan, source_lines) = read_sections(&mut top, &base_folder);
        let errors = top.errors();
        top.finish();
        plan.file = file.to_owned();
        plan.text = text.to_owned();
        // After a mistake, these checks would also report its consequences.
        if errors.is_empty() {
            consistency::check(&plan, &source_lines, errors);
        }
        plan
    });
    plan.filter(|_| mistakes.is_empty()).ok_or(mistakes)
}

/// Relative paths start at this folder.
struct BaseFolder(PathBuf);

impl BaseFolder {
    /// The absolute path, without `.` and `..`. Symbolic links are not resolved.
    fn path(&self, value: &DeValue<'_>) -> Result<PathBuf, String> {
        text(value).map(|text| self.join(&text))
    }

    /// A text without a slash is a program in `PATH`, and stays as it is. So does a placeholder.
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

/// Line numbers in the plan's file.
#[derive(Default)]
struct SourceLines {
    workload: Option<usize>,
    begin_how: Option<usize>,
    counted_from: Option<usize>,
    first_transaction_within: Option<usize>,
    search: Option<usize>,
}

fn read_sections(top: &mut Table<'_>, base_folder: &BaseFolder) -> (Plan, SourceLines) {
    let mut plan = read_top_keys(top, base_folder);
    let mut source_lines = SourceLines::default();
    if !top.has("workload") {
        top.report_missing("workload", "[workload] is missing: what is run");
    }
    let has_lane_tables = top.has("lane");
    top.table("workload", |table| {
        source_lines.workload = table.first_key_line();
        plan.workload = workload::read_workload(table, base_folder);
        plan.lanes
            .extend(workload::read_single_lane(table, base_folder));
        if plan.lanes.is_empty() && !has_lane_tables {
            table.report_missing(
                "ledger",
                "workload.ledger is missing: the folder that a run works in",
            );
        }
    });
    plan.stop = default_stop(plan.workload.kind);
    workload::read_lanes(top, base_folder, &mut plan.lanes);
    source_lines.begin_how = read_begin(top, &mut plan, base_folder);
    let has_search = top.has("search");
    top.table("stop", |table| {
        source_lines.counted_from = table.line_of("counted_from");
        source_lines.first_transaction_within = table.line_of("first_transaction_within");
        if has_search && table.has("duration") {
            table.errors().push(
                table.line_of("duration"),
                "stop.duration: a search ends by itself; set search.most instead",
            );
        }
        read_stop(table, &mut plan.stop);
    });
    top.table("host", |table| read_host_rules(table, &mut plan.host));
    top.table("recorder", |table| {
        plan.recorder = read_recorder(table, base_folder)
    });
    top.table("report", |table| {
        plan.report.primary_metric = table.read("primary", metric);
        plan.report.margin = table.read("margin", |value| {
            Ok(percent_within_range(number(value)?)? / 100.0)
        });
    });
    top.table("slurm", |table| plan.slurm = workload::read_slurm(table));
    plan.arms = arms::read_arms(top, base_folder);
    read_concurrent(top, &mut plan);
    source_lines.search = top.line_of("search");
    arms::read_memory_search(top, &mut plan);
    (plan, source_lines)
}

/// Reads the keys before the first section. Sections have their defaults.
fn read_top_keys(top: &mut Table<'_>, base_folder: &BaseFolder) -> Plan {
    let name = top
        .read_required("name", |v| experiment_name(&text(v)?))
        .unwrap_or_default();
    let folder = top.read_required("folder", |v| base_folder.path(v));
    let replicates = top.read("replicates", |v| whole_number_within(v, 1..=1000));
    let attempts_per_turn = top.read("attempts", |v| whole_number_within(v, 1..=100));
    let seed = top.read("seed", |v| whole_number_within(v, 0..=u64::MAX >> 1));
    let order = read_order(top);
    let default_replicates = match order {
        _ if top.has("search") => 1,
        // ABBA is balanced only with an even number of replicates.
        Order::Abba if !top.has("concurrent") => 4,
        _ => 3,
    };
    Plan {
        file: PathBuf::new(),
        text: String::new(),
        name,
        folder: folder.unwrap_or_default(),
        replicates: replicates.unwrap_or(default_replicates),
        order,
        seed: seed.unwrap_or(1),
        attempts_per_turn: attempts_per_turn.unwrap_or(3),
        workload: Workload::default(),
        initial_state: InitialState::AsIs,
        page_cache: PageCache::DropFiles,
        stop: default_stop(WorkloadKind::Validator),
        host: default_host_rules(),
        recorder: RecorderOptions {
            interval: DEFAULT_SAMPLING_INTERVAL,
            ..RecorderOptions::default()
        },
        arms: Vec::new(),
        lanes: Vec::new(),
        concurrent: None,
        report: ReportRules::default(),
        memory_search: None,
        slurm: SlurmOptions::default(),
    }
}

fn default_host_rules() -> HostRules {
    HostRules {
        cool_down: 5 * MINUTE,
        max_host_wait: 30 * MINUTE,
        busy_cpus: Rule {
            bound: 2.0,
            severity: Severity::Warn,
        },
        free_disk: Rule {
            bound: 100 << 30,
            severity: Severity::Refuse,
        },
        swap_enabled: Severity::Warn,
        huge_pages: Severity::Warn,
        governor: Severity::Warn,
        leftovers: Severity::Refuse,
    }
}

fn default_stop(kind: WorkloadKind) -> StopRules {
    let is_validator = kind == WorkloadKind::Validator;
    StopRules {
        duration: 12 * HOUR,
        counted_from: if is_validator {
            CountedFrom::FirstTransaction
        } else {
            CountedFrom::Start
        },
        first_transaction_within: is_validator.then_some(6 * HOUR),
        no_progress_for: is_validator.then_some(30 * MINUTE),
        at_tip_within: None,
        grace: 2 * MINUTE,
    }
}

fn experiment_name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if text.len() <= 40 && text.chars().all(is_allowed) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "{text:?}: a name has 1 to 40 lower-case letters, digits and dashes, as in \"ram-mainnet\""
    ))
}

fn read_order(top: &mut Table<'_>) -> Order {
    let order = top.read("order", variant).unwrap_or(Order::Abba);
    let forced = top.read("force_order", flag);
    // An invalid `force_order` counts as true: one mistake is reported once.
    if order == Order::Sequential && !forced.unwrap_or(top.has("force_order")) {
        top.errors().push(
            top.line_of("order"),
            "order: with \"sequential\" whatever changes with time looks like a difference between arms; choose \
             another order, or set force_order = true",
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
    order
}

fn read_begin(top: &mut Table<'_>, plan: &mut Plan, base_folder: &BaseFolder) -> Option<usize> {
    if !top.has("begin") {
        top.report_missing(
            "begin",
            "[begin] is missing: set how = \"download\", \"restore\" or \"as-is\"",
        );
    }
    let mut line = None;
    top.table("begin", |table| {
        line = table.line_of("how");
        let how = ["download", "restore", "as-is"].map(|how| (how, how));
        let how = table.read_required("how", |v| choice(v, &how));
        let from = table.read("from", |v| base_folder.path(v));
        plan.initial_state = match (how, from) {
            (Some("restore"), Some(from)) => InitialState::Restore { from },
            (Some("restore"), None) if !table.has("from") => {
                table.report_missing(
                    "from",
                    "begin: from is missing: the folder whose snapshots are copied before each run",
                );
                InitialState::AsIs
            }
            (Some(_), Some(_)) => {
                table.report("from is for how = \"restore\" only; leave it out");
                InitialState::AsIs
            }
            (Some("download"), None) => InitialState::Download,
            _ => InitialState::AsIs,
        };
        table.read_into("page_cache", &mut plan.page_cache, variant);
    });
    line
}

fn read_stop(table: &mut Table<'_>, stop: &mut StopRules) {
    table.read_into("duration", &mut stop.duration, |v| at_least(SECOND, v));
    table.read_into("counted_from", &mut stop.counted_from, variant);
    for (key, limit) in [
        (
            "first_transaction_within",
            &mut stop.first_transaction_within,
        ),
        ("no_progress_for", &mut stop.no_progress_for),
        ("at_tip_within", &mut stop.at_tip_within),
    ] {
        table.read_into(key, limit, |v| match v.as_str() {
            Some("never") => Ok(None),
            _ => at_least(SECOND, v).map(Some),
        });
    }
    table.read_into("grace", &mut stop.grace, time);
}

fn read_host_rules(table: &mut Table<'_>, rules: &mut HostRules) {
    table.read_into("cool_down", &mut rules.cool_down, time);
    table.read_into("patience", &mut rules.max_host_wait, time);
    table.table("busy_cpus", |table| {
        table.read_into("at_most", &mut rules.busy_cpus.bound, number);
        table.read_into("otherwise", &mut rules.busy_cpus.severity, variant);
    });
    table.table("free_disk", |table| {
        table.read_into("at_least", &mut rules.free_disk.bound, size);
        table.read_into("otherwise", &mut rules.free_disk.severity, variant);
    });
    table.read_into("swap", &mut rules.swap_enabled, variant);
    table.read_into("huge_pages", &mut rules.huge_pages, variant);
    table.read_into("governor", &mut rules.governor, variant);
    table.read_into("leftovers", &mut rules.leftovers, variant);
}

fn read_recorder(table: &mut Table<'_>, base_folder: &BaseFolder) -> RecorderOptions {
    RecorderOptions {
        program: table.read("program", |v| Ok(base_folder.program(&text(v)?))),
        config: table.read("config", |v| base_folder.path(v)),
        interval: table
            .read("interval", |v| at_least(Duration::from_millis(100), v))
            .unwrap_or(DEFAULT_SAMPLING_INTERVAL),
        cpus: table.read("cpus", cpus),
        targets: table.read("targets", |v| target_file(base_folder.path(v)?)),
    }
}

/// Reads a variant by its name in kebab-case.
fn variant<T: ValueEnum>(value: &DeValue<'_>) -> Result<T, String> {
    let parsed = value.as_str().map(|name| T::from_str(name, false));
    if let Some(Ok(parsed)) = parsed {
        return Ok(parsed);
    }
    let names = T::value_variants()
        .iter()
        .filter_map(T::to_possible_value)
        .map(|variant| format!("{:?}", variant.get_name()))
        .join(", ");
    Err(mismatch(&format!("one of {names}"), value))
}

fn cpus(value: &DeValue<'_>) -> Result<CpuSet, String> {
    CpuSet::parse(&text(value)?)
}

fn read_concurrent(top: &mut Table<'_>, plan: &mut Plan) {
    let names = plan.arms.iter().map(|arm| &arm.name).collect_vec();
    // After a mistake, an arm's name may be missing. Then `twice` is not compared.
    let is_valid = top.errors().is_empty();
    top.table("concurrent", |table| {
        let repeated_arm = table.read("twice", |v| {
            let arm_name = text(v)?;
            match names.iter().position(|name| **name == arm_name) {
                None if is_valid => Err(format!(
                    "{arm_name:?} is no arm; name the one that runs twice in each turn: {}",
                    names.iter().map(|name| format!("{name:?}")).join(", ")
                )),
                index => Ok(index.unwrap_or(0)),
            }
        });
        let shared_device = table.read("shared_device", variant);
        plan.concurrent = Some(Concurrent {
            repeated_arm: repeated_arm.unwrap_or(0),
            shared_device_severity: shared_device.unwrap_or(Severity::Refuse),
        });
    });
}

fn at_least(minimum: Duration, value: &DeValue<'_>) -> Result<Duration, String> {
    let duration = time(value)?;
    if duration < minimum {
        Err(format!(
            "{duration:?} is shorter than the minimum of {minimum:?}"
        ))
    } else {
        Ok(duration)
    }
}

fn metric(value: &DeValue<'_>) -> Result<String, String> {
    let id = text(value)?;
    if run_metric(&id).is_some() {
        return Ok(id);
    }
    let known = RUN_METRICS
        .iter()
        .map(|run_metric| run_metric.id)
        .join(", ");
    Err(format!("{id:?} is no metric; there are {known}"))
}

fn target_file(file: PathBuf) -> Result<PathBuf, String> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("json" | "yml" | "yaml") => Ok(file),
        _ => Err(format!(
            "{}: Prometheus reads targets only from files that end in .json, .yml or .yaml",
            file.display()
        )),
    }
}

#[cfg(test)]
mod tests;
