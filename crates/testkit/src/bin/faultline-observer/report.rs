//! The comparison as Markdown.

use std::fmt::Write;

use crate::blocks::{Block, Comparison, Cost, MARGIN};

type Measure = (&'static str, fn(&Block) -> Option<f64>);

const MEASURES: [Measure; 6] = [
    ("replay time per slot, p50, ms", |block| {
        block.quantile(0.5, |point| point.elapsed / 1e3)
    }),
    ("replay time per slot, p95, ms", |block| {
        block.quantile(0.95, |point| point.elapsed / 1e3)
    }),
    ("run-queue delay of replay threads, ms/s", |block| {
        Some(block.run_queue_delay * 1e3)
    }),
    ("checking and executing per slot, p50, ms", |block| {
        block.quantile(0.5, |point| point.working / 1e3)
    }),
    ("checking and executing per slot, p95, ms", |block| {
        block.quantile(0.95, |point| point.working / 1e3)
    }),
    ("CPU of replay threads, ms/s", |block| {
        Some(block.cpu_time * 1e3)
    }),
];

pub fn markdown(blocks: &[Block], cost: Option<&Cost>, accepted: u64) -> String {
    let mut text = String::new();
    let lengths: f64 = blocks
        .iter()
        .map(|block| (block.span.end - block.span.start) as f64 / 1e9)
        .sum();
    let slots: usize = blocks.iter().map(|block| block.points.len()).sum();
    let count = blocks.len();
    let each = lengths / count as f64;
    let loads = blocks.iter().map(|block| block.load);
    let (low, high) = (
        loads.clone().fold(f64::INFINITY, f64::min),
        loads.fold(0.0, f64::max),
    );
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{count} blocks of {each:.1} s that count, {slots} slots, {accepted} transactions accepted; load average of the \
         machine {low:.1} to {high:.1}; margin {:.0} %.\n\n\
         | what | off | on | difference | 95 % interval | 90 % interval | verdict |\n\
         | --- | --- | --- | --- | --- | --- | --- |",
        MARGIN * 100.0
    );
    for (name, of) in MEASURES {
        match Comparison::of(&pairs(blocks, of)) {
            Some(comparison) => row(&mut text, name, &comparison),
            None => {
                let _ = writeln!(text, "| {name} | - | - | - | - | - | no slots |");
            }
        }
    }
    if let Some(cost) = cost {
        let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
        let _ = writeln!(
            text,
            "\nThe daemon over {:.0} s next to the follower: {:.3} % of one core, {:.1} MiB resident at the end, {:.1} MiB \
             at most, {} ticks missed, {} lines used.",
            cost.over.as_secs_f64(),
            cost.cores * 100.0,
            mib(cost.resident.0),
            mib(cost.resident.1),
            cost.missed,
            cost.lines
        );
    }
    table_of_blocks(&mut text, blocks);
    text
}

fn row(text: &mut String, name: &str, comparison: &Comparison) {
    let percent = |share: f64| format!("{:+.2} %", share * 100.0);
    let interval = |(low, high): (f64, f64)| format!("{} to {}", percent(low), percent(high));
    let _ = writeln!(
        text,
        "| {name} | {:.3} | {:.3} | {} | {} | {} | {} |",
        comparison.off,
        comparison.on,
        percent(comparison.difference),
        interval(comparison.interval_95),
        interval(comparison.interval_90),
        comparison.verdict()
    );
}

/// Neighbouring blocks of different arms, (off, on). A pair without a value is left out.
fn pairs(blocks: &[Block], of: fn(&Block) -> Option<f64>) -> Vec<(f64, f64)> {
    let pair = |two: &[Block]| {
        let [first, second] = two else { return None };
        let (first_value, second_value) = (of(first)?, of(second)?);
        match (first.with_daemon, second.with_daemon) {
            (false, true) => Some((first_value, second_value)),
            (true, false) => Some((second_value, first_value)),
            _ => None,
        }
    };
    blocks.chunks(2).filter_map(pair).collect()
}

fn table_of_blocks(text: &mut String, blocks: &[Block]) {
    text.push_str("\n| block | daemon | slots");
    for (name, _) in MEASURES {
        let _ = write!(text, " | {name}");
    }
    text.push_str(" | daemon's CPU, % | load |\n|");
    text.push_str(&" --- |".repeat(MEASURES.len() + 5));
    text.push('\n');
    for (number, block) in blocks.iter().enumerate() {
        let arm = if block.with_daemon { "on" } else { "off" };
        let _ = write!(text, "| {} | {arm} | {}", number + 1, block.points.len());
        for (_, of) in MEASURES {
            let _ = write!(
                text,
                " | {}",
                of(block).map_or("-".to_owned(), |value| format!("{value:.3}"))
            );
        }
        let cores = block
            .cost
            .as_ref()
            .map_or("-".to_owned(), |cost| format!("{:.3}", cost.cores * 100.0));
        let _ = writeln!(text, " | {cores} | {:.1} |", block.load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::witness::Replayed;

    fn block(on: bool, waited: f64) -> Block {
        let points = vec![Replayed {
            at: 5,
            elapsed: 400_000.0,
            working: 20_000.0,
        }];
        Block {
            with_daemon: on,
            span: 0..27_000_000_000,
            points,
            run_queue_delay: waited,
            cpu_time: 0.5,
            load: 2.0,
            cost: None,
        }
    }

    #[test]
    fn adjacent_blocks_of_different_arms_are_paired_in_either_order() {
        let blocks = [
            block(false, 1.0),
            block(true, 2.0),
            block(true, 3.0),
            block(false, 4.0),
        ];
        assert_eq!(
            pairs(&blocks, |block| Some(block.run_queue_delay)),
            [(1.0, 2.0), (4.0, 3.0)]
        );
    }

    #[test]
    fn the_report_names_every_measure_and_every_block() {
        let blocks = [
            block(false, 1.0),
            block(true, 1.0),
            block(true, 1.0),
            block(false, 1.0),
        ];
        let text = markdown(&blocks, None, 7);
        assert!(
            text.starts_with("4 blocks of 27.0 s that count, 4 slots, 7 transactions"),
            "{text}"
        );
        assert_eq!(text.matches("too few blocks to say").count(), 6, "{text}");
        assert!(text.contains("| 4 | off | 1 | 400.000 |"), "{text}");
    }
}
