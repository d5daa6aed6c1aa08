use faultline_text::{counted, duration_f64, number, short};
use itertools::Itertools;
use serde_json::Value;

#[derive(Debug, Clone, Default)]
pub struct Event {
    pub at: f64,
    pub kind: String,
    /// An object, a text, or null.
    pub detail: Value,
}

impl Event {
    /// The detail in words, without a full stop: `process 7 (agave-validator) ended: exit`. An
    /// unknown detail becomes names and values.
    pub(crate) fn sentence(&self) -> String {
        known_sentence(&self.kind, &self.detail).unwrap_or_else(|| match &self.detail {
            Value::Object(fields) => fields
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| format!("{} {}", words(name), value_text(value)))
                .join(", "),
            detail => value_text(detail),
        })
    }
}

/// `None` for an unknown kind, or if a field is missing that the sentence needs.
fn known_sentence(kind: &str, detail: &Value) -> Option<String> {
    let text = |name| {
        let text = detail.get(name).map(value_text);
        text.filter(|text| !text.is_empty())
    };
    let amount = |name| detail.get(name)?.as_f64();
    let process = || Some(format!("process {} ({})", text("pid")?, text("comm")?));
    let slots = amount("slots_behind").map_or_else(String::new, |slots| {
        format!(" ({} behind)", counted(slots, "slot"))
    });
    Some(match kind {
        "daemon_start" => format!("faultlined {} began to record", text("version")?),
        "daemon_stop" => "the recording was ended".to_owned(),
        "start" => match text("found_by") {
            Some(by) => format!("{} was found by {by}", process()?),
            None => format!("{} was found", process()?),
        },
        "exit" | "oom_kill" => format!("{} ended: {}", process()?, words(&text("reason")?)),
        "restart" => format!("the process was restarted: {}", words(&text("reason")?)),
        "at_tip" => format!("it reached the tip{slots}"),
        "behind" => format!("it fell behind{slots}"),
        "stall" => match amount("slot") {
            Some(slot) => format!("the slot stopped at {}", number(slot, 0)),
            None => "the slot stopped".to_owned(),
        },
        "clock_step" => format!(
            "the wall clock was stepped by {} s",
            short(amount("seconds")?)
        ),
        "gap" => {
            let why = text("why").or_else(|| text("reason"))?;
            match (amount("seconds"), amount("entries")) {
                (Some(length), _) => {
                    format!("nothing was recorded for {}: {why}", duration_f64(length))
                }
                (None, Some(1.0)) => format!("1 entry was lost: {why}"),
                (None, entries) => format!("{} entries were lost: {why}", number(entries?, 0)),
            }
        }
        "mark" => text("name")?,
        _ => return None,
    })
}

pub fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Number(value) if value.is_f64() => short(value.as_f64().unwrap_or_default()),
        value => value.to_string(),
    }
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: &[(&str, &str, &str)]) {
        for (kind, detail, expected) in all {
            let event = Event {
                at: 0.0,
                kind: (*kind).to_owned(),
                detail: serde_json::from_str(detail).unwrap_or_else(|_| Value::from(*detail)),
            };
            assert_eq!(event.sentence(), *expected, "{kind} {detail}");
        }
    }

    #[test]
    fn every_kind_of_event_is_a_sentence_without_json() {
        check(&[
            (
                "daemon_start",
                r#"{"pid":2,"version":"0.1.0"}"#,
                "faultlined 0.1.0 began to record",
            ),
            ("daemon_stop", "{}", "the recording was ended"),
            (
                "start",
                r#"{"comm":"agave-validator","found_by":"admin.rpc","pid":7}"#,
                "process 7 (agave-validator) was found by admin.rpc",
            ),
            (
                "exit",
                r#"{"comm":"a","pid":7,"reason":"exit"}"#,
                "process 7 (a) ended: exit",
            ),
            (
                "oom_kill",
                r#"{"comm":"a","pid":7,"reason":"oom_kill"}"#,
                "process 7 (a) ended: oom kill",
            ),
            (
                "at_tip",
                r#"{"slots_behind":3.0}"#,
                "it reached the tip (3 slots behind)",
            ),
            (
                "clock_step",
                r#"{"seconds":-1.5}"#,
                "the wall clock was stepped by \u{2212}1.5 s",
            ),
            ("mark", r#"{"name":"load doubled"}"#, "load doubled"),
            (
                "later",
                r#"{"new_field":1,"other":"x"}"#,
                "new field 1, other x",
            ),
            ("at_tip", "", "it reached the tip"),
            ("mark", "plain words", "plain words"),
        ]);
    }

    #[test]
    fn numbers_of_events_are_grouped_and_have_plurals() {
        check(&[
            (
                "at_tip",
                r#"{"slots_behind":1.0}"#,
                "it reached the tip (1 slot behind)",
            ),
            ("at_tip", r#"{"slots_behind":null}"#, "it reached the tip"),
            (
                "stall",
                r#"{"slot":345678901.0}"#,
                "the slot stopped at 345,678,901",
            ),
            ("stall", r#"{"slot":null}"#, "the slot stopped"),
            (
                "gap",
                r#"{"seconds":12.000483217,"ticks":11,"why":"ticks were missed"}"#,
                "nothing was recorded for 12 s: ticks were missed",
            ),
            (
                "gap",
                r#"{"entries":1,"why":"the queue was full"}"#,
                "1 entry was lost: the queue was full",
            ),
            (
                "gap",
                r#"{"entries":2100,"why":"the queue was full"}"#,
                "2,100 entries were lost: the queue was full",
            ),
            (
                "gap",
                r#"{"from_unix_ns":1,"to_unix_ns":2,"seconds":3600.25,"reason":"merge"}"#,
                "nothing was recorded for 1 h: merge",
            ),
            ("phase", r#"{"from":null,"to":"at_tip"}"#, "to at_tip"),
        ]);
    }
}
