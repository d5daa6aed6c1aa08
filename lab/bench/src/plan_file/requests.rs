use super::{ENCODING, printable_name};
use crate::answer::Encoding;
use crate::values::{self, Value};
use faultline_settings::{Table, Unique, choice, text, within};
use serde_json::Value as Json;

const MAX_PLAN_REQUESTS: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerCheck {
    Same,
    Any,
    /// An account with the same data in every encoding.
    Account,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: String,
    pub(super) method: String,
    /// With placeholders in braces.
    pub(super) params: String,
    pub(super) weight: Option<u32>,
    pub(super) answer: AnswerCheck,
    pub(super) encoding: Option<Encoding>,
}

/// `encodings`: an arm has an encoding, so requests may name `{encoding}`.
pub(super) fn requests(top: &mut Table<'_>, values: &[Value], encodings: bool) -> Vec<Request> {
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
