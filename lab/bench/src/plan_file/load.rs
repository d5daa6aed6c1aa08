//! Parses a plan and reports all mistakes at once.

use super::{ENCODING, printable_name};
use crate::{
    answer::{Encoding, Expected},
    args::{RATE_RANGE, is_valid_timeout, valid_answer_limit},
    endpoint::Endpoint,
    plan::{Cell, LinkConfig, MAX_REQUESTS, Plan},
    preset,
    protocol::Protocol,
    stream::LinkShape,
    values::{self, Value, ValueSource},
};
use faultline_settings::{
    ConfigError, Table, Unique, choice, distinct, flag, number, size, text, time, whole, within,
};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

const MAX_ARMS: usize = 16;
const MAX_PLAN_REQUESTS: usize = 1000;

/// What an arm says about every request.
struct ArmOptions {
    encoding: Option<String>,
    /// Overrides that of the request.
    method: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnswerCheck {
    Same,
    Any,
    /// An account with the same data in every encoding.
    Account,
}

#[derive(Debug)]
struct Request {
    name: String,
    method: String,
    /// With placeholders in braces.
    params: String,
    weight: Option<u32>,
    answer: AnswerCheck,
    encoding: Option<Encoding>,
}

/// Relative paths are relative to the folder of `file`.
pub fn parse(text: &str, file: &Path) -> Result<(Plan, Option<PathBuf>), Vec<ConfigError>> {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let (read, mistakes) = faultline_settings::read(text, Some(file), false, |mut top| {
        let mut plan = Plan::default();
        let ca_file = top.take("ca", |v| Ok(folder.join(self::text(v)?)));
        schedule(&mut top, &mut plan);
        let arms = arms(&mut top, &mut plan);
        plan.values = values(&mut top, &folder);
        let encodings = arms.iter().any(|arm| arm.encoding.is_some());
        let requests = requests(&mut top, &plan.values, encodings);
        let errors = top.errors();
        top.finish();
        fill(&mut plan, &arms, requests);
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

fn arms(top: &mut Table<'_>, plan: &mut Plan) -> Vec<ArmOptions> {
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
            Protocol::WebSocket => Endpoint::parse_websocket(&text(v)?),
            _ => Endpoint::parse(&text(v)?),
        });
        let shape = t.take("link", |v| {
            let spelled = text(v)?;
            let wrong = || format!("{spelled:?} is no link, as 30ms and 30ms@20Mbit are");
            LinkShape::parse(&spelled).ok_or_else(wrong)
        });
        let encoding = t.take("encoding", printable_name);
        let method = t.take("method", printable_name);
        if arms.len() == MAX_ARMS {
            t.refuse(format!("there are more than {MAX_ARMS} arms"));
        }
        if let Some((name, endpoint)) = name.zip(endpoint) {
            plan.arms.push(name);
            plan.links.push(LinkConfig {
                endpoint,
                shape: shape.unwrap_or_default(),
                protocol,
            });
            arms.push(ArmOptions { encoding, method });
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
        values.extend(name.zip(of).map(|(name, source)| Value { name, source }));
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
    let json = Json::from(text).to_string();
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

/// `encodings`: an arm has an encoding, so requests may name `{encoding}`.
fn requests(top: &mut Table<'_>, values: &[Value], encodings: bool) -> Vec<Request> {
    let (mut requests, mut names): (Vec<Request>, _) = (Vec::new(), Unique::default());
    if !top.has("request") {
        top.lacks(
            "request",
            "[[request]] is missing: say what is asked, with method and params",
        );
    }
    // After a mistake, values may be missing, so parameters are not checked.
    let no_errors_yet = top.errors().is_empty();
    top.tables("request", |t| {
        let method = t.need("method", printable_name);
        let name = t.take("name", printable_name).or_else(|| method.clone());
        let params = t.take("params", |v| {
            let params = text(v)?;
            if no_errors_yet {
                check_params(params, values, encodings)
            } else {
                Ok(params)
            }
        });
        let weight = t.take("weight", |v| within(v, 1..=1_000_000));
        let words = [
            ("same", AnswerCheck::Same),
            ("any", AnswerCheck::Any),
            ("account", AnswerCheck::Account),
        ];
        let answer = t
            .take("answer", |v| choice(v, &words))
            .unwrap_or(AnswerCheck::Same);
        if let Some(name) = &name {
            let what = format!("request {name:?} (named by its method unless it has a name)");
            names.insert(name.clone(), t.line(), what, t.errors());
        }
        if requests.len() == MAX_PLAN_REQUESTS {
            t.refuse(format!("there are more than {MAX_PLAN_REQUESTS} requests"));
        }
        let params = params.unwrap_or_else(|| "[]".to_owned());
        let encoding = encoding(&params);
        let named = name.zip(method);
        requests.extend(named.map(|(name, method)| Request {
            name,
            method,
            params,
            weight,
            answer,
            encoding,
        }));
    });
    requests
}

fn encoding(params: &str) -> Option<Encoding> {
    let params: Json = serde_json::from_str(params).ok()?;
    params
        .as_array()?
        .iter()
        .find_map(|param| Encoding::named(param.get("encoding")?.as_str()?))
}

/// Fails unless the parameters are valid JSON with every value.
fn check_params(params: String, values: &[Value], encodings: bool) -> Result<String, String> {
    let is_known = |name: &str| {
        (encodings && name == ENCODING) || values.iter().any(|value| value.name == name)
    };
    if let Some(unknown) = values::names(&params).find(|name| !is_known(name)) {
        if unknown == ENCODING {
            return Err("{encoding} is that of an arm, and no [[arm]] has one".to_owned());
        }
        let known = match values {
            [] => "there is no [[value]]".to_owned(),
            _ => {
                let names = values.iter().map(|value| format!("{{{}}}", value.name));
                names.collect::<Vec<_>>().join(", ")
            }
        };
        return Err(format!("{{{unknown}}} stands for nothing; known: {known}"));
    }
    let mut drawn = false;
    for (index, value) in values.iter().enumerate() {
        if !values::names(&params).any(|name| name == value.name) {
            continue;
        }
        drawn = true;
        for sample in value.all_texts() {
            is_json(&values::fill_placeholders(&params, values, |at, other| {
                if at == index {
                    sample.clone()
                } else {
                    other.first()
                }
            }))?;
        }
    }
    if !drawn {
        is_json(&params)?;
    }
    Ok(params)
}

fn is_json(params: &str) -> Result<(), String> {
    let shown: String = params.chars().take(120).collect();
    match serde_json::from_str(params) {
        Ok(Json::Array(_) | Json::Object(_)) => Ok(()),
        Ok(_) => Err(format!(
            "`{shown}` is neither an array nor an object of JSON"
        )),
        Err(error) => Err(format!(
            "`{shown}` is no JSON: {error}; a text in braces needs its quotes, as in [\"{{account}}\"]"
        )),
    }
}

fn fill(plan: &mut Plan, arms: &[ArmOptions], requests: Vec<Request>) {
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
                AnswerCheck::Any => Expected::Unverified,
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
}
