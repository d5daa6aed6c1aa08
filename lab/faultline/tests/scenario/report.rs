//! What `faultline report` and `faultline info` say of the recording.

use crate::{
    page::Page,
    truth::{Moment, TICK, seconds_at_tip},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// How often the follower came to the tip or left it: after its start, stopped, starved and killed, after its second start, killed.
const CHANGES: f64 = 8.0;

/// Makes the folder, or empties it.
pub fn emptied(folder: PathBuf) -> PathBuf {
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            panic!("{}: {error}", folder.display())
        }
        _ => fs::create_dir_all(&folder).expect("a folder for results"),
    }
    folder
}

/// Errors in the report on a run whose process ended `death` seconds after the first tick. `moments` are those from the first at the
/// tip to that end.
pub fn judge(run: &Path, out: &Path, moments: &[Moment], death: f64) -> Vec<String> {
    faultline(&["report".as_ref(), run, "--out".as_ref(), out]);
    let page = Page(out.to_owned());
    let text = page.text();
    let mut wrong = Vec::new();
    let (at_least, at_most, all) = seconds_at_tip(moments);
    assert!(
        at_most < 0.99 * all,
        "the scene: at the tip for {at_most:.0} s of {all:.0} s at most"
    );
    for words in ["kept up with the tip", "It kept up"] {
        if text.contains(words) {
            wrong.push(format!("the report says {words:?}"));
        }
    }
    if !text.contains("did not keep up") {
        wrong.push("the report does not say that it did not keep up".to_owned());
    }
    let cell = |column: &str| page.cell("outcome", column, "run");
    let margin = CHANGES * 2.0 * TICK;
    let share = [at_least - margin, at_most + margin].map(|seconds| 100.0 * seconds / all);
    match cell("At the tip [%]").parse::<f64>() {
        Ok(percent) if percent >= share[0] && percent <= share[1] => {}
        other => wrong.push(format!(
            "the report says at the tip for {other:?} %, true: {share:.1?}"
        )),
    }
    // The report rounds times to whole seconds.
    let right = |seconds: f64| (seconds - death).abs() <= 2.0 * TICK + 0.5;
    let given = [
        ("the evidence", number_after(&cell("Evidence"), "at ")),
        (
            "the story",
            text.split_once("In the end, after ")
                .and_then(|(_, rest)| seconds(rest.split_once(':')?.0)),
        ),
    ];
    for (who, at) in given {
        if !at.is_some_and(right) {
            wrong.push(format!(
                "{who} of the report says the end was after {at:?} s, true: {death:.1} s"
            ));
        }
    }
    wrong
}

/// `faultline info --json`.
pub fn info(run: &Path) -> Value {
    serde_json::from_str(&faultline(&["info".as_ref(), "--json".as_ref(), run])).expect("JSON")
}

/// Runs `faultline`, which must succeed; what it prints.
fn faultline(words: &[&Path]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_faultline"))
        .args(words)
        .output()
        .expect("faultline can be run");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{words:?}: {printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}

fn number_after(text: &str, words: &str) -> Option<f64> {
    text.split_once(words)?.1.split(' ').next()?.parse().ok()
}

/// `12.5 s`, `4 min 5 s`.
fn seconds(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split(' ').collect();
    let of = |pair: &[&str]| {
        let [number, unit] = pair else { return None };
        Some(number.parse::<f64>().ok()? * if *unit == "min" { 60.0 } else { 1.0 })
    };
    words.chunks(2).map(of).sum()
}
