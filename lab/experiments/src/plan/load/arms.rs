use super::super::Arm;
use super::PlanFolder;
use super::workload::{argument, environment, plain_name, variable};
use faultline_runner::isolation::{CpuSet, IoLimit};
use faultline_settings::{Table, Unique, distinct, several, size, text, within};
use toml::de::DeValue;

const MAX_ARMS: usize = 100;
/// The kernel rounds limits down to pages.
const PAGE: u64 = 4096;

/// The arms of `[[arm]]`, then the product of `[factors]`.
pub(super) fn arms(
    top: &mut Table<'_>,
    plan_folder: &PlanFolder,
) -> (Vec<Arm>, Vec<Option<usize>>) {
    let (mut arms, mut source_lines) = (Vec::new(), Vec::new());
    let has_no_arms = !top.has("arm") && !top.has("factors") && !top.has("search");
    if has_no_arms {
        top.lacks(
            "arm",
            "there is no [[arm]], no [factors] and no [search]: nothing is tried",
        );
    }
    top.tables("arm", |table| {
        source_lines.push(table.line());
        arms.push(arm(table, plan_folder));
    });
    top.table("factors", |table| {
        let line = table.line();
        let factors = factors(table, plan_folder);
        let crossed_arms: usize = factors
            .iter()
            .map(|levels| levels.len().min(MAX_ARMS + 1))
            .fold(1, usize::saturating_mul);
        if crossed_arms > MAX_ARMS {
            table.refuse(format!(
                "their cross has more than {MAX_ARMS} arms; leave some levels out"
            ));
        } else if table.is_empty() {
            table.refuse("is empty: name what varies, as in memory_max = [\"128G\", \"256G\"]");
        } else if !factors.is_empty() {
            let cross = cross(&factors);
            source_lines.extend(cross.iter().map(|_| line));
            arms.extend(cross);
        }
    });
    if arms.len() > MAX_ARMS {
        top.errors().push(
            None,
            format!("there are {} arms; {MAX_ARMS} at most", arms.len()),
        );
    }
    (arms, source_lines)
}

fn arm(table: &mut Table<'_>, plan_folder: &PlanFolder) -> Arm {
    let mut arm = Arm {
        name: table
            .need("name", |v| plain_name(text(v)?))
            .unwrap_or_default(),
        memory_max: table.take("memory_max", |v| memory(&size(v)?)),
        memory_high: table.take("memory_high", |v| memory(&size(v)?)),
        swap_max: table.take("swap_max", |v| size(v).map(|bytes| bytes / PAGE * PAGE)),
        cache_entries: table.take("cache_entries", |v| within(v, 1..=u32::MAX)),
        binary: table.take("binary", |v| plan_folder.path(v)),
        arguments: table
            .take("arguments", |v| several(v, argument))
            .unwrap_or_default(),
        environment: environment(table, "environment"),
        cpus: table.take("cpus", |v| CpuSet::parse(&text(v)?)),
        io: Vec::new(),
    };
    let mut devices = Unique::default();
    table.tables("io", |table| {
        let limit = IoLimit {
            device: table
                .need("device", |v| plan_folder.path(v))
                .unwrap_or_default(),
            read_bytes: table.take("read_bytes", |v| positive(size(v)?)),
            write_bytes: table.take("write_bytes", |v| positive(size(v)?)),
            read_operations: table.take("read_operations", |v| within(v, 1..=u64::MAX >> 1)),
            write_operations: table.take("write_operations", |v| within(v, 1..=u64::MAX >> 1)),
        };
        if ![
            "read_bytes",
            "write_bytes",
            "read_operations",
            "write_operations",
        ]
        .iter()
        .any(|key| table.has(key))
        {
            table.refuse(
                "limits nothing: give read_bytes, write_bytes, read_operations or write_operations",
            );
        }
        if table.has("device") {
            let device = limit.device.clone();
            let what = format!("arm {:?}: device {}", arm.name, device.display());
            devices.insert(device, table.line_of("device"), what, table.errors());
        }
        arm.io.push(limit);
    });
    forbid_swap_under_limit(arm)
}

/// Memory above the limit must not go to swap unnoticed.
fn forbid_swap_under_limit(mut arm: Arm) -> Arm {
    if arm.memory_max.is_some() && arm.swap_max.is_none() {
        arm.swap_max = Some(0);
    }
    arm
}

fn memory(bytes: &u64) -> Result<u64, String> {
    if *bytes < 1 << 20 {
        Err("is less than 1M, in which nothing runs".to_owned())
    } else {
        Ok(bytes / PAGE * PAGE)
    }
}

fn positive(bytes: u64) -> Result<u64, String> {
    if bytes == 0 {
        Err("0 would stop it; leave the key out for no limit".to_owned())
    } else {
        Ok(bytes)
    }
}

#[derive(Clone)]
struct Level {
    name: String,
    settings: Arm,
}

/// Levels are equal if their settings are, such as 1G and 1024M.
impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

fn factors(table: &mut Table<'_>, plan_folder: &PlanFolder) -> Vec<Vec<Level>> {
    let as_written = |v: &DeValue<'_>| v.as_str().unwrap_or_default().trim().to_owned();
    let mut all = vec![
        value_factor(table, "memory_max", |v, arm| {
            arm.memory_max = Some(memory(&size(v)?)?);
            Ok(as_written(v))
        }),
        value_factor(table, "memory_high", |v, arm| {
            arm.memory_high = Some(memory(&size(v)?)?);
            Ok(format!("high-{}", as_written(v)))
        }),
        value_factor(table, "swap_max", |v, arm| {
            arm.swap_max = Some(size(v)? / PAGE * PAGE);
            Ok(format!("swap-{}", as_written(v)))
        }),
        value_factor(table, "cache_entries", |v, arm| {
            let entries = within(v, 1..=u32::MAX)?;
            arm.cache_entries = Some(entries);
            Ok(format!("cache-{entries}"))
        }),
        value_factor(table, "cpus", |v, arm| {
            let cpus = CpuSet::parse(&text(v)?)?;
            let name = format!("cpus-{cpus}");
            arm.cpus = Some(cpus);
            Ok(name)
        }),
    ];
    all.push(named_factor(table, "binary", |v, arm| {
        arm.binary = Some(plan_folder.path(v)?);
        Ok(())
    }));
    all.push(named_factor(table, "arguments", |v, arm| {
        arm.arguments = several(v, argument)?;
        Ok(())
    }));
    all.push(named_factor(table, "environment", |v, arm| {
        arm.environment = variables(v)?;
        Ok(())
    }));
    all.into_iter().flatten().collect()
}

/// `read` sets the value in the arm and returns the level's name.
fn value_factor(
    table: &mut Table<'_>,
    key: &'static str,
    read: impl Fn(&DeValue<'_>, &mut Arm) -> Result<String, String>,
) -> Option<Vec<Level>> {
    table.take(key, |value| {
        let levels = distinct(value, |value| {
            let mut settings = Arm::default();
            let name = read(value, &mut settings)?;
            Ok(Level { name, settings })
        })?;
        if levels.is_empty() {
            Err("is empty: name its levels".to_owned())
        } else {
            Ok(levels)
        }
    })
}

fn named_factor(
    table: &mut Table<'_>,
    key: &'static str,
    read: impl Fn(&DeValue<'_>, &mut Arm) -> Result<(), String>,
) -> Option<Vec<Level>> {
    let before = table.errors().len();
    let levels = table.every(key, |name, value| {
        let name = plain_name(name.to_owned())?;
        if name.is_empty() {
            return Err("a level needs a name".to_owned());
        }
        let mut settings = Arm::default();
        read(value, &mut settings)?;
        Ok(Level { name, settings })
    });
    if levels.is_empty() && table.has(key) && table.errors().len() == before {
        table.refuse(format!("{key} is empty: name its levels"));
    }
    (!levels.is_empty()).then_some(levels)
}

fn variables(value: &DeValue<'_>) -> Result<std::collections::BTreeMap<String, String>, String> {
    let table = value
        .as_table()
        .ok_or("a table of variables is wanted, as in { RUST_LOG = \"warn\" }")?;
    table
        .iter()
        .map(|(name, value)| Ok((variable(name.get_ref())?, argument(value.get_ref())?)))
        .collect()
}

/// The last factor changes fastest.
fn cross(factors: &[Vec<Level>]) -> Vec<Arm> {
    let mut arms = vec![Arm::default()];
    for levels in factors {
        arms = arms
            .iter()
            .flat_map(|arm| levels.iter().map(|level| with_level(arm, level)))
            .collect();
    }
    arms.into_iter().map(forbid_swap_under_limit).collect()
}

fn with_level(arm: &Arm, level: &Level) -> Arm {
    let Level { name, settings } = level.clone();
    let mut with_level = arm.clone();
    with_level.name = if arm.name.is_empty() {
        name
    } else {
        format!("{} {name}", arm.name)
    };
    with_level.memory_max = settings.memory_max.or(with_level.memory_max);
    with_level.memory_high = settings.memory_high.or(with_level.memory_high);
    with_level.swap_max = settings.swap_max.or(with_level.swap_max);
    with_level.cache_entries = settings.cache_entries.or(with_level.cache_entries);
    with_level.cpus = settings.cpus.or(with_level.cpus);
    with_level.binary = settings.binary.or(with_level.binary);
    with_level.arguments.extend(settings.arguments);
    with_level.environment.extend(settings.environment);
    with_level
}
