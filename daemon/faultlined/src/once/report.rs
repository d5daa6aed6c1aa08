//! The report of `once`: text of 80 columns, or JSON.

use faultline_metrics::Stamp;
use faultline_status::Answer;
use faultline_text::clean;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{Display, Write};

const WIDTH: usize = 80;
const FINDING_INDENT: usize = 14;
const DETAIL_WIDTH: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    /// The operator must act.
    Attention,
    /// Disabled, not configured, or not checked for the given reason.
    Off,
}

impl CheckState {
    const fn mark(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Attention => "FIX",
            Self::Off => "-",
        }
    }
}

/// The texts are sanitized for a terminal.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub state: CheckState,
    pub finding: String,
    /// What to do; `None` unless the state is [`CheckState::Attention`].
    pub remedy: Option<String>,
    /// Facts by name. Objects appear only in JSON, because `finding` has their values.
    pub details: Vec<(&'static str, Value)>,
}

impl Check {
    pub(super) fn ok(finding: impl Display) -> Self {
        Self::new(CheckState::Ok, finding, None)
    }

    pub(super) fn off(finding: impl Display) -> Self {
        Self::new(CheckState::Off, finding, None)
    }

    pub(super) fn attention(finding: impl Display, remedy: impl Display) -> Self {
        Self::new(
            CheckState::Attention,
            finding,
            Some(clean(&remedy.to_string())),
        )
    }

    pub(super) fn with_detail(
        mut self,
        name: &'static str,
        value: Option<impl Into<Value>>,
    ) -> Self {
        let clean = |value: Value| match value {
            Value::String(text) => clean(&text).into(),
            other => other,
        };
        self.details
            .extend(value.map(|value| (name, clean(value.into()))));
        self
    }

    fn new(state: CheckState, finding: impl Display, remedy: Option<String>) -> Self {
        Self {
            state,
            finding: clean(&finding.to_string()),
            remedy,
            details: Vec::new(),
        }
    }
}

#[derive(Clone, PartialEq)]
pub struct Report {
    pub at: Stamp,
    pub uid: u32,
    pub looking_for: String,
    /// Of a daemon that follows this process, else of one tick. Only in JSON.
    pub answers: Vec<Answer>,
    pub checks: Vec<(&'static str, Check)>,
}

impl Report {
    pub fn attention_count(&self) -> usize {
        self.checks
            .iter()
            .filter(|(_, check)| check.state == CheckState::Attention)
            .count()
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        let head = format!(
            "faultlined {}, checked with the rights of user {}{}; looking for {}",
            crate::VERSION,
            self.uid,
            if self.uid == 0 {
                " (root; the daemon's user may have fewer)"
            } else {
                ""
            },
            clean(&self.looking_for)
        );
        paragraph(&mut out, "", 0, &head);
        for (name, check) in &self.checks {
            let prefix = format!("{name:<9}{:<5}", check.state.mark());
            paragraph(&mut out, &prefix, FINDING_INDENT, &check.finding);
            for (name, value) in check.details.iter().filter(|(_, value)| !value.is_object()) {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                let prefix = format!(
                    "{:FINDING_INDENT$}{:<DETAIL_WIDTH$}",
                    "",
                    name.replace('_', " ")
                );
                paragraph(&mut out, &prefix, FINDING_INDENT + DETAIL_WIDTH, &value);
            }
            if let Some(remedy) = &check.remedy {
                paragraph(
                    &mut out,
                    &format!("{:FINDING_INDENT$}-> ", ""),
                    FINDING_INDENT + 3,
                    remedy,
                );
            }
        }
        let total = self
            .checks
            .iter()
            .filter(|(_, check)| check.state != CheckState::Off)
            .count();
        let end = match self.attention_count() {
            0 => format!("All {total} checks are OK."),
            1 => format!("1 of {total} checks needs attention."),
            some => format!("{some} of {total} checks need attention."),
        };
        out + &end + "\n"
    }

    pub fn json(&self) -> String {
        let check = |(name, check): &(&str, Check)| {
            json!({
                "name": name,
                "state": check.state,
                "found": check.finding,
                "remedy": check.remedy,
                "details": check.details.iter().cloned().collect::<Value>(),
            })
        };
        let report = json!({
            "version": crate::VERSION,
            "time": self.at.unix_seconds(),
            "user": self.uid,
            "looking_for": clean(&self.looking_for),
            "answers": self.answers.iter().map(|answer| {
            json!({
                "subject": answer.subject,
                "verdict": answer.verdict,
                "text": clean(&answer.text),
            })
        }).collect::<Value>(),
            "attention": self.attention_count(),
            "checks": self.checks.iter().map(check).collect::<Value>(),
        });
        format!("{report:#}\n")
    }
}

fn paragraph(out: &mut String, prefix: &str, indent: usize, text: &str) {
    let mut line = prefix.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let available = WIDTH.saturating_sub(line.chars().count() + usize::from(!is_empty));
        if !is_empty && word.chars().count() > available {
            let _ = writeln!(out, "{}", line.trim_end());
            (line, is_empty) = (" ".repeat(indent), true);
        }
        line.push_str(if is_empty { "" } else { " " });
        line.push_str(word);
        is_empty = false;
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: Vec<(&'static str, Check)>) -> Report {
        Report {
            at: Stamp::default(),
            uid: 1000,
            looking_for: "the only validator of this host".to_owned(),
            answers: Vec::new(),
            checks,
        }
    }

    #[test]
    fn every_once_report_line_fits_80_columns_and_gives_a_remedy() {
        let long =
            "no right to connect to /mnt/ledger/admin.rpc: only root and the validator's user may "
                .repeat(3);
        let checks = vec![
            (
                "process",
                Check::ok("pid 4242 (agave-validator)")
                    .with_detail("pid", Some(4242))
                    .with_detail("ledger", Some("/l")),
            ),
            ("admin", Check::attention(&long, &long)),
            ("log", Check::off("not configured")),
        ];
        let text = report(checks).text();
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.contains("\nadmin    FIX  no right")
                && text.contains("\n              -> no right"),
            "{text}"
        );
        assert!(
            text.contains("\n              pid       4242\n              ledger    /l\n"),
            "{text}"
        );
        assert!(text.ends_with("1 of 2 checks needs attention.\n"), "{text}");
    }

    #[test]
    fn foreign_texts_are_escaped_for_the_terminal() {
        let evil = "a\u{1b}[2J\r\nprocess  OK   all is well\u{202e}";
        let report = report(vec![(
            "rpc",
            Check::attention(evil, evil).with_detail("ledger", Some(evil)),
        )]);
        for text in [report.text(), report.json()] {
            assert!(
                !text
                    .chars()
                    .any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'),
                "{text:?}"
            );
            assert!(
                !text.lines().any(|line| line.starts_with("process")),
                "{text}"
            );
        }
    }

    #[test]
    fn json_output_contains_the_same_checks_as_text() {
        let report = report(vec![
            ("process", Check::ok("pid 7").with_detail("pid", Some(7))),
            ("rpc", Check::attention("a", "b")),
        ]);
        let json: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(
            (&json["attention"], &json["checks"][0]["details"]["pid"]),
            (&json!(1), &json!(7))
        );
        assert_eq!(
            (&json["checks"][1]["state"], &json["checks"][1]["remedy"]),
            (&json!("attention"), &json!("b"))
        );
    }
}
