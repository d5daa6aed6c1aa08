//! Rules of caveats, and why an interval is unreliable in words.

use crate::block::Reliability;

/// The first pair of arms in which one ended before the other began. `runs` has (begin on any
/// clock, arm). Arms with a single run are left out.
pub fn not_interleaved<'a>(runs: &[(f64, &'a str)]) -> Option<(&'a str, &'a str)> {
    let mut arms: Vec<(&str, f64, f64, usize)> = Vec::new();
    for (at, arm) in runs {
        match arms.iter_mut().find(|(name, ..)| name == arm) {
            Some((_, first, last, n)) => {
                (*first, *last, *n) = (first.min(*at), last.max(*at), *n + 1)
            }
            None => arms.push((arm, *at, *at, 1)),
        }
    }
    arms.sort_by(|a, b| a.1.total_cmp(&b.1));
    let is_separate =
        |pair: &&[(&str, f64, f64, usize)]| pair[0].2 < pair[1].1 && pair[0].3 > 1 && pair[1].3 > 1;
    let pair = arms.windows(2).find(is_separate)?;
    Some((pair[0].0, pair[1].0))
}

/// Whether `hits` of this version (`2.1.14`, `4.0.0-beta.1`) are counted as before 4.4; `None` if
/// it is no version.
pub fn counts_hits_as_before_4_4(version: &str) -> Option<bool> {
    let mut parts = version.trim_start_matches('v').split(['.', '-', ' ']);
    let major: u32 = parts.next()?.parse().ok()?;
    let minor: u32 = parts.next()?.parse().ok()?;
    Some((major, minor) < (4, 4))
}

pub fn reliability_text(why: Reliability) -> String {
    match why {
        Reliability::Reliable => "the interval is reliable".to_owned(),
        Reliability::TooShort { n_eff } => format!(
            "the run is worth only {n_eff:.0} independent values, so the interval covers less often than it says"
        ),
        Reliability::TooRare => {
            "it happened in too few stretches of the run for an interval that can be trusted".to_owned()
        }
        Reliability::Drifts => {
            "the series drifts, or is correlated for longer than the run can show, so the interval is too narrow"
                .to_owned()
        }
        Reliability::Constant => "every value is the same, so there is nothing to make an interval from".to_owned(),
    }
}
