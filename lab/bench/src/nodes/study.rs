//! The study of nodes: total and mean times, and the recommended node for each method.

use crate::{
    compare::{Comparison, one},
    disk,
    render::unreliable_suffix,
    report_tables::paragraphs,
    results::{Results, lines, ms},
};
use faultline_pages::{
    cells::{self, known, words},
    model::Block,
};
use faultline_stats::arms::Direction;
use faultline_text::{count, number};
use std::fmt::Write as _;

/// Totals over only the rounds in which every node answered all methods. Else a node whose slow
/// answers fail would look faster.
struct Load {
    title: String,
    /// Node, requests and total seconds.
    nodes: Vec<(String, u64, f64)>,
    lines: Vec<String>,
}

/// A round in which every node answered all methods. For each node and method, the request's number
/// in the run and its latency in ms.
type Round = Vec<Vec<(u64, f64)>>;

pub fn tables(results: &Results) -> String {
    let mut out = disk::text(&results.header.disks);
    for load in loads(results) {
        let _ = writeln!(out, "=== {} ===\n", load.title);
        for (node, requests, total) in &load.nodes {
            if *requests == 0 {
                let _ = writeln!(out, "No round was good: there is no time of {node}");
                continue;
            }
            let mean = total / *requests as f64;
            let _ = writeln!(
                out,
                "Total time for {} requests to {node}: {total:.3} seconds",
                count(*requests)
            );
            let _ = writeln!(out, "Average time per request to {node}: {mean:.6} seconds");
        }
        out += &(lines(&load.lines) + "\n");
    }
    out + &recommendations(results) + "\n"
}

fn loads(results: &Results) -> Vec<Load> {
    let methods = results.subject_names();
    let mut loads: Vec<Load> = methods
        .iter()
        .map(|method| load(results, method, &[method]))
        .collect();
    if methods.len() > 1 {
        loads.push(load(results, "the mixed load", &methods));
    }
    loads
}

fn load(results: &Results, title: &str, methods: &[&str]) -> Load {
    let arms = &results.header.arms;
    let times_of = |cell| {
        results.map_by_round(cell, |sample| {
            Some((sample.number, ms(sample.latency_ns()?)))
        })
    };
    let of_arm = |arm: &String| -> Vec<_> {
        let cells = methods.iter();
        let cells = cells.filter_map(|method| results.cell(arm, method));
        cells.map(times_of).collect()
    };
    let all: Vec<_> = arms.iter().map(of_arm).collect();
    let complete_round = |round: usize| -> Option<Round> {
        let of_arm = all.iter().map(|arm| arm.iter().map(|times| times[round]));
        of_arm.map(Iterator::collect).collect()
    };
    let total_rounds = results.rounds();
    let rounds: Vec<Round> = (0..total_rounds).filter_map(complete_round).collect();
    let total = |(index, arm): (usize, &String)| {
        let requests: usize = rounds.iter().map(|round| round[index].len()).sum();
        let ms: f64 = rounds.iter().map(|round| sum_ms(&round[index])).sum();
        (arm.clone(), requests as u64, ms / 1e3)
    };
    let nodes: Vec<(String, u64, f64)> = arms.iter().enumerate().map(total).collect();
    let mut lines = Vec::new();
    if rounds.len() < total_rounds {
        let left_out = count((total_rounds - rounds.len()) as u64);
        lines.push(format!(
            "{left_out} of {} rounds are left out: not every answer was good",
            count(total_rounds as u64)
        ));
    }
    if !rounds.is_empty() && arms.len() > 1 {
        lines.extend(slowest_above_fastest(&nodes));
        lines.push(wins(arms, &rounds));
        lines.push(order_effect(arms, &rounds));
    }
    Load {
        title: title.to_owned(),
        nodes,
        lines,
    }
}

/// Sum of one node's latencies over all methods of a round.
fn sum_ms(of_arm: &[(u64, f64)]) -> f64 {
    of_arm.iter().map(|(_, ms)| ms).sum()
}

fn wins(arms: &[String], rounds: &[Round]) -> String {
    let mut wins = vec![0; arms.len()];
    for round in rounds {
        let sums = round.iter().map(|of_arm| sum_ms(of_arm)).enumerate();
        if let Some((fastest, _)) = sums.min_by(|a, b| a.1.total_cmp(&b.1)) {
            wins[fastest] += 1;
        }
    }
    let won = arms
        .iter()
        .zip(wins)
        .map(|(arm, wins)| format!("{arm} in {}", count(wins)));
    format!(
        "The fastest of a round was {} of {}",
        won.collect::<Vec<_>>().join(", "),
        count(rounds.len() as u64)
    )
}

/// Gap between the slowest and the fastest mean, in percent. It is no test: only the comparison
/// decides whether a node is faster.
fn slowest_above_fastest(totals: &[(String, u64, f64)]) -> Option<String> {
    let by_time = |a: &&(String, u64, f64), b: &&(String, u64, f64)| a.2.total_cmp(&b.2);
    let fast = totals.iter().min_by(by_time)?;
    let slow = totals.iter().max_by(by_time)?;
    let percent = (slow.2 / fast.2 - 1.0) * 100.0;
    Some(format!(
        "The average of {} is {} % above that of {}",
        slow.0,
        number(percent, 1),
        fast.0
    ))
}

/// Mean latency of a node where it was requested first for a method, and where after another node:
/// the first request may warm caches for the second.
fn order_effect(arms: &[String], rounds: &[Round]) -> String {
    let mut lines = Vec::new();
    for (index, arm) in arms.iter().enumerate() {
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for round in rounds {
            for (method, (number, ms)) in round[index].iter().enumerate() {
                let is_before = |other: &Vec<(u64, f64)>| {
                    other.get(method).is_some_and(|(other, _)| other < number)
                };
                if round.iter().any(is_before) {
                    later.push(*ms);
                } else {
                    first.push(*ms);
                }
            }
        }
        let mean = |all: &[f64]| match all.len() {
            0 => "never".to_owned(),
            n => format!("{} ms", number(all.iter().sum::<f64>() / n as f64, 3)),
        };
        lines.push(format!("{arm} {} and {}", mean(&first), mean(&later)));
    }
    format!(
        "Averages in both orders, asked first and after another: {}",
        lines.join(", ")
    )
}

/// All pairs are compared on all methods with simultaneous intervals. Nodes with failures or wrong
/// answers are left out.
fn recommendations(results: &Results) -> String {
    let methods = results.subject_names();
    let arms = results.header.arms.len();
    let comparisons = methods.len() * arms * arms.saturating_sub(1) / 2;
    let mut out = String::new();
    for method in methods {
        let faultless_arms = faultless_arms(results, method);
        let mut compared: Vec<(&str, Comparison)> = Vec::new();
        for (index, reference) in faultless_arms.iter().enumerate() {
            for arm in &faultless_arms[index + 1..] {
                let pair = one(results, (reference, arm), (method, None), comparisons);
                compared.extend(pair.map(|pair| (*reference, pair)));
            }
        }
        let to = recommended_node(&faultless_arms, &compared);
        let _ = writeln!(out, "Send {method} to {to}");
        let mut left_out: Vec<&str> = results.header.arms.iter().map(String::as_str).collect();
        left_out.retain(|arm| !faultless_arms.contains(arm));
        if !left_out.is_empty() {
            let _ = writeln!(
                out,
                "  left out, since not every answer was good: {}",
                left_out.join(", ")
            );
        }
    }
    out
}

fn recommended_node(faultless_arms: &[&str], compared: &[(&str, Comparison)]) -> String {
    let beats = |fast: &str, slow: &str| {
        compared
            .iter()
            .find(|(reference, pair)| match pair.decision.shown() {
                Some(Direction::Lower) => (pair.arm.as_str(), *reference) == (fast, slow),
                Some(Direction::Higher) => (*reference, pair.arm.as_str()) == (fast, slow),
                None => false,
            })
    };
    if let [] | [_] = faultless_arms {
        return faultless_arms.first().map_or(
            "no node: none answered every request well".to_owned(),
            |only| format!("{only}: there is no other to compare with"),
        );
    }
    let wins = |arm: &&str| others(faultless_arms, arm).all(|other| beats(arm, other).is_some());
    let best = faultless_arms.iter().copied().find(wins);
    if let Some(best) = best {
        let saved = others(faultless_arms, best).filter_map(|other| {
            let (_, pair) = beats(best, other)?;
            let [a, b] = [pair.mean.low.abs(), pair.mean.high.abs()];
            Some(format!(
                "{} to {} ms against {other}",
                number(a.min(b), 3),
                number(a.max(b), 3)
            ))
        });
        let saved: Vec<String> = saved.collect();
        return format!("{best}, which saves {}", saved.join(", "));
    }
    let beaten = |arm: &&str| others(faultless_arms, arm).any(|other| beats(other, arm).is_some());
    let (slow, fast): (Vec<&str>, Vec<&str>) = faultless_arms.iter().copied().partition(beaten);
    if slow.is_empty() {
        let why = unreliable_suffix(compared.iter().map(|(_, pair)| pair.decision));
        return format!("any: no difference is shown{why}");
    }
    format!(
        "{}: {} {} slower",
        fast.join(" or "),
        slow.join(" and "),
        if slow.len() == 1 { "is" } else { "are" }
    )
}

fn others<'a>(faultless_arms: &'a [&'a str], arm: &'a str) -> impl Iterator<Item = &'a str> {
    faultless_arms
        .iter()
        .copied()
        .filter(move |other| *other != arm)
}

/// Arms without failures and without differences from the reference.
fn faultless_arms<'a>(results: &'a Results, method: &str) -> Vec<&'a str> {
    let mut faultless_arms = Vec::new();
    for (arm, verdict) in results.header.arms.iter().zip(&results.header.verdicts) {
        let answered = |cell| results.samples_of(cell).all(|sample| sample.result.is_ok());
        if verdict.different == 0 && results.cell(arm, method).is_some_and(answered) {
            faultless_arms.push(arm.as_str());
        }
    }
    faultless_arms
}

pub fn page(results: &Results) -> Vec<Block> {
    let columns = ["load", "node", "requests", "total [s]", "average [s]"];
    let note = "Over the rounds in which every node answered all requests of the load well.";
    let mut out = cells::table("study-totals", "Total and average time", &columns, note);
    let mut sentences = Vec::new();
    for load in loads(results) {
        for (node, requests, total) in &load.nodes {
            let mean = (*requests > 0).then(|| total / *requests as f64);
            out.rows.push(vec![
                words(&load.title),
                words(node),
                known(*requests as f64, 0),
                cells::number(
                    Some(*total).filter(|_| *requests > 0),
                    3,
                    "no round was good",
                ),
                cells::number(mean, 6, "no round was good"),
            ]);
        }
        let lines = load.lines.iter();
        sentences.extend(lines.map(|line| Block::Text(format!("{}: {line}", load.title))));
    }
    let mut blocks = disk::blocks(&results.header.disks);
    blocks.push(Block::Table(out));
    blocks.extend(sentences);
    blocks.extend(paragraphs(&recommendations(results)));
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::results;

    #[test]
    fn totals_averages_and_the_routing_by_method_are_those_of_the_run() {
        let around = |base: u64, step: u64| move |round: u64| (base + round * step % 5) * 1_000_000;
        let (one, two, same) = (around(10, 7919), around(20, 7817), around(30, 7919));
        let cells: [crate::results::tests::FakeCell<'_>; 4] = [
            ("one", 1, &two),
            ("two", 1, &one),
            ("one", 2, &same),
            ("two", 2, &same),
        ];
        let out = tables(&results(100, &cells));
        assert!(
            out.contains("Total time for 100 requests to one: 2.200 seconds"),
            "{out}"
        );
        assert!(
            out.contains("Average time per request to two: 0.012000 seconds"),
            "{out}"
        );
        assert!(
            out.contains("The average of one is 83.3 % above that of two"),
            "{out}"
        );
        assert!(
            out.contains("Total time for 200 requests to one: 5.400 seconds"),
            "{out}"
        );
        assert!(
            out.contains("Send account of 1 to two, which saves "),
            "{out}"
        );
        assert!(out.contains(" ms against one"), "{out}");
        assert!(
            out.contains("Send account of 2 to any: no difference is shown"),
            "{out}"
        );
        let alone = out.split("=== account of 1 ===").nth(1).unwrap();
        assert!(
            alone.contains("The fastest of a round was one in 0, two in 100 of 100"),
            "{out}"
        );
        // In these rounds one is always asked before two.
        let both =
            "asked first and after another: one 22.000 ms and never, two never and 12.000 ms";
        assert!(alone.contains(both), "{out}");
    }

    #[test]
    fn equal_stalling_nodes_rarely_yield_a_routing_recommendation() {
        let mut random = fastrand::Rng::with_seed(9);
        let (mut wrong, mut drift) = (0, 0);
        for run in 0..80_u64 {
            // In every other run the second node gets slower and slower.
            let step = if run % 2 == 0 { 0 } else { 10_000 };
            let mut latencies = |step: u64| -> Vec<u64> {
                let mut one = |round| {
                    let stall = if random.u32(0..200) == 0 {
                        20_000_000
                    } else {
                        0
                    };
                    10_000_000 + round * step + random.u64(0..2_000_000) + stall
                };
                (0..400).map(&mut one).collect()
            };
            let (a, b) = (latencies(0), latencies(step));
            let (a, b) = (
                |round: u64| a[round as usize],
                |round: u64| b[round as usize],
            );
            let results = results(400, &[("one", 1, &a), ("two", 1, &b)]);
            let compared = one(&results, ("one", "two"), ("account of 1", None), 1).unwrap();
            let out = recommendations(&results);
            let sent = !out.contains("Send account of 1 to any: no difference is shown");
            assert!(!sent || compared.mean.reliable.is_reliable(), "{out}");
            if step == 0 {
                wrong += u32::from(sent);
            } else {
                drift += u32::from(out.contains("is shown, since the series drifts"));
            }
        }
        assert!(wrong <= 5 && drift > 30, "{wrong} {drift}");
    }

    #[test]
    fn a_clear_difference_is_shown_among_eight_nodes() {
        let mut random = fastrand::Rng::with_seed(5);
        let noise: Vec<u64> = (0..8 * 60).map(|_| random.u64(0..2_000_000)).collect();
        let at = |arm: u64| {
            let noise = &noise;
            move |round: u64| if arm == 3 { 10_000_000 } else { 20_000_000 } + noise[(arm * 60 + round) as usize]
        };
        let made: Vec<_> = (0..8).map(at).collect();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut cells: Vec<crate::results::tests::FakeCell<'_>> = Vec::new();
        for size in [1, 2] {
            cells.extend(
                names
                    .iter()
                    .zip(&made)
                    .map(|(name, made)| (*name, size, made as &dyn Fn(u64) -> u64)),
            );
        }
        let out = recommendations(&results(60, &cells));
        assert!(
            out.contains("Send account of 1 to d, which saves")
                && out.contains("of 2 to d, which saves"),
            "{out}"
        );
    }

    #[test]
    fn a_node_whose_slow_responses_fail_is_not_called_faster() {
        let (fast, slow) = (|_: u64| 10_000_000, |_: u64| 90_000_000);
        let cells: [crate::results::tests::FakeCell<'_>; 4] = [
            ("one", 1, &fast),
            ("two", 1, &fast),
            ("one", 2, &slow),
            ("two", 2, &slow),
        ];
        let mut results = results(40, &cells);
        // The second node gives none of the slow answers in half of the rounds.
        for sample in results
            .samples
            .iter_mut()
            .filter(|sample| sample.cell == 3 && sample.round < 20)
        {
            sample.result = Err("timeout".to_owned());
        }
        let out = tables(&results);
        let mixed = out.split("=== the mixed load ===").nth(1).unwrap();
        assert!(
            mixed.contains("Total time for 40 requests to one: 2.000 seconds"),
            "{out}"
        );
        assert!(
            mixed.contains("Average time per request to two: 0.050000 seconds"),
            "{out}"
        );
        assert!(
            mixed.contains("20 of 40 rounds are left out: not every answer was good"),
            "{out}"
        );
        assert!(
            out.contains("left out, since not every answer was good: two"),
            "{out}"
        );
    }
}
