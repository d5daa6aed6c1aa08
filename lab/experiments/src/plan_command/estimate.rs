use crate::plan::{CountedFrom, Kind, Plan};
use faultline_text::{counted, time};
use serde::Serialize;
use std::time::Duration;

/// Runs that end early make it shorter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Estimate {
    pub turns: usize,
    /// Each run executes transactions at once and takes its full time.
    pub shortest_seconds: u64,
    /// Each run waits as long as allowed. `None` without a bound.
    pub longest_seconds: Option<u64>,
    pub assumed: String,
}

pub fn estimate(plan: &Plan, turns: usize) -> Estimate {
    let turn_count = u32::try_from(turns).unwrap_or(u32::MAX);
    let stop = &plan.stop;
    let total_cool_down = plan
        .host
        .cool_down
        .saturating_mul(turn_count.saturating_sub(1));
    let each = plan.search.as_ref().map_or(stop.duration, |search| {
        search.min_duration().min(stop.duration)
    });
    let min_duration = each
        .saturating_mul(turn_count)
        .saturating_add(total_cool_down);
    let (wait, what) = match (
        &plan.search,
        stop.counted_from,
        stop.first_transaction_within,
    ) {
        // A search counts from the tip, and the start may take as long.
        (Some(search), ..) => (Some(search.most), "the tip"),
        (None, CountedFrom::Start, _) => (Some(Duration::ZERO), ""),
        (None, CountedFrom::FirstTransaction, within) => (within, "its first transaction"),
    };
    let longest = wait.map(|wait| {
        let each = wait
            .saturating_add(plan.host.patience)
            .saturating_add(stop.grace);
        each.saturating_add(stop.duration)
            .saturating_mul(turn_count)
            .saturating_add(total_cool_down)
    });
    let length = match &plan.search {
        Some(_) => format!("{} to {}", time(each), time(stop.duration)),
        None => time(stop.duration),
    };
    let mut assumed = format!("{} of {length}", counted(turns as f64, "turn"));
    if turns > 1 {
        assumed += &format!(", {} between them", time(plan.host.cool_down));
    }
    if plan.workload.kind == Kind::Replay {
        assumed += "; a replay ends with its work, and its turn with it";
    }
    if let Some(wait) = wait {
        assumed += "; at the latest, each turn also waits";
        if !wait.is_zero() {
            assumed += &format!(" {} for {what},", time(wait));
        }
        assumed += &format!(
            " {} for a quiet host and {} for its end",
            time(plan.host.patience),
            time(stop.grace)
        );
    }
    assumed += "; clearing, copying and repeated runs come on top";
    Estimate {
        turns,
        shortest_seconds: min_duration.as_secs(),
        longest_seconds: longest.map(|time| time.as_secs()),
        assumed,
    }
}
