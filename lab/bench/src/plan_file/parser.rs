//! Parses a plan and reports its mistakes together. Parameters are checked only if the schedule,
//! arms and values have no mistake. The number of requests is checked only if the plan has no other
//! mistake.

use crate::{
    answer::{Encoding, Expected},
    args::{RATE_RANGE, is_valid_timeout, valid_answer_limit},
    endpoint::Endpoint,
    plan::{Case, ConnectionConfig, MAX_REQUESTS, Plan},
    protocol::{Named, Protocol},
    session,
    stream::LinkShape,
    values::{self, Placeholder, ValueSource},
};
use faultline_settings::{
    ConfigError, Table, Unique, choice, distinct, flag, number, size, text, time, whole_number,
    whole_number_within,
};
use faultline_text::is_unsafe_char;
use itertools::Itertools;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

const MAX_ARMS: usize = 16;
const MAX_REQUEST_TABLES: usize = 1000;

/// The placeholder that becomes an arm's encoding.
const ENCODING_NAME: &str = "encoding";

struct ArmOptions {
    encoding: Option<String>,
    /// Overrides the method of the request.
    method: Option<String>,
}

/// How the answers to a request are compared between arms.
#[derive(Clone, Copy, PartialEq)]
enum AnswerCheck {
    Same,
    /// Answers are not compared.
    Any,
    /// Accounts of the same slot must be equal.
    Account,
}

/// Returns the plan and the file of trusted certificates. Relative paths start in the folder of
/// `file`.
pub fn parse(text: &str, file: &Path) -> Result<(Plan, Option<PathBuf>), Vec<ConfigError>> {
    let folder = file.parent().unwrap_or(Path::new(""));
    // A line may contain an API key, so errors do not quote it.
    let quotes_line = false;
    let (parsed, errors) = faultline_settings::read(text, Some(file), quotes_line, |mut top| {
        let mut plan = Plan::default();
        let ca_file = top.read("ca", |v| Ok(folder.join(self::text(v)?)));
        read_schedule(&mut top, &mut plan);
        let arms = read_arms(&mut top, &mut plan);
        plan.placeholders = read_placeholders(&mut top, folder);
        read_requests(&mut top, &mut plan, &arms);
        let errors = top.errors();
        top.finish();
        let count = plan.request_count();
        if errors.is_empty() && count > MAX_REQUESTS {
            let most = format!("at most {MAX_REQUESTS}; set fewer rounds");
            errors.push(None, format!("{count} requests are too many: {most}"));
        }
        (plan, ca_file)
    });
    parsed.filter(|_| errors.is_empty()).ok_or(errors)
}

fn read_schedule(top: &mut Table<'_>, plan: &mut Plan) {
    top.read_into("rounds", &mut plan.rounds, |v| {
        whole_number_within(v, 1..=u32::MAX)
    });
    top.read_into("warm_up", &mut plan.warm_up, |v| {
        whole_number_within(v, 0..=u32::MAX)
    });
    top.read_into("seed", &mut plan.seed, whole_number);
    plan.rate = top.read("rate", |v| {
        let rate = number(v)?;
        let valid = RATE_RANGE.contains(&rate).then_some(rate);
        valid.ok_or_else(|| format!("{rate} is not from 0.001 to 1000000"))
    });
    plan.workers = session::worker_count(None, plan.rate);
    top.read_into("workers", &mut plan.workers, |v| {
        whole_number_within(v, 1..=1024_u16).map(usize::from)
    });
    top.read_into("timeout", &mut plan.timeout, |v| {
        Some(time(v)?)
            .filter(is_valid_timeout)
            .ok_or_else(|| "a time from 1ms to 1h is wanted".to_owned())
    });
    top.read_into("max_answer", &mut plan.max_answer_bytes, |v| {
        valid_answer_limit(size(v)?).ok_or_else(|| "a size from 1K to 1G is wanted".to_owned())
    });
}

fn printable_name(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    if name.chars().count() <= 80 && !name.chars().any(is_unsafe_char) {
        return Ok(name);
    }
    Err(format!(
        "{name:?}: a name has up to 80 characters, none of them invisible or a control character"
    ))
}

/// `None` if the name is missing, invalid or taken.
fn unique_name(
    table: &mut Table<'_>,
    names: &mut Unique<String>,
    kind: &str,
    read: impl FnOnce(&DeValue<'_>) -> Result<String, String>,
) -> Option<String> {
    let name = table.read_required("name", read)?;
    let what = format!("{kind} {name:?}");
    names
        .insert(name.clone(), table.line_of("name"), what, table.errors())
        .then_some(name)
}

fn read_arms(top: &mut Table<'_>, plan: &mut Plan) -> Vec<ArmOptions> {
    let (mut arms, mut names) = (Vec::new(), Unique::default());
    if !top.has("arm") {
        top.report_missing("arm", "[[arm]] is missing: give a node, with name and url");
    }
    top.tables("arm", |table| {
        let name = unique_name(table, &mut names, "arm", printable_name);
        let protocol = table
            .read("transport", |v| choice(v, Protocol::ALL))
            .unwrap_or(Protocol::Http);
        let endpoint = table.read_required("url", |v| match protocol {
            Protocol::WebSocket => Endpoint::parse_websocket(&text(v)?),
            _ => Endpoint::parse(&text(v)?),
        });
        let link_shape = table.read("link", |v| {
            let link = text(v)?;
            LinkShape::parse(&link)
                .ok_or_else(|| format!("{link:?} is not a link: write it as 30ms or 30ms@20Mbit"))
        });
        let encoding = table.read("encoding", printable_name);
        let method = table.read("method", printable_name);
        if arms.len() == MAX_ARMS {
            table.report(format!("there are more than {MAX_ARMS} arms"));
        }
        if let Some((name, endpoint)) = name.zip(endpoint) {
            plan.arms.push(name);
            plan.connections.push(ConnectionConfig {
                endpoint,
                link_shape: link_shape.unwrap_or_default(),
                protocol,
            });
            arms.push(ArmOptions { encoding, method });
        }
    });
    arms
}

fn read_placeholders(top: &mut Table<'_>, folder: &Path) -> Vec<Placeholder> {
    let (mut placeholders, mut names) = (Vec::new(), Unique::default());
    top.tables("value", |table| {
        let name = unique_name(table, &mut names, "value", read_placeholder_name);
        let range = (
            table.read("from", whole_number),
            table.read("to", whole_number),
        );
        let is_hex = table.read("hex", flag).unwrap_or(false);
        let list = table.read("list", |v| non_empty(distinct(v, list_item)?));
        let lines = table.read("file", |v| read_lines(&folder.join(text(v)?)));
        let is_range = table.has("from") || table.has("to");
        let sources = [is_range, table.has("list"), table.has("file")];
        if sources.into_iter().filter(|given| *given).count() != 1 {
            table.report("one of these is wanted: from and to; list; file");
            return;
        }
        if table.has("hex") && !is_range {
            table.report("hex is for from and to only; leave it out");
        }
        let source = match range {
            (Some(from), Some(to)) if from <= to => Some(ValueSource::Range { from, to, is_hex }),
            (Some(from), Some(to)) => {
                table.report(format!("from = {from} is above to = {to}"));
                None
            }
            _ => {
                let missing = table.missing(&["from", "to"]);
                if is_range && !missing.is_empty() {
                    table.report(format!("{} is missing", missing.join(" and ")));
                }
                list.or(lines).map(|texts| ValueSource::List(texts.into()))
            }
        };
        placeholders.extend(
            name.zip(source)
                .map(|(name, source)| Placeholder { name, source }),
        );
    });
    placeholders
}

fn read_placeholder_name(value: &DeValue<'_>) -> Result<String, String> {
    let name = text(value)?;
    if values::is_placeholder_name(&name) && name != ENCODING_NAME {
        return Ok(name);
    }
    Err(format!(
        "{name:?}: a name has 1 to 40 characters of a to z, 0 to 9, _ and -, starts with a letter, and is not \"encoding\""
    ))
}

/// A number or a text, escaped for a JSON string.
fn list_item(value: &DeValue<'_>) -> Result<String, String> {
    if matches!(value, DeValue::String(_)) {
        return Ok(json_escaped(&text(value)?));
    }
    whole_number(value)
        .map(|number| number.to_string())
        .map_err(|why| format!("a string or {why}"))
}

fn json_escaped(text: &str) -> String {
    let json = Json::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

fn read_lines(file: &Path) -> Result<Vec<String>, String> {
    let text = super::read_file(file).map_err(|why| format!("{}: {why}", file.display()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    non_empty(lines.map(json_escaped).collect())
}

fn non_empty(texts: Vec<String>) -> Result<Vec<String>, String> {
    if texts.is_empty() {
        return Err("has no value to draw from".to_owned());
    }
    Ok(texts)
}

fn read_requests(top: &mut Table<'_>, plan: &mut Plan, arms: &[ArmOptions]) {
    if !top.has("request") {
        top.report_missing(
            "request",
            "[[request]] is missing: give a request, with method and params",
        );
    }
    let has_encoding = arms.iter().any(|arm| arm.encoding.is_some());
    // After a mistake, `plan.placeholders` may be incomplete.
    let no_errors_yet = top.errors().is_empty();
    let (mut names, mut is_weighted) = (Unique::default(), false);
    top.tables("request", |table| {
        let method = table.read_required("method", printable_name);
        let name = table
            .read("name", printable_name)
            .or_else(|| method.clone());
        let answers = [
            ("same", AnswerCheck::Same),
            ("any", AnswerCheck::Any),
            ("account", AnswerCheck::Account),
        ];
        let check = table
            .read("answer", |v| choice(v, &answers))
            .unwrap_or(AnswerCheck::Same);
        let params = table.read("params", |v| {
            let params = text(v)?;
            if no_errors_yet {
                check_params(&params, &plan.placeholders, has_encoding, check)?;
            }
            Ok(params)
        });
        let weight = table.read("weight", |v| whole_number_within(v, 1..=1_000_000));
        if let Some(name) = &name {
            let what = format!("request {name:?} (named by its method unless it has a name)");
            names.insert(name.clone(), table.first_key_line(), what, table.errors());
        }
        if plan.request_labels.len() == MAX_REQUEST_TABLES {
            table.report(format!(
                "there are more than {MAX_REQUEST_TABLES} tables [[request]]"
            ));
        }
        let Some((name, method)) = name.zip(method) else {
            return;
        };
        let params = params.unwrap_or("[]".to_owned());
        let cases = cases_of_request(arms, plan, &method, &params, check);
        plan.cases.extend(cases);
        plan.request_labels.push(name);
        is_weighted |= weight.is_some();
        plan.weights.push(weight.unwrap_or(1));
    });
    if !is_weighted {
        plan.weights.clear();
    }
}

fn cases_of_request(
    arms: &[ArmOptions],
    plan: &Plan,
    method: &str,
    params: &str,
    check: AnswerCheck,
) -> Vec<Case> {
    let case = |(index, arm): (usize, &ArmOptions)| {
        let method = arm.method.as_deref().unwrap_or(method);
        let encoding = arm.encoding.as_deref().unwrap_or_default();
        let placeholder = format!("{{{ENCODING_NAME}}}");
        let filled = params.replace(&placeholder, &json_escaped(encoding));
        Case {
            arm_index: index,
            request_index: plan.request_labels.len(),
            connection_index: index,
            call: format!(r#""method":"{}","params":{filled}"#, json_escaped(method)),
            random_range: None,
            expected: match check {
                // With one arm there is nothing to compare.
                AnswerCheck::Same => Expected::for_method(method, arms.len() > 1),
                AnswerCheck::Any => Expected::for_method(method, false),
                AnswerCheck::Account => Expected::Account(
                    Encoding::named(encoding)
                        .or_else(|| encoding_option(params, &plan.placeholders))
                        .unwrap_or(Encoding::Base64),
                ),
            },
        }
    };
    arms.iter().enumerate().map(case).collect()
}

/// Fills the placeholders, because JSON has no unquoted ones.
fn encoding_option(params: &str, placeholders: &[Placeholder]) -> Option<Encoding> {
    let filled = values::fill_placeholders(params, placeholders, |_, known| known.first_text());
    let params: Json = serde_json::from_str(&filled).ok()?;
    params
        .as_array()?
        .iter()
        .find_map(|param| Encoding::named(param.get("encoding")?.as_str()?))
}

/// Fills the placeholders, and fails unless the result is JSON, with one encoding if accounts are
/// checked. Tries each placeholder's [`Placeholder::texts_to_check`], with the first text of all
/// others.
fn check_params(
    params: &str,
    placeholders: &[Placeholder],
    has_encoding: bool,
    check: AnswerCheck,
) -> Result<(), String> {
    let is_known = |name: &str| {
        (has_encoding && name == ENCODING_NAME)
            || placeholders.iter().any(|known| known.name == name)
    };
    if let Some(unknown) = values::placeholder_names(params).find(|name| !is_known(name)) {
        if unknown == ENCODING_NAME {
            return Err("{encoding} is the encoding of an arm, and no [[arm]] has one".to_owned());
        }
        let known = placeholders
            .iter()
            .map(|known| known.name.as_str())
            .chain(has_encoding.then_some(ENCODING_NAME));
        let known = known.map(|name| format!("{{{name}}}")).join(", ");
        return Err(match known.as_str() {
            "" => format!("{{{unknown}}} stands for nothing: there is no [[value]]"),
            known => format!("{{{unknown}}} stands for nothing; known: {known}"),
        });
    }
    let mut uses_placeholders = false;
    let encoding = encoding_option(params, placeholders);
    for (index, placeholder) in placeholders.iter().enumerate() {
        if !values::placeholder_names(params).any(|name| name == placeholder.name) {
            continue;
        }
        uses_placeholders = true;
        for value_text in placeholder.texts_to_check() {
            let filled = values::fill_placeholders(params, placeholders, |i, other| {
                if i == index {
                    value_text.clone()
                } else {
                    other.first_text()
                }
            });
            check_json(&filled)?;
            if check == AnswerCheck::Account && encoding_option(&filled, placeholders) != encoding {
                return Err(format!(
                    "answer = \"account\" needs one encoding, but {{{}}} changes it: use one [[request]] for each encoding",
                    placeholder.name
                ));
            }
        }
    }
    if uses_placeholders {
        return Ok(());
    }
    check_json(params)
}

fn check_json(params: &str) -> Result<(), String> {
    let excerpt: String = params.chars().take(120).collect();
    match serde_json::from_str(params) {
        Ok(Json::Array(_) | Json::Object(_)) => Ok(()),
        Ok(_) => Err(format!(
            "`{excerpt}` is neither an array nor an object of JSON"
        )),
        Err(error) => Err(format!(
            "`{excerpt}` is no JSON: {error}; a placeholder for a text needs quotes around it, as in [\"{{account}}\"]"
        )),
    }
}
