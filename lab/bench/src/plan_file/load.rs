//! Parses a plan and reports all mistakes at once.

use super::requests::{AnswerCheck, Request, requests};
use super::{ENCODING, printable_name};
use crate::answer::{Encoding, Expected};
use crate::args::{RATE_RANGE, is_valid_timeout, valid_answer_limit};
use crate::endpoint::Endpoint;
use crate::plan::{Cell, LinkKind, MAX_REQUESTS, Plan};
use crate::preset;
use crate::protocol::Protocol;
use crate::stream::LinkShape;
use crate::values::{self, Value, ValueSource};
use faultline_settings::{
    ConfigError, Table, Unique, choice, distinct, flag, number, size, text, time, whole, within,
};
use std::path::{Path, PathBuf};
use toml::de::DeValue;

const MAX_ARMS: usize = 16;

struct FileArm {
    name: String,
    link: LinkKind,
    encoding: Option<String>,
    /// Overrides that of every request.
    method: Option<String>,
}

/// Relative paths are relative to the folder of `file`.
pub(super) fn parse(text: &str, file: &Path) -> Result<(Plan, Option<PathBuf>), Vec<ConfigError>> {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let (read, mistakes) = faultline_settings::read_secret(text, Some(file), |mut top| {
        let mut plan = Plan::default();
        let ca_file = top.take("ca", |v| Ok(folder.join(self::text(v)?)));
        schedule(&mut top, &mut plan);
        let arms = arms(&mut top);
        let values = values(&mut top, &folder);
        let encodings = arms.iter().any(|arm| arm.encoding.is_some());
        let requests = requests(&mut top, &values, encodings);
        let errors = top.errors();
        top.finish();
        fill(&mut plan, arms, values, requests);
        let count = plan.requests();
        if errors.is_empty() && count > MAX_REQUESTS {
            let most = format!("at most {MAX_REQUESTS}; set fewer rounds");
            errors.push(None, format!("{count} requests are too many: {most}"));
        }
        (plan, ca_file)
    });
    read.filter(|_| mistakes.is_empty()).ok_or(mistakes)
}

fn schedule(top: &mut Table<'_>, plan: &mut Plan) {
    top.set("rounds", &mut plan.rounds, |v| within(v, 1..=u32::MAX));
    top.set("warm_up", &mut plan.warm_up, |v| within(v, 0..=u32::MAX));
    top.set("seed", &mut plan.seed, whole);
    plan.rate = top.take("rate", |v| {
        let rate = number(v)?;
        let fits = RATE_RANGE.contains(&rate).then_some(rate);
        fits.ok_or_else(|| format!("{rate} is not from 0.001 to 1000000"))
    });
    plan.workers = preset::workers(None, plan.rate);
    top.set("workers", &mut plan.workers, |v| {
        within(v, 1..=1024_u16).map(usize::from)
    });
    top.set("timeout", &mut plan.timeout, |v| {
        let fits = Some(time(v)?).filter(|timeout| is_valid_timeout(*timeout));
        fits.ok_or_else(|| "a time from 1ms to 1h is wanted".to_owned())
    });
    top.set("max_answer", &mut plan.limit, |v| {
        valid_answer_limit(size(v)?).ok_or_else(|| "a size from 1K to 1G is wanted".to_owned())
    });
}

/// The name of an entry, which must be unique.
fn name(
    t: &mut Table<'_>,
    names: &mut Unique<String>,
    kind: &str,
    read: impl FnOnce(&DeValue<'_>) -> Result<String, String>,
) -> Option<String> {
    let name = t.need("name", read)?;
    let what = format!("{kind} {name:?}");
    names
        .insert(name.clone(), t.line_of("name"), what, t.errors())
        .then_some(name)
}

fn arms(top: &mut Table<'_>) -> Vec<FileArm> {
    let (mut arms, mut names) = (Vec::new(), Unique::default());
    if !top.has("arm") {
        top.lacks(
            "arm",
            "[[arm]] is missing: say which node is asked, with name and url",
        );
    }
    top.tables("arm", |t| {
        let name = name(t, &mut names, "arm", printable_name);
        let protocol = t
            .take("transport", |v| choice(v, &Protocol::ALL))
            .unwrap_or(Protocol::Http);
        let endpoint = t.need("url", |v| match protocol {
            Protocol::WebSocket => Endpoint::read_websocket(&text(v)?),
            _ => Endpoint::read(&text(v)?),
        });
        let shape = t.take("link", |v| {
            let spelled = text(v)?;
            let wrong = || format!("{spelled:?} is no link, as 30ms and 30ms@20Mbit are");
            LinkShape::read(&spelled).ok_or_else(wrong)
        });
        let encoding = t.take("encoding", printable_name);
        let method = t.take("method", printable_name);
        if arms.len() == MAX_ARMS {
            t.refuse(format!("there are more than {MAX_ARMS} arms"));
        }
        if let Some((name, endpoint)) = name.zip(endpoint) {
            arms.push(FileArm {
                name,
                link: LinkKind {
                    endpoint,
                    shape: shape.unwrap_or_default(),
                    protocol,
                },
                encoding,
                method,
            });
        }
    });
    arms
}

fn values(top: &mut Table<'_>, folder: &Path) -> Vec<Value> {
    let (mut values, mut names): (Vec<Value>, _) = (Vec::new(), Unique::default());
    top.tables("value", |t| {
        let name = name(t, &mut names, "value", value_name);
        let range = (t.take("from", whole), t.take("to", whole));
        let hex = t.take("hex", flag).unwrap_or(false);
        let list = t.take("list", |v| non_empty(distinct(v, list_item)?));
        let file = t.take("file", |v| lines(&folder.join(text(v)?)));
        let kinds = [t.has("from") || t.has("to"), t.has("list"), t.has("file")];
        if kinds.iter().filter(|is| **is).count() != 1 {
            t.refuse("one of these is wanted: from and to; list; file");
            return;
        }
        if t.has("hex") && !kinds[0] {
            t.refuse("hex is for from and to only; leave it out");
        }
        let of = match range {
            (Some(from), Some(to)) if from <= to => Some(ValueSource::Range { from, to, hex }),
            (Some(from), Some(to)) => {
                t.refuse(format!("from = {from} is above to = {to}"));
                None
            }
            _ => {
                let missing = t.missing(&["from", "to"]);
                if kinds[0] && !missing.is_empty() {
                    t.refuse(format!("{} is missing", missing.join(" and ")));
                }
                list.or(file).map(|list| ValueSource::List(list.into()))
            }
        };
        values.extend(name.zip(of).map(|(name, of)| Value { name, of }));
    });
    values
}

fn value_name(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    if values::is_name(&name) && name != ENCODING {
        return Ok(name);
    }
    Err(format!(
        "{name:?}: a name has up to 40 of a to z, 0 to 9, _ and -, a letter first, and not \"encoding\""
    ))
}

/// Escaped for a JSON string.
fn list_item(value: &DeValue<'_>) -> Result<String, String> {
    if matches!(value, DeValue::Integer(_)) {
        return whole(value).map(|number| number.to_string());
    }
    Ok(json_escaped(&text(value)?))
}

/// Escaped for a JSON string.
fn json_escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.strip_prefix('"')
        .and_then(|json| json.strip_suffix('"'))
        .unwrap_or_default()
        .to_owned()
}

fn lines(file: &Path) -> Result<Vec<String>, String> {
    let text = super::read_file(file).map_err(|what| format!("{}: {what}", file.display()))?;
    let lines = text.lines().map(str::trim);
    non_empty(
        lines
            .filter(|line| !line.is_empty())
            .map(json_escaped)
            .collect(),
    )
}

fn non_empty(list: Vec<String>) -> Result<Vec<String>, String> {
    if list.is_empty() {
        Err("has no value to draw from".to_owned())
    } else {
        Ok(list)
    }
}

fn fill(plan: &mut Plan, arms: Vec<FileArm>, values: Vec<Value>, requests: Vec<Request>) {
    let weighted = requests.iter().any(|request| request.weight.is_some());
    for (subject, request) in requests.into_iter().enumerate() {
        for (index, arm) in arms.iter().enumerate() {
            let method = arm.method.as_ref().unwrap_or(&request.method);
            let encoding = arm.encoding.as_deref().unwrap_or_default();
            let placeholder = format!("{{{ENCODING}}}");
            let params = request
                .params
                .replace(&placeholder, &json_escaped(encoding));
            let expected = match request.answer {
                AnswerCheck::Any => Expected::Json { same: false },
                // With one arm there is nothing to compare.
                AnswerCheck::Same => Expected::json(method, arms.len() > 1),
                AnswerCheck::Account => Expected::Account(
                    Encoding::named(encoding)
                        .or(request.encoding)
                        .unwrap_or(Encoding::Base64),
                ),
            };
            plan.cells.push(Cell {
                arm: index,
                subject,
                link: index,
                method: format!(r#""method":"{}","params":{params}"#, json_escaped(method)),
                numbers: None,
                expected,
            });
        }
        plan.subjects.push(request.name);
        if weighted {
            plan.weights.push(request.weight.unwrap_or(1));
        }
    }
    plan.values = values;
    for arm in arms {
        plan.arms.push(arm.name);
        plan.links.push(arm.link);
    }
}
