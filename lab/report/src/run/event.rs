use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Event {
    pub at: f64,
    pub kind: String,
    /// A JSON object, a text, or empty.
    pub detail: String,
}

impl Event {
    /// The detail in words, without a full stop: `process 7 (agave-validator) ended: exit`. An
    /// unknown detail becomes names and values.
    pub(crate) fn sentence(&self) -> String {
        let detail = serde_json::from_str::<Value>(&self.detail).unwrap_or(Value::Null);
        let text = |name: &str| detail.get(name).map(plain).filter(|text| !text.is_empty());
        known(&self.kind, &text).unwrap_or_else(|| match &detail {
            Value::Object(fields) => {
                let pairs = fields.iter();
                let pairs = pairs.map(|(name, value)| format!("{} {}", words(name), plain(value)));
                pairs.collect::<Vec<_>>().join(", ")
            }
            _ => self.detail.clone(),
        })
    }
}

/// `None` for another kind, or without a field that the words need.
fn known(kind: &str, text: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let process = || Some(format!("process {} ({})", text("pid")?, text("comm")?));
    let slots = text("slots_behind").map_or_else(String::new, |slots| {
        format!(", {} slots behind", slots.trim_end_matches(".0"))
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
        "at_tip" => format!("it was at the tip{slots}"),
        "behind" => format!("it fell behind{slots}"),
        "stall" => format!("the slot stopped at {}", text("slot")?),
        "clock_step" => format!("the wall clock was set by {} s", text("seconds")?),
        "gap" => match text("seconds") {
            Some(seconds) => format!("nothing was recorded for {seconds} s: {}", text("why")?),
            None => format!("{} entries were lost: {}", text("entries")?, text("why")?),
        },
        "mark" => text("name")?,
        _ => return None,
    })
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_event_is_a_sentence_without_json() {
        let sentence = |kind: &str, detail: &str| {
            let event = Event {
                at: 0.0,
                kind: kind.to_owned(),
                detail: detail.to_owned(),
            };
            event.sentence()
        };
        for (kind, detail, expected) in [
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
                "it was at the tip, 3 slots behind",
            ),
            ("stall", r#"{"slot":12}"#, "the slot stopped at 12"),
            (
                "clock_step",
                r#"{"seconds":-1.5}"#,
                "the wall clock was set by -1.5 s",
            ),
            ("mark", r#"{"name":"load doubled"}"#, "load doubled"),
            (
                "later",
                r#"{"new_field":1,"other":"x"}"#,
                "new field 1, other x",
            ),
            ("at_tip", "", "it was at the tip"),
            ("mark", "plain words", "plain words"),
        ] {
            assert_eq!(sentence(kind, detail), expected, "{kind} {detail}");
        }
    }
}
