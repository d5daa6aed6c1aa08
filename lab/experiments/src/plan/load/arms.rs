use super::super::Arm;
use super::Base;
use super::workload::{argument, environment, plain_name, variable};
use faultline_runner::isolation::{CpuSet, IoLimit};
use faultline_settings::{Table, Unique, distinct, several, size, text, within};
use toml::de::DeValue;

const MOST: usize = 100;
/// The kernel rounds limits down to pages.
const PAGE: u64 = 4096;

/// `[[arm]]`, then the product of `[factors]`.
pub(super) fn arms(top: &mut Table<'_>, base: &Base) -> (Vec<Arm>, Vec<Option<usize>>) {
    let (mut arms, mut places) = (Vec::new(), Vec::new());
    let none = !top.has("arm") && !top.has("factors") && !top.has("search");
    if none {
        top.lacks(
            "arm",
            "there is no [[arm]], no [factors] and no [search]: nothing is tried",
        );
    }
    top.tables("arm", |t| {
        places.push(t.line());
        arms.push(arm(t, base));
    });
    top.table("factors", |t| {
        let line = t.line();
        let factors = factors(t, base);
        let crossed: usize = factors
            .iter()
            .map(|levels| levels.len().min(MOST + 1))
            .fold(1, usize::saturating_mul);
        if crossed > MOST {
            t.refuse(format!(
                "their cross has more than {MOST} arms; leave some levels out"
            ));
        } else if t.is_empty() {
            t.refuse("is empty: name what varies, as in memory_max = [\"128G\", \"256G\"]");
        } else if !factors.is_empty() {
            let cross = cross(&factors);
            places.extend(cross.iter().map(|_| line));
            arms.extend(cross);
        }
    });
    if arms.len() > MOST {
        top.errors().push(
            None,
            format!("there are {} arms; {MOST} at most", arms.len()),
        );
    }
    (arms, places)
}

fn arm(t: &mut Table<'_>, base: &Base) -> Arm {
    let mut arm = Arm {
        name: t.need("name", |v| plain_name(text(v)?)).unwrap_or_default(),
        memory_max: t.take("memory_max", |v| memory(&size(v)?)),
        memory_high: t.take("memory_high", |v| memory(&size(v)?)),
        swap_max: t.take("swap_max", |v| size(v).map(|bytes| bytes / PAGE * PAGE)),
        cache_entries: t.take("cache_entries", |v| within(v, 1..=u32::MAX)),
        binary: t.take("binary", |v| base.path(v)),
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
            device: t.need("device", |v| base.path(v)).unwrap_or_default(),
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
    settle(arm)
}

/// Memory above the limit must not go to swap unnoticed.
fn settle(mut arm: Arm) -> Arm {
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
    sets: Arm,
}

/// 1G and 1024M are equal.
impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.sets == other.sets
    }
}

fn factors(t: &mut Table<'_>, base: &Base) -> Vec<Vec<Level>> {
    let written = |v: &DeValue<'_>| v.as_str().unwrap_or_default().trim().to_owned();
    let mut all = vec![
        unnamed(t, "memory_max", |v, arm| {
            arm.memory_max = Some(memory(&size(v)?)?);
            Ok(written(v))
        }),
        unnamed(t, "memory_high", |v, arm| {
            arm.memory_high = Some(memory(&size(v)?)?);
            Ok(format!("high-{}", written(v)))
        }),
        unnamed(t, "swap_max", |v, arm| {
            arm.swap_max = Some(size(v)? / PAGE * PAGE);
            Ok(format!("swap-{}", written(v)))
        }),
        unnamed(t, "cache_entries", |v, arm| {
            let entries = within(v, 1..=u32::MAX)?;
            arm.cache_entries = Some(entries);
            Ok(format!("cache-{entries}"))
        }),
        unnamed(t, "cpus", |v, arm| {
            let cpus = CpuSet::parse(&text(v)?)?;
            let name = format!("cpus-{cpus}");
            arm.cpus = Some(cpus);
            Ok(name)
        }),
    ];
    all.push(named(t, "binary", |v, arm| {
        arm.binary = Some(base.path(v)?);
        Ok(())
    }));
    all.push(named(t, "arguments", |v, arm| {
        arm.arguments = several(v, argument)?;
        Ok(())
    }));
    all.push(named(t, "environment", |v, arm| {
        arm.environment = variables(v)?;
        Ok(())
    }));
    all.into_iter().flatten().collect()
}

/// `read` sets the value in the arm and returns the level's name.
fn unnamed(
    t: &mut Table<'_>,
    key: &'static str,
    read: impl Fn(&DeValue<'_>, &mut Arm) -> Result<String, String>,
) -> Option<Vec<Level>> {
    t.take(key, |value| {
        let levels = distinct(value, |value| {
            let mut sets = Arm::default();
            let name = read(value, &mut sets)?;
            Ok(Level { name, sets })
        })?;
        if levels.is_empty() {
            Err("is empty: name its levels".to_owned())
        } else {
            Ok(levels)
        }
    })
}

fn named(
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
        let mut sets = Arm::default();
        read(value, &mut sets)?;
        Ok(Level { name, sets })
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
    arms.into_iter().map(settle).collect()
}

fn joined(arm: &Arm, level: &Level) -> Arm {
    let Level { name, sets } = level.clone();
    let mut joined = arm.clone();
    joined.name = if arm.name.is_empty() {
        name
    } else {
        format!("{} {name}", arm.name)
    };
    joined.memory_max = sets.memory_max.or(joined.memory_max);
    joined.memory_high = sets.memory_high.or(joined.memory_high);
    joined.swap_max = sets.swap_max.or(joined.swap_max);
    joined.cache_entries = sets.cache_entries.or(joined.cache_entries);
    joined.cpus = sets.cpus.or(joined.cpus);
    joined.binary = sets.binary.or(joined.binary);
    joined.arguments.extend(sets.arguments);
    joined.environment.extend(sets.environment);
    joined
}
