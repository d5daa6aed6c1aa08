//! Datapoints beyond the catalog, as the operator's allow-list asks for them.

use crate::config::{AllowedKind, Datapoints};
use faultline_agave::line::{Point, Value};
use faultline_catalog::metrics::{daemon, validator as v};
use faultline_catalog::{Reading, Text};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One wanted field.
#[derive(Debug, Clone)]
struct Wanted {
    name: Arc<str>,
    field: Arc<str>,
    kind: AllowedKind,
    tags: Vec<Arc<str>>,
}

/// The allow-list, ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct AllowList {
    by_name: HashMap<Arc<str>, Vec<Wanted>>,
    max_series: usize,
}

impl AllowList {
    /// From the configuration.
    pub fn new(config: &Datapoints) -> Self {
        let mut by_name: HashMap<Arc<str>, Vec<Wanted>> = HashMap::new();
        for allowed in &config.allow {
            let name: Arc<str> = allowed.name.as_str().into();
            let tags = allowed.tags.iter().map(|tag| label_name(tag).into()).collect();
            let wanted =
                Wanted { name: Arc::clone(&name), field: allowed.field.as_str().into(), kind: allowed.kind, tags };
            by_name.entry(name).or_default().push(wanted);
        }
        AllowList { by_name, max_series: usize::try_from(config.max_series).unwrap_or(usize::MAX) }
    }

    /// Whether any field of the datapoint of this name is wanted.
    pub fn wants(&self, name: &[u8]) -> bool {
        !self.by_name.is_empty() && std::str::from_utf8(name).is_ok_and(|name| self.by_name.contains_key(name))
    }
}

/// A tag's key as a label's name: what a label may not hold becomes an underscore.
fn label_name(tag: &str) -> String {
    let fits = |(i, c): (usize, char)| c == '_' || c.is_ascii_alphabetic() || (i > 0 && c.is_ascii_digit());
    tag.char_indices().map(|(i, c)| if fits((i, c)) { c } else { '_' }).collect()
}

/// (name, field, tag values).
type Key = (Arc<str>, Arc<str>, Vec<Arc<str>>);

/// The values of allowed fields.
#[derive(Debug, Clone, Default)]
pub struct Values {
    /// (tag names, validator's time, value).
    levels: BTreeMap<Key, (Vec<Arc<str>>, i64, f64)>,
    sums: BTreeMap<Key, (Vec<Arc<str>>, f64)>,
    overflow: u64,
}

/// No delta is more, see [`super::tally`].
const MOST_DELTA: f64 = 9_007_199_254_740_992.0;

impl Values {
    /// Takes the wanted fields of a point; true if there was one.
    pub fn add(&mut self, list: &AllowList, point: &Point<'_>) -> bool {
        let Some(wanted) = list.by_name.get(point.name()) else { return false };
        let time = point.timestamp().unwrap_or(0);
        let mut used = false;
        for want in wanted {
            let field = point.field(&want.field);
            let Some(value) = field.and_then(|field| field.value().ok()).and_then(number) else { continue };
            used = true;
            let tags = want.tags.iter().map(|tag| value_of(point, tag)).collect();
            let key = (Arc::clone(&want.name), Arc::clone(&want.field), tags);
            self.take(list.max_series, want, key, time, value);
        }
        used
    }

    fn take(&mut self, most: usize, want: &Wanted, key: Key, time: i64, value: f64) {
        let full = self.levels.len() + self.sums.len() >= most;
        let known = self.levels.contains_key(&key) || self.sums.contains_key(&key);
        if full && !known {
            self.overflow += 1;
            return;
        }
        match want.kind {
            AllowedKind::Level => {
                let level = self.levels.entry(key).or_insert((want.tags.clone(), time, value));
                if time >= level.1 {
                    (level.1, level.2) = (time, value);
                }
            }
            // A delta below zero is a wrapped cast: a sum never falls. Nor does it become infinite.
            AllowedKind::Delta if (0.0..=MOST_DELTA).contains(&value) => {
                self.sums.entry(key).or_insert((want.tags.clone(), 0.0)).1 += value
            }
            AllowedKind::Delta => {}
        }
    }

    /// Adds what other values of the same validator hold.
    pub fn merge(&mut self, most: usize, other: Values) {
        self.overflow += other.overflow;
        for (key, (tags, time, value)) in other.levels {
            let room = self.levels.len() + self.sums.len() < most;
            match self.levels.get_mut(&key) {
                Some(level) if time >= level.1 => *level = (tags, time, value),
                Some(_) => {}
                None if room => {
                    self.levels.insert(key, (tags, time, value));
                }
                None => self.overflow += 1,
            }
        }
        for (key, (tags, value)) in other.sums {
            let room = self.levels.len() + self.sums.len() < most;
            match self.sums.get_mut(&key) {
                Some(sum) => sum.1 += value,
                None if room => {
                    self.sums.insert(key, (tags, value));
                }
                None => self.overflow += 1,
            }
        }
    }

    /// Forgets levels: the process that had them ended.
    pub fn forget_levels(&mut self) {
        self.levels.clear();
    }

    /// Levels while `fresh`, and sums.
    pub fn readings(&self, fresh: bool, out: &mut Vec<Reading>) {
        if fresh {
            out.extend(self.levels.iter().map(|(key, (tags, _, value))| reading(&v::DATAPOINT, key, tags, *value)));
        }
        out.extend(self.sums.iter().map(|(key, (tags, value))| reading(&v::DATAPOINT_SUM, key, tags, *value)));
        out.push(Reading::counter(&daemon::DATAPOINT_OVERFLOW, [], self.overflow));
    }
}

impl AllowList {
    /// At most this many series.
    pub fn max_series(&self) -> usize {
        self.max_series
    }
}

fn reading(metric: &'static faultline_catalog::Metric, key: &Key, tags: &[Arc<str>], value: f64) -> Reading {
    let (name, field, values) = key;
    let tags = tags.iter().cloned().map(Text::Shared).zip(values.iter().cloned().map(Text::Shared)).collect();
    Reading::real(metric, [Arc::clone(name).into(), Arc::clone(field).into()], value).with_tags(tags)
}

fn value_of(point: &Point<'_>, label: &str) -> Arc<str> {
    let tag = point.tags().flatten().find(|tag| label_name(tag.key) == label);
    tag.map_or("", |tag| tag.value).into()
}

fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Int(n) => Some(n as f64),
        Value::Float(x) => Some(x).filter(|x| x.is_finite()),
        Value::Bool(b) => Some(f64::from(u8::from(b))),
        Value::Str(_) => None,
    }
}
