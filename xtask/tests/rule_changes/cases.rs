//! The cases of `grafana/prometheus/tests`, and their variants with changed targets.

use crate::samples::Samples;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The interval at which promtool evaluates the rules. The files have the same interval.
const EVALUATION: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    series: Vec<(String, Samples)>,
    moments: Vec<Moment>,
}

/// The expected alerts of one name at one time.
#[derive(Debug, Clone)]
struct Moment {
    time: Duration,
    alert: String,
    /// The labels of each alert that fires.
    firing: Vec<Vec<(String, String)>>,
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../grafana/prometheus")
}

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Parses durations such as `1h30m` and `15s`.
fn duration(text: &str) -> Duration {
    let mut total = 0;
    let mut number = 0;
    for c in text.chars() {
        match c.to_digit(10) {
            Some(digit) => number = number * 10 + u64::from(digit),
            None => {
                let unit = match c {
                    's' => 1,
                    'm' => 60,
                    'h' => 3_600,
                    'd' => 86_400,
                    _ => panic!("{text} is no duration"),
                };
                total += std::mem::take(&mut number) * unit;
            }
        }
    }
    Duration::from_secs(total)
}

/// The parsed files of tests.
fn files() -> Vec<Value> {
    let files = fs::read_dir(folder().join("tests")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| yaml(file)).collect()
}

/// All cases that expect alerts, or their absence.
pub fn all() -> Vec<Case> {
    let files = files();
    let tests = files.iter().flat_map(|file| list(&file["tests"]));
    let cases = tests.map(case);
    cases.filter(|case| !case.moments.is_empty()).collect()
}

/// Writes every test without changes. Tests of the same alerts share a file, which has the rules of these alerts. Tests that name no
/// alert get all rules.
pub fn write_unchanged(into: &Path) -> Vec<PathBuf> {
    let mut of_alerts: BTreeMap<(BTreeSet<String>, Duration), Vec<Value>> = BTreeMap::new();
    for file in files() {
        let interval = duration(file["evaluation_interval"].as_str().unwrap());
        for test in list(&file["tests"]) {
            let alerts = list(&test["alert_rule_test"]).map(|moment| text(&moment["alertname"]));
            let tests = of_alerts.entry((alerts.collect(), interval)).or_default();
            tests.push(test.clone());
        }
    }
    let mut written = Vec::new();
    for (number, ((alerts, interval), tests)) in of_alerts.iter().enumerate() {
        let groups = groups(&alerts.iter().map(String::as_str).collect(), "rules");
        let folder = into.join(number.to_string());
        written.push(write_file(&folder, &groups, tests, *interval));
    }
    written
}

fn case(test: &Value) -> Case {
    let interval = duration(test["interval"].as_str().unwrap_or("1m"));
    let series = list(&test["input_series"])
        .map(|series| {
            let values = series["values"].as_str().unwrap();
            (text(&series["series"]), Samples::parse(values, interval))
        })
        .collect();
    let moments = list(&test["alert_rule_test"]).map(|moment| Moment {
        time: duration(moment["eval_time"].as_str().unwrap()),
        alert: text(&moment["alertname"]),
        firing: list(&moment["exp_alerts"])
            .map(|alert| labels(&alert["exp_labels"]))
            .collect(),
    });
    Case {
        name: text(&test["name"]),
        series,
        moments: moments.collect(),
    }
}

fn labels(labels: &Value) -> Vec<(String, String)> {
    let labels = labels.as_object().unwrap().iter();
    labels
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

/// The series with another instance and additional labels. `None` if the series has no instance.
fn renamed(series: &str, suffix: &str, labels: &str) -> Option<String> {
    let (before, rest) = series.split_once("instance=\"")?;
    let (instance, after) = rest.split_once('"')?;
    Some(format!(
        "{before}instance=\"{instance}{suffix}\",{labels}{after}"
    ))
}

impl Case {
    pub fn alerts(&self) -> BTreeSet<&str> {
        self.moments
            .iter()
            .map(|moment| moment.alert.as_str())
            .collect()
    }

    /// The case with another scrape interval. The next scrape sees a change later, so alerts may fire one evaluation later.
    pub fn scraped_each(&self, interval: Duration) -> Self {
        let mut case = self.clone();
        let mut delay = Duration::ZERO;
        for (_, samples) in &mut case.series {
            delay = interval.saturating_sub(samples.interval);
            *samples = samples.at(interval);
        }
        let mut has_fired = false;
        for moment in &mut case.moments {
            has_fired |= !moment.firing.is_empty();
            if has_fired && !delay.is_zero() {
                moment.time += EVALUATION;
            }
        }
        case
    }

    /// Adds copies of each instance: two that differ by `rack`, two that differ by `replica`, and one whose `rack` changes when `share`
    /// of the time until its alert fires has passed.
    pub fn with_changes(&self, share: f64) -> Self {
        let change = self.first_firing().mul_f64(share);
        let mut case = self.clone();
        for (series, samples) in &self.series {
            let [ended, goes_on] = samples.split(change);
            for (suffix, label, samples) in [
                (" doubled", "rack=\"one\"", samples),
                (" doubled", "rack=\"two\"", samples),
                (" replicas", "replica=\"a\"", samples),
                (" replicas", "replica=\"b\"", samples),
                (" changed", "rack=\"one\"", &ended),
                (" changed", "rack=\"two\"", &goes_on),
            ] {
                let name = renamed(series, suffix, label);
                case.series.extend(name.map(|name| (name, samples.clone())));
            }
        }
        for moment in &mut case.moments {
            let copies = moment.firing.iter().flat_map(|labels| {
                let is_instance = |(name, _): &(String, String)| name == "instance";
                let at = labels.iter().position(is_instance);
                at.into_iter().flat_map(move |at| {
                    [" doubled", " replicas", " changed"].map(|suffix| {
                        let mut copy = labels.clone();
                        copy[at].1 += suffix;
                        copy
                    })
                })
            });
            let copies: Vec<_> = copies.collect();
            moment.firing.extend(copies);
        }
        case
    }

    /// The first time at which an alert is expected to fire. If none is, the last time.
    fn first_firing(&self) -> Duration {
        let fires = |moment: &&Moment| !moment.firing.is_empty();
        let firing = self.moments.iter().filter(fires);
        let times = firing.map(|moment| moment.time).min();
        let last = self.moments.iter().map(|moment| moment.time);
        times.or(last.max()).unwrap()
    }

    /// A test of promtool. It ignores alerts of instances whose name ends with `ignored`.
    fn test(&self, ignored: &str) -> Value {
        let interval = self.series.first().map_or(EVALUATION, |(_, s)| s.interval);
        let series: Vec<_> = self
            .series
            .iter()
            .map(|(name, samples)| json!({ "series": name, "values": samples.text() }))
            .collect();
        let moments: Vec<_> = self
            .moments
            .iter()
            .map(|moment| moment.test(ignored))
            .collect();
        json!({
            "name": self.name,
            "interval": format!("{}s", interval.as_secs()),
            "input_series": series,
            "promql_expr_test": moments,
        })
    }
}

impl Moment {
    fn test(&self, ignored: &str) -> Value {
        let looked_at = |labels: &&Vec<(String, String)>| {
            let mut labels = labels.iter();
            let instance = labels.find(|(name, _)| name == "instance");
            ignored.is_empty() || instance.is_none_or(|(_, value)| !value.ends_with(ignored))
        };
        let firing: Vec<_> = self
            .firing
            .iter()
            .filter(looked_at)
            .map(|labels| {
                let labels: String = labels
                    .iter()
                    .map(|(name, value)| format!(",{name}={value:?}"))
                    .collect();
                let alert = &self.alert;
                let labels = format!("{{alertname=\"{alert}\",alertstate=\"firing\"{labels}}}");
                json!({ "labels": labels, "value": 1 })
            })
            .collect();
        let except = match ignored {
            "" => String::new(),
            suffix => format!(",instance!~\".*{suffix}\""),
        };
        let alert = &self.alert;
        json!({
            // vmalert adds the label `alertgroup`.
            "expr": format!("max without (alertgroup) (ALERTS{{alertname=\"{alert}\",alertstate=\"firing\"{except}}})"),
            "eval_time": format!("{}s", self.time.as_secs()),
            "exp_samples": firing,
        })
    }
}

/// Writes a file of tests with the rules of their alerts and the recording rules that these read. There are no other rules, because
/// promtool would evaluate them, too.
pub fn write(into: &Path, cases: &[Case], ignored: &str, rules: &str) -> PathBuf {
    let tests: Vec<_> = cases.iter().map(|case| case.test(ignored)).collect();
    let groups = groups(&cases.iter().flat_map(Case::alerts).collect(), rules);
    write_file(into, &groups, &tests, EVALUATION)
}

fn write_file(into: &Path, groups: &[Value], tests: &[Value], evaluation: Duration) -> PathBuf {
    let order: Vec<_> = groups.iter().map(|group| group["name"].clone()).collect();
    fs::create_dir_all(into).unwrap();
    let rules = into.join("rules.json");
    // JSON is YAML.
    fs::write(&rules, json!({ "groups": groups }).to_string()).unwrap();
    let file = into.join("tests.json");
    let content = json!({
        "rule_files": [rules],
        "evaluation_interval": format!("{}s", evaluation.as_secs()),
        "group_eval_order": order,
        "tests": tests,
    });
    fs::write(&file, content.to_string()).unwrap();
    file
}

/// The groups of the folder `rules` that have these alerts. All groups if `alerts` is empty.
fn groups(alerts: &BTreeSet<&str>, rules: &str) -> Vec<Value> {
    let [mut recorded, mut groups] = ["recording", "alerts"].map(|name| {
        let rules = yaml(&folder().join(rules).join(format!("faultline.{name}.yml")));
        list(&rules["groups"]).cloned().collect::<Vec<_>>()
    });
    keep(&mut groups, |rule| {
        rule["alert"]
            .as_str()
            .is_some_and(|name| alerts.is_empty() || alerts.contains(name))
    });
    let read: String = groups
        .iter()
        .flat_map(|group| list(&group["rules"]))
        .map(|rule| text(&rule["expr"]))
        .collect();
    keep(&mut recorded, |rule| {
        rule["record"]
            .as_str()
            .is_some_and(|name| read.contains(name))
    });
    recorded.append(&mut groups);
    recorded
}

/// Removes unwanted rules, and groups without rules.
fn keep(groups: &mut Vec<Value>, wanted: impl Fn(&Value) -> bool) {
    for group in groups.iter_mut() {
        group["rules"].as_array_mut().unwrap().retain(&wanted);
    }
    groups.retain(|group| list(&group["rules"]).count() > 0);
}
