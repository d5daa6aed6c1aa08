use super::text::{Clock, clean, duration, number};
use crate::model::{Cell, Mark, Report, Table, Timeline, VerdictKind};

pub fn standing(report: &Report) -> &'static str {
    match report.verdict.standing {
        VerdictKind::Described => "Described, not tested",
        VerdictKind::Differs => "A difference is shown",
        VerdictKind::Better => "\u{2713} Better",
        VerdictKind::Worse => "\u{2717} Worse",
        VerdictKind::Equivalent => "Equivalent within the margin",
        VerdictKind::Inconclusive => "Inconclusive",
    }
}

pub fn cards(report: &Report) -> &str {
    if report.cards.is_empty() {
        "Runs"
    } else {
        &report.cards
    }
}

pub fn cell(cell: &Cell) -> String {
    let mut words = value(cell);
    if let Some(interval) = interval(cell) {
        words = format!("{words} {interval}");
    }
    match cell {
        Cell::Linked { mark, .. } if !mark.is_empty() => format!("{words} ({})", clean(mark)),
        _ => words,
    }
}

/// A cell as plain text, without its interval and its mark.
pub fn value(cell: &Cell) -> String {
    match cell {
        Cell::Linked { cell, .. } => value(cell),
        Cell::Text(text) => clean(text),
        Cell::Number { value, decimals }
        | Cell::Estimate {
            value, decimals, ..
        } => number(*value, usize::from(*decimals)),
        Cell::Missing(why) if why.is_empty() => "–".to_owned(),
        Cell::Missing(why) => format!("– ({})", clean(why)),
    }
}

/// `[low, high]` of an estimate.
pub fn interval(cell: &Cell) -> Option<String> {
    let Cell::Estimate {
        low,
        high,
        decimals,
        ..
    } = cell.inner()
    else {
        return None;
    };
    let [low, high] = [low, high].map(|end| number(*end, usize::from(*decimals)));
    Some(format!("[{low}, {high}]"))
}

/// Which columns and their heads are aligned to the right. A missing number does not make a column
/// one of text.
pub fn numeric_columns(table: &Table) -> Vec<bool> {
    let is_numeric = |index: usize| {
        let cells = || {
            table
                .rows
                .iter()
                .filter_map(|row| Some(row.get(index)?.inner()))
        };
        cells().any(|cell| matches!(cell, Cell::Number { .. } | Cell::Estimate { .. }))
            && !cells().any(|cell| matches!(cell, Cell::Text(_)))
    };
    (0..table.columns.len()).map(is_numeric).collect()
}

pub fn events(timeline: &Timeline) -> impl Iterator<Item = (String, &Mark)> {
    sorted_marks(timeline)
        .into_iter()
        .map(|mark| (duration(mark.at, Clock::Full), mark))
}

/// The marks of a timeline in order of time.
pub fn sorted_marks(timeline: &Timeline) -> Vec<&Mark> {
    let known = timeline.marks.iter().filter(|mark| mark.at.is_finite());
    let mut marks: Vec<&Mark> = known.collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}
