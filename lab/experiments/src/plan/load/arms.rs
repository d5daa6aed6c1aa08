//! Reads the arms of a plan from `[[arm]]` and `[factors]`, or the one arm of `[search]`.

use super::{
    super::{Arm, MemorySearchRules, Plan},
    BaseFolder, HOUR, MINUTE, SECOND, at_least, cpus,
    workload::{argument, check_plain_name, environment, plain_name, variable},
};
use faultline_runner::isolation::IoLimit;
use faultline_settings::{
    Table, Unique, array, choice, distinct, number, size, whole_number_within,
};
use std::collections::BTreeMap;
use toml::de::DeValue;

const MAX_ARMS: usize = 100;
/// The kernel rounds limits down to pages.
const PAGE: u64 = 4096;
/// Keys of an arm. In `[factors]` each has a list of values. A value is a level of the factor, and
/// [`set_value`] makes the level's name of it.
const KEYS_WITH_VALUE_NAMES: [&str; 5] = [
    "memory_max",
    "memory_high",
    "swap_max",
    "cache_entries",
    "cpus",
];

const SEARCH_ARM: &str = "search";
const NOT_WITH_SEARCH: [&str; 6] = [
    "arm",
    "factors",
    "concurrent",
    "order",
    "force_order",
    "seed",
];

pub fn read_arms(top: &mut Table<'_>, base_folder: &BaseFolder) -> Vec<Arm> {
    let mut arms = Vec::new();
    if !["arm", "factors", "search"].iter().any(|key| top.has(key)) {
        top.report_missing(
            "arm",
            "there is no [[arm]], no [factors] and no [search]: nothing is tried",
        );
    }
    top.tables("arm", |table| arms.push(read_arm(table, base_folder)));
    top.table("factors", |table| {
        let factors = read_factors(table, base_folder);
        let lengths = factors.iter().map(Vec::len);
        if lengths.fold(1, usize::saturating_mul) > MAX_ARMS {
            table.report(format!(
                "they have more than {MAX_ARMS} combinations; leave some levels out"
            ));
        } else if table.is_empty() {
            table.report("is empty: name what varies, as in memory_max = [\"128G\", \"256G\"]");
        } else if !factors.is_empty() {
            arms.extend(cross(table.first_key_line(), &factors));
        }
    });
    if arms.len() > MAX_ARMS {
        top.errors().push(
            None,
            format!("there are {} arms; {MAX_ARMS} at most", arms.len()),
        );
    }
    arms
}

fn read_arm(table: &mut Table<'_>, base_folder: &BaseFolder) -> Arm {
    let mut arm = Arm {
        name: table.read_required("name", plain_name).unwrap_or_default(),
        line: table.first_key_line(),
        ..Arm::default()
    };
    for key in KEYS_WITH_VALUE_NAMES
        .into_iter()
        .chain(["binary", "arguments"])
    {
        table.read(key, |v| set_value(key, v, base_folder, &mut arm));
    }
    arm.environment = environment(table, "environment");
    let mut devices = Unique::default();
    table.tables("io", |table| {
        let bytes = |v: &DeValue<'_>| match size(v)? {
            0 => Err("0 would block all I/O; leave the key out for no limit".to_owned()),
            bytes => Ok(bytes),
        };
        let operations = |v: &DeValue<'_>| whole_number_within(v, 1..=u64::MAX >> 1);
        let device = table.read_required("device", |v| base_folder.path(v));
        let limit = IoLimit {
            device: device.unwrap_or_default(),
            read_bytes: table.read("read_bytes", bytes),
            write_bytes: table.read("write_bytes", bytes),
            read_operations: table.read("read_operations", operations),
            write_operations: table.read("write_operations", operations),
        };
        if !IoLimit::NAMES.iter().any(|key| table.has(key)) {
            table.report(
                "limits nothing: give read_bytes, write_bytes, read_operations or write_operations",
            );
        }
        if let Some(line) = table.line_of("device") {
            let device = limit.device.clone();
            let what = format!("arm {:?}: device {}", arm.name, device.display());
            devices.insert(device, Some(line), what, table.errors());
        }
        arm.io.push(limit);
    });
    default_to_no_swap(arm)
}

/// Returns the name of the factor level, such as `high-64G`. The name is empty for `binary`,
/// `arguments` and `environment`: the plan names their levels.
fn set_value(
    key: &str,
    value: &DeValue<'_>,
    base_folder: &BaseFolder,
    arm: &mut Arm,
) -> Result<String, String> {
    let as_written = value.as_str().unwrap_or_default().trim();
    let mut name = String::new();
    match key {
        "memory_max" => {
            arm.memory_max = Some(memory_limit(value)?);
            name = as_written.to_owned();
        }
        "memory_high" => {
            arm.memory_high = Some(memory_limit(value)?);
            name = format!("high-{as_written}");
        }
        "swap_max" => {
            arm.swap_max = Some(size(value)? / PAGE * PAGE);
            name = format!("swap-{as_written}");
        }
        "cache_entries" => {
            let entries = whole_number_within(value, 1..=u32::MAX)?;
            arm.program_cache_entries = Some(entries);
            name = format!("cache-{entries}");
        }
        "cpus" => {
            let cpu_set = cpus(value)?;
            name = format!("cpus-{cpu_set}");
            arm.cpus = Some(cpu_set);
        }
        "binary" => arm.binary = Some(base_folder.path(value)?),
        "arguments" => arm.arguments = array(value, argument)?,
        _ => arm.environment = variables(value)?,
    }
    Ok(name)
}

/// If an arm limited only memory, memory above the limit would be swapped out unnoticed.
fn default_to_no_swap(mut arm: Arm) -> Arm {
    if arm.memory_max.is_some() && arm.swap_max.is_none() {
        arm.swap_max = Some(0);
    }
    arm
}

fn memory_limit(value: &DeValue<'_>) -> Result<u64, String> {
    match size(value)? {
        bytes if bytes < 1 << 20 => Err("is less than 1M, in which nothing runs".to_owned()),
        bytes => Ok(bytes / PAGE * PAGE),
    }
}

/// One value of a factor. An arm has one level of each factor.
#[derive(Clone)]
struct FactorLevel {
    name: String,
    settings: Arm,
}

/// Compares settings, not names: 1G and 1024M are the same level.
impl PartialEq for FactorLevel {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

fn read_factors(table: &mut Table<'_>, base_folder: &BaseFolder) -> Vec<Vec<FactorLevel>> {
    let mut all = Vec::new();
    for key in KEYS_WITH_VALUE_NAMES {
        all.extend(table.read(key, |value| {
            let levels = distinct(value, |value| {
                let mut settings = Arm::default();
                let name = set_value(key, value, base_folder, &mut settings)?;
                Ok(FactorLevel { name, settings })
            })?;
            if levels.is_empty() {
                Err("is empty: name its levels".to_owned())
            } else {
                Ok(levels)
            }
        }));
    }
    for key in ["binary", "arguments", "environment"] {
        let errors_before = table.errors().len();
        let levels = table.read_entries(key, |name, value| {
            let name = check_plain_name(name.to_owned())?;
            if name.is_empty() {
                return Err("a level needs a name".to_owned());
            }
            let mut settings = Arm::default();
            set_value(key, value, base_folder, &mut settings)?;
            Ok(FactorLevel { name, settings })
        });
        if !levels.is_empty() {
            all.push(levels);
        } else if table.has(key) && table.errors().len() == errors_before {
            table.report(format!("{key} is empty: name its levels"));
        }
    }
    all
}

fn variables(value: &DeValue<'_>) -> Result<BTreeMap<String, String>, String> {
    let table = value
        .as_table()
        .ok_or("a table of variables is wanted, as in { RUST_LOG = \"warn\" }")?;
    table
        .iter()
        .map(|(name, value)| Ok((variable(name.get_ref())?, argument(value.get_ref())?)))
        .collect()
}

/// From arm to arm, the level of the last factor changes fastest.
fn cross(line: Option<usize>, factors: &[Vec<FactorLevel>]) -> Vec<Arm> {
    let mut arms = vec![Arm {
        line,
        ..Arm::default()
    }];
    for levels in factors {
        arms = arms
            .iter()
            .flat_map(|arm| levels.iter().map(|level| with_level(arm, level)))
            .collect();
    }
    arms.into_iter().map(default_to_no_swap).collect()
}

fn with_level(arm: &Arm, level: &FactorLevel) -> Arm {
    let (arm, FactorLevel { name, settings }) = (arm.clone(), level.clone());
    let mut merged = Arm {
        name: match arm.name.as_str() {
            "" => name,
            before => format!("{before} {name}"),
        },
        memory_max: settings.memory_max.or(arm.memory_max),
        memory_high: settings.memory_high.or(arm.memory_high),
        swap_max: settings.swap_max.or(arm.swap_max),
        program_cache_entries: settings.program_cache_entries.or(arm.program_cache_entries),
        cpus: settings.cpus.or(arm.cpus),
        binary: settings.binary.or(arm.binary),
        ..arm
    };
    merged.arguments.extend(settings.arguments);
    merged.environment.extend(settings.environment);
    merged
}

/// A plan with a search has only one arm, without settings.
pub fn read_memory_search(top: &mut Table<'_>, plan: &mut Plan) {
    top.table("search", |table| {
        table.read_required("what", |v| choice(v, &[("memory", ())]));
        let mut search = MemorySearchRules {
            first_headroom: table.read_required("from", headroom).unwrap_or_default(),
            settle_time: 2 * MINUTE,
            dwell: 8 * MINUTE,
            max_interval_width: 0.1,
            max_duration: 8 * HOUR,
            growth_horizon: 24 * HOUR,
        };
        table.read_into("settle", &mut search.settle_time, |v| at_least(SECOND, v));
        table.read_into("dwell", &mut search.dwell, |v| at_least(2 * SECOND, v));
        table.read_into("width", &mut search.max_interval_width, width);
        table.read_into("most", &mut search.max_duration, |v| at_least(MINUTE, v));
        table.read_into("horizon", &mut search.growth_horizon, |v| at_least(HOUR, v));
        plan.stop.duration = search.max_duration;
        plan.memory_search = Some(search);
    });
    if !top.has("search") {
        return;
    }
    for key in NOT_WITH_SEARCH.into_iter().filter(|key| top.has(key)) {
        let shown_key = if key == "arm" { "[[arm]]" } else { key };
        top.errors().push(
            top.line_of(key),
            format!(
                "{shown_key}: means nothing with [search], which has one arm and one run at a time; leave it out"
            ),
        );
    }
    plan.arms = vec![Arm {
        name: SEARCH_ARM.to_owned(),
        line: top.line_of("search"),
        ..Arm::default()
    }];
}

fn headroom(value: &DeValue<'_>) -> Result<u64, String> {
    match size(value)? {
        bytes if bytes < 1 << 20 => Err("is less than 1M, in which nothing fits".to_owned()),
        bytes => Ok(bytes),
    }
}

fn width(value: &DeValue<'_>) -> Result<f64, String> {
    let share = number(value)? / 100.0;
    if (0.03..=0.5).contains(&share) {
        Ok(share)
    } else {
        Err("a width from 3 to 50 percent is wanted".to_owned())
    }
}
