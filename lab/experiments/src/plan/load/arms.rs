use super::super::Arm;
use super::PlanFolder;
use super::workload::{argument, environment, plain_name, variable};
use faultline_runner::isolation::{CpuSet, IoLimit};
use faultline_settings::{Table, Unique, distinct, several, size, text, within};
use toml::de::DeValue;

const MAX_ARMS: usize = 100;
/// The kernel rounds limits down to pages.
const PAGE: u64 = 4096;

/// `[[arm]]`, then the product of `[factors]`.
pub(super) fn arms(
    top: &mut Table<'_>,
    plan_folder: &PlanFolder,
) -> (Vec<Arm>, Vec<Option<usize>>) {
    let (mut arms, mut source_lines) = (Vec::new(), Vec::new());
    let none = !top.has("arm") && !top.has("factors") && !top.has("search");
    if none {
        top.lacks(
            "arm",
            "there is no [[arm]], no [factors] and no [search]: nothing is tried",
        );
    }
    top.tables("arm", |t| {
        source_lines.push(t.line());
        arms.push(arm(t, plan_folder));
    });
    top.table("factors", |t| {
        let line = t.line();
        let factors = factors(t, plan_folder);
        let crossed: usize = factors
            .iter()
            .map(|levels| levels.len().min(MAX_ARMS + 1))
            .fold(1, usize::saturating_mul);
        if crossed > MAX_ARMS {
            t.refuse(format!(
                "their cross has more than {MAX_ARMS} arms; leave some levels out"
            ));
        } else if t.is_empty() {
            t.refuse("is empty: name what varies, as in memory_max = [\"128G\", \"256G\"]");
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

fn arm(t: &mut Table<'_>, plan_folder: &PlanFolder) -> Arm {
    let mut arm = Arm {
        name: t.need("name", |v| plain_name(text(v)?)).unwrap_or_default(),
        memory_max: t.take("memory_max", |v| memory(&size(v)?)),
        memory_high: t.take("memory_high", |v| memory(&size(v)?)),
        swap_max: t.take("swap_max", |v| size(v).map(|bytes| bytes / PAGE * PAGE)),
        cache_entries: t.take("cache_entries", |v| within(v, 1..=u32::MAX)),
        binary: t.take("binary", |v| plan_folder.path(v)),
        arguments: t
            .take("arguments", |v| several(v, argument))
            .unwrap_or_default(),
        environment: environment(t, "environment"),
        cpus: t.take("cpus", |v| CpuSet::parse(&text(v)?)),
        io: Vec::new(),
    };
    let mut devices = Unique::default();
    t.tables("io", |t| {
        let limit = IoLimit {
            device: t
                .need("device", |v| plan_folder.path(v))
                .unwrap_or_default(),
            read_bytes: t.take("read_bytes", |v| positive(size(v)?)),
            write_bytes: t.take("write_bytes", |v| positive(size(v)?)),
            read_operations: t.take("read_operations", |v| within(v, 1..=u64::MAX >> 1)),
            write_operations: t.take("write_operations", |v| within(v, 1..=u64::MAX >> 1)),
        };
        if ![
            "read_bytes",
            "write_bytes",
            "read_operations",
            "write_operations",
        ]
        .iter()
        .any(|key| t.has(key))
        {
            t.refuse(
                "limits nothing: give read_bytes, write_bytes, read_operations or write_operations",
            );
        }
        if t.has("device") {
            let device = limit.device.clone();
            let what = format!("arm {:?}: device {}", arm.name, device.display());
            devices.insert(device, t.line_of("device"), what, t.errors());
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

/// 1G and 1024M are equal.
impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

fn factors(t: &mut Table<'_>, plan_folder: &PlanFolder) -> Vec<Vec<Level>> {
    let written = |v: &DeValue<'_>| v.as_str().unwrap_or_default().trim().to_owned();
    let mut all = vec![
        value_factor(t, "memory_max", |v, arm| {
            arm.memory_max = Some(memory(&size(v)?)?);
            Ok(written(v))
        }),
        value_factor(t, "memory_high", |v, arm| {
            arm.memory_high = Some(memory(&size(v)?)?);
            Ok(format!("high-{}", written(v)))
        }),
        value_factor(t, "swap_max", |v, arm| {
            arm.swap_max = Some(size(v)? / PAGE * PAGE);
            Ok(format!("swap-{}", written(v)))
        }),
        value_factor(t, "cache_entries", |v, arm| {
            let entries = within(v, 1..=u32::MAX)?;
            arm.cache_entries = Some(entries);
            Ok(format!("cache-{entries}"))
        }),
        value_factor(t, "cpus", |v, arm| {
            let cpus = CpuSet::parse(&text(v)?)?;
            let name = format!("cpus-{cpus}");
            arm.cpus = Some(cpus);
            Ok(name)
        }),
    ];
    all.push(named_factor(t, "binary", |v, arm| {
        arm.binary = Some(plan_folder.path(v)?);
        Ok(())
    }));
    all.push(named_factor(t, "arguments", |v, arm| {
        arm.arguments = several(v, argument)?;
        Ok(())
    }));
    all.push(named_factor(t, "environment", |v, arm| {
        arm.environment = variables(v)?;
        Ok(())
    }));
    all.into_iter().flatten().collect()
}

/// `read` sets the value in the arm and returns the level's name.
fn value_factor(
    t: &mut Table<'_>,
    key: &'static str,
    read: impl Fn(&DeValue<'_>, &mut Arm) -> Result<String, String>,
) -> Option<Vec<Level>> {
    t.take(key, |value| {
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
    t: &mut Table<'_>,
    key: &'static str,
    read: impl Fn(&DeValue<'_>, &mut Arm) -> Result<(), String>,
) -> Option<Vec<Level>> {
    let before = t.errors().len();
    let levels = t.every(key, |name, value| {
        let name = plain_name(name.to_owned())?;
        if name.is_empty() {
            return Err("a level needs a name".to_owned());
        }
        let mut settings = Arm::default();
        read(value, &mut settings)?;
        Ok(Level { name, settings })
    });
    if levels.is_empty() && t.has(key) && t.errors().len() == before {
        t.refuse(format!("{key} is empty: name its levels"));
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
            .flat_map(|arm| levels.iter().map(|level| joined(arm, level)))
            .collect();
    }
    arms.into_iter().map(forbid_swap_under_limit).collect()
}

fn joined(arm: &Arm, level: &Level) -> Arm {
    let Level { name, settings } = level.clone();
    let mut joined = arm.clone();
    joined.name = if arm.name.is_empty() {
        name
    } else {
        format!("{} {name}", arm.name)
    };
    joined.memory_max = settings.memory_max.or(joined.memory_max);
    joined.memory_high = settings.memory_high.or(joined.memory_high);
    joined.swap_max = settings.swap_max.or(joined.swap_max);
    joined.cache_entries = settings.cache_entries.or(joined.cache_entries);
    joined.cpus = settings.cpus.or(joined.cpus);
    joined.binary = settings.binary.or(joined.binary);
    joined.arguments.extend(settings.arguments);
    joined.environment.extend(settings.environment);
    joined
}
