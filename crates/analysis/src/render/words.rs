//! What all formats say in the same words.

use super::text::{Clock, clean, duration, number};
use crate::report::model::{Cell, Mark, Report, Timeline, VerdictKind};

/// How sure the verdict is.
pub(crate) fn standing(report: &Report) -> &'static str {
    match report.verdict.standing {
        VerdictKind::Described => "Described, not tested",
        VerdictKind::Differs => "A difference is shown",
        VerdictKind::Equivalent => "Equivalent within the margin",
        VerdictKind::Inconclusive => "Inconclusive",
    }
}

/// The same as a key for style sheets.
pub(crate) fn standing_key(report: &Report) -> &'static str {
    match report.verdict.standing {
        VerdictKind::Described => "described",
        VerdictKind::Differs => "differs",
        VerdictKind::Equivalent => "equivalent",
        VerdictKind::Inconclusive => "inconclusive",
    }
}

/// What the cards are, as a heading.
pub(crate) fn cards(report: &Report) -> String {
    if report.cards.is_empty() {
        "Runs".to_owned()
    } else {
        clean(&report.cards)
    }
}

/// A cell as plain text.
pub(crate) fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Linked {
            cell: inside, mark, ..
        } if mark.is_empty() => self::cell(inside),
        Cell::Linked {
            cell: inside, mark, ..
        } => format!("{} ({})", self::cell(inside), clean(mark)),
        Cell::Text(text) => clean(text),
        Cell::Number { value, decimals } => number(*value, usize::from(*decimals)),
        Cell::Estimate {
            value, decimals, ..
        } => {
            format!(
                "{} {}",
                number(*value, usize::from(*decimals)),
                interval(cell).unwrap_or_default()
            )
        }
        Cell::Missing(why) if why.is_empty() => "–".to_owned(),
        Cell::Missing(why) => format!("– ({})", clean(why)),
    }
}

/// `[low, high]` of an estimate.
pub(crate) fn interval(cell: &Cell) -> Option<String> {
    let Cell::Estimate {
        low,
        high,
        decimals,
        ..
    } = cell.inner()
    else {
        return None;
    };
    Some(format!(
        "[{}, {}]",
        number(*low, usize::from(*decimals)),
        number(*high, usize::from(*decimals))
    ))
}

/// Whether a cell holds a number.
pub(crate) fn is_number(cell: &Cell) -> bool {
    matches!(cell.inner(), Cell::Number { .. } | Cell::Estimate { .. })
}

/// The events of a timeline in order of time, with the time as words.
pub(crate) fn events(timeline: &Timeline) -> impl Iterator<Item = (String, &Mark)> {
    sorted_marks(timeline)
        .into_iter()
        .map(|mark| (duration(mark.at, Clock::Full), mark))
}

/// The marks of a timeline in order of time.
pub(crate) fn sorted_marks(timeline: &Timeline) -> Vec<&Mark> {
    let known = timeline.marks.iter().filter(|mark| mark.at.is_finite());
    let mut marks: Vec<&Mark> = known.collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
}
