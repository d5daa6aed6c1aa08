use super::{
    super::{Arm, Kind, Plan, Search},
    HOUR, MINUTE, at_least, percent,
};
use faultline_settings::{ConfigErrors, Table, choice, number, size, time};
use std::time::Duration;

const ARM: &str = "search";
const FORBIDDEN_KEYS: [&str; 6] = [
    "arm",
    "factors",
    "concurrent",
    "order",
    "force_order",
    "seed",
];

/// A plan with a search has one arm without settings.
pub fn search(top: &mut Table<'_>, plan: &mut Plan) {
    top.table("search", |table| {
        table.need("what", |v| choice(v, &[("memory", ())]));
        let from = table.need("from", |v| headroom(size(v)?));
        let mut search = Search {
            from: from.unwrap_or_default(),
            settle: 2 * MINUTE,
            dwell: 8 * MINUTE,
            width: 0.1,
            most: 8 * HOUR,
            horizon: 24 * HOUR,
        };
        table.set("settle", &mut search.settle, |v| {
            at_least(time(v)?, Duration::from_secs(1))
        });
        table.set("dwell", &mut search.dwell, |v| {
            at_least(time(v)?, Duration::from_secs(2))
        });
        table.set("width", &mut search.width, |v| width(percent(number(v)?)?));
        table.set("most", &mut search.most, |v| at_least(time(v)?, MINUTE));
        table.set("horizon", &mut search.horizon, |v| at_least(time(v)?, HOUR));
        plan.stop.duration = search.most;
        plan.search = Some(search);
    });
    if !top.has("search") {
        return;
    }
    for key in FORBIDDEN_KEYS.into_iter().filter(|key| top.has(key)) {
        let key_name = if key == "arm" { "[[arm]]" } else { key };
        top.errors().push(
            top.line_of(key),
            format!(
                "{key_name}: means nothing with [search], which has one run and one lane; leave it out"
            ),
        );
    }
    plan.arms = vec![Arm {
        name: ARM.to_owned(),
        line: top.line_of("search"),
        ..Arm::default()
    }];
}

pub fn check(plan: &Plan, line: Option<usize>, config_errors: &ConfigErrors<'_>) {
    let Some(search) = &plan.search else { return };
    if plan.workload.kind == Kind::Replay {
        config_errors.push(
            line,
            "search: a replay has no tip to keep up with; say workload.kind = \"validator\"",
        );
    }
    let min_time = (search.settle + search.dwell) * 10;
    if search.most < min_time {
        let [most, min_time] = [search.most, min_time].map(faultline_text::time);
        config_errors.push(
            line,
            format!("search.most is {most}, and ten dwells alone take {min_time}: give it more, or make dwells shorter"),
        );
    }
}

fn headroom(bytes: u64) -> Result<u64, String> {
    if bytes < 1 << 20 {
        Err("is less than 1M, in which nothing fits".to_owned())
    } else {
        Ok(bytes)
    }
}

fn width(share: f64) -> Result<f64, String> {
    if (0.03..=0.5).contains(&share) {
        Ok(share)
    } else {
        Err("a width from 3 to 50 percent is wanted".to_owned())
    }
}
