use super::text::{Clock, clean, duration, number};
use crate::report::model::{Cell, Mark, Report, Timeline, VerdictKind};

pub(crate) fn standing(report: &Report) -> &'static str {
    match report.verdict.standing {
        VerdictKind::Described => "Described, not tested",
        VerdictKind::Differs => "A difference is shown",
        VerdictKind::Equivalent => "Equivalent within the margin",
        VerdictKind::Inconclusive => "Inconclusive",
    }
}

pub(crate) fn standing_key(report: &Report) -> &'static str {
    match report.verdict.standing {
        VerdictKind::Described => "described",
        VerdictKind::Differs => "differs",
        VerdictKind::Equivalent => "equivalent",
        VerdictKind::Inconclusive => "inconclusive",
    }
}

pub(crate) fn cards(report: &Report) -> String {
    if report.cards.is_empty() {
        "Runs".to_owned()
    } else {
        clean(&report.cards)
    }
}

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

pub(crate) fn is_number(cell: &Cell) -> bool {
    matches!(cell.inner(), Cell::Number { .. } | Cell::Estimate { .. })
}

pub(crate) fn events(timeline: &Timeline) -> impl Iterator<Item = (String, &Mark)> {
    let mut marks: Vec<_> = timeline
        .marks
        .iter()
        .filter(|mark| mark.at.is_finite())
        .collect();
    marks.sort_by(|a, b| a.at.total_cmp(&b.at));
    marks
        .into_iter()
        .map(|mark| (duration(mark.at, Clock::Full), mark))
}
