//! Total and mean times of nodes, as in the study that `bench nodes` repeats, and the recommended
//! node for each method. The study is Reddio's "Performance and Storage Comparison Between
//! Pathfinder and Juno".

use crate::{
    compare::{Comparison, absolute_bounds, compare_arms},
    disk,
    render::{paragraphs, unreliable_suffix},
    results::{Results, ms},
};
use faultline_pages::{
    cells::{self, number_cell, text_cell},
    model::Block,
};
use faultline_stats::arms::Direction;
use faultline_text::{count, lines, number};
use itertools::Itertools;

/// Times of all nodes for one method, or for all methods together. Rounds with a failed request are
/// left out: a node whose slow answers fail would seem faster.
struct MethodTimes {
    title: String,
    nodes: Vec<NodeTimes>,
    sentences: Vec<String>,
}

struct NodeTimes {
    node: String,
    requests: usize,
    total_ms: f64,
}

impl NodeTimes {
    /// Total and mean in seconds; `None` without a complete round.
    fn seconds(&self) -> Option<(f64, f64)> {
        let total = self.total_ms / 1e3;
        (self.requests > 0).then(|| (total, total / self.requests as f64))
    }
}

/// For each node and method, the request's number in the run and its latency in ms.
type CompleteRound = Vec<Vec<(u64, f64)>>;

pub fn study_text(results: &Results) -> String {
    let mut out = disk::text(&results.header.folder_usages);
    for method in all_method_times(results) {
        out += &format!("=== {} ===\n\n", method.title);
        for times in &method.nodes {
            let node = &times.node;
            out += &match times.seconds() {
                None => format!("No round is complete: there is no time of {node}\n"),
                Some((total, mean)) => format!(
                    "Total time for {} requests to {node}: {total:.3} seconds\n\
                     Average time per request to {node}: {mean:.6} seconds\n",
                    count(times.requests as u64)
                ),
            };
        }
        out += &(lines(&method.sentences) + "\n");
    }
    out + &recommend_nodes(results) + "\n"
}

fn all_method_times(results: &Results) -> Vec<MethodTimes> {
    let methods = results.request_labels();
    let of_method = |method: &&str| method_times(results, method, &[method]);
    let mut times = methods.iter().map(of_method).collect_vec();
    if methods.len() > 1 {
        times.push(method_times(results, "all methods together", &methods));
    }
    times
}

fn method_times(results: &Results, title: &str, methods: &[&str]) -> MethodTimes {
    let arms = &results.header.arms;
    let requests_of_case = |case_index| {
        results.map_by_round(case_index, |sample| {
            Some((sample.number, ms(sample.latency_ns()?)))
        })
    };
    let requests_of_arm = |arm: &String| {
        methods
            .iter()
            .filter_map(|method| results.case_index(arm, method))
            .map(requests_of_case)
            .collect_vec()
    };
    // By arm, method and round.
    let requests = arms.iter().map(requests_of_arm).collect_vec();
    let complete_round = |round| -> Option<CompleteRound> {
        requests
            .iter()
            .map(|arm| arm.iter().map(|case| case[round]).collect())
            .collect()
    };
    let total_rounds = results.rounds();
    let rounds = (0..total_rounds).filter_map(complete_round).collect_vec();
    let node_times = |(index, arm): (usize, &String)| NodeTimes {
        node: arm.clone(),
        requests: rounds.iter().map(|round| round[index].len()).sum(),
        total_ms: rounds.iter().map(|round| sum_ms(&round[index])).sum(),
    };
    let nodes = arms.iter().enumerate().map(node_times).collect_vec();
    let mut sentences = Vec::new();
    if rounds.len() < total_rounds {
        let left_out = count((total_rounds - rounds.len()) as u64);
        sentences.push(format!(
            "{left_out} of {} rounds are left out: a request failed",
            count(total_rounds as u64)
        ));
    }
    if !rounds.is_empty() && arms.len() > 1 {
        sentences.extend(slowest_above_fastest(&nodes));
        sentences.push(fastest_of_rounds(arms, &rounds));
        sentences.push(order_effect(arms, &rounds));
    }
    MethodTimes {
        title: title.to_owned(),
        nodes,
        sentences,
    }
}

/// Over all methods of a round.
fn sum_ms(requests: &[(u64, f64)]) -> f64 {
    requests.iter().map(|(_, ms)| ms).sum()
}

fn fastest_of_rounds(arms: &[String], rounds: &[CompleteRound]) -> String {
    let mut rounds_won = vec![0; arms.len()];
    for round in rounds {
        let sums = round.iter().map(|requests| sum_ms(requests));
        if let Some(fastest) = sums.position_min_by(f64::total_cmp) {
            rounds_won[fastest] += 1;
        }
    }
    let mut counts = arms
        .iter()
        .zip(rounds_won)
        .map(|(arm, rounds)| format!("{arm} in {}", count(rounds)));
    format!(
        "The fastest of a round was {} of {}",
        counts.join(", "),
        count(rounds.len() as u64)
    )
}

/// Not a statistical test: only [`recommend_nodes`] decides whether a node is faster.
fn slowest_above_fastest(nodes: &[NodeTimes]) -> Option<String> {
    let (fastest, slowest) = nodes
        .iter()
        .minmax_by(|a, b| a.total_ms.total_cmp(&b.total_ms))
        .into_option()?;
    let percent = (slowest.total_ms / fastest.total_ms - 1.0) * 100.0;
    Some(format!(
        "The average of {} is {} % above that of {}",
        slowest.node,
        number(percent, 1),
        fastest.node
    ))
}

/// Mean latencies, separately for requests that no other node got before. The first request may
/// warm caches.
fn order_effect(arms: &[String], rounds: &[CompleteRound]) -> String {
    let mut lines = Vec::new();
    for (index, arm) in arms.iter().enumerate() {
        let (mut first, mut later) = (Vec::new(), Vec::new());
        for round in rounds {
            for (method, (number, ms)) in round[index].iter().enumerate() {
                let is_earlier = |other: &Vec<(u64, f64)>| {
                    other.get(method).is_some_and(|(other, _)| other < number)
                };
                if round.iter().any(is_earlier) {
                    later.push(*ms);
                } else {
                    first.push(*ms);
                }
            }
        }
        let mean = |times: &[f64], order: &str| match times.len() {
            0 => format!("never {order}"),
            n => format!(
                "{} ms if {order}",
                number(times.iter().sum::<f64>() / n as f64, 3)
            ),
        };
        lines.push(format!(
            "{arm} {}, {}",
            mean(&first, "first"),
            mean(&later, "later")
        ));
    }
    format!(
        "Averages by the order in which a round requests the nodes: {}",
        lines.join("; ")
    )
}

/// Compares all pairs of nodes on all methods, with simultaneous intervals. Leaves out nodes with
/// failed requests of a method, and nodes whose answers to any method differ.
fn recommend_nodes(results: &Results) -> String {
    let methods = results.request_labels();
    let arms = results.header.arms.len();
    let comparisons = methods.len() * arms * arms.saturating_sub(1) / 2;
    let mut out = String::new();
    let always_answers = |case_index| {
        results
            .samples_of(case_index)
            .all(|sample| sample.result.is_ok())
    };
    for method in methods {
        let (mut faultless_arms, mut left_out) = (Vec::new(), Vec::new());
        for (arm, answer_counts) in results.header.answers_by_arm() {
            if answer_counts.different == 0
                && results.case_index(arm, method).is_some_and(always_answers)
            {
                faultless_arms.push(arm);
            } else {
                left_out.push(arm);
            }
        }
        let mut compared = Vec::new();
        for (reference, arm) in faultless_arms.iter().copied().tuple_combinations() {
            let pair = compare_arms(results, [reference, arm], (method, None), comparisons);
            compared.extend(pair.map(|pair| (reference, pair)));
        }
        let node = recommended_node(&faultless_arms, &compared);
        out += &format!("Send {method} to {node}\n");
        if !left_out.is_empty() {
            out += &format!(
                "  left out, since requests failed or answers differ: {}\n",
                left_out.join(", ")
            );
        }
    }
    out
}

fn recommended_node(faultless_arms: &[&str], compared: &[(&str, Comparison)]) -> String {
    let faster_pair = |fast: &str, slow: &str| {
        compared
            .iter()
            .find(|(reference, pair)| match pair.decision.established() {
                Some(Direction::Lower) => (pair.arm.as_str(), *reference) == (fast, slow),
                Some(Direction::Higher) => (*reference, pair.arm.as_str()) == (fast, slow),
                None => false,
            })
    };
    match faultless_arms {
        [] => {
            return "no node: each has failed requests or answers that differ".to_owned();
        }
        [only] => return format!("{only}: there is no other to compare with"),
        _ => {}
    }
    for arm in faultless_arms {
        let savings = others(faultless_arms, arm).map(|other| {
            let (_, pair) = faster_pair(arm, other)?;
            let [least, most] = absolute_bounds([pair.mean.low, pair.mean.high], 3);
            Some(format!("{least} to {most} ms against {other}"))
        });
        if let Some(savings) = savings.collect::<Option<Vec<_>>>() {
            return format!("{arm}, which saves {}", savings.join(", "));
        }
    }
    let is_slower =
        |arm: &&str| others(faultless_arms, arm).any(|other| faster_pair(other, arm).is_some());
    let (slow, fast): (Vec<&str>, Vec<&str>) = faultless_arms.iter().copied().partition(is_slower);
    if slow.is_empty() {
        let why = unreliable_suffix(compared.iter().map(|(_, pair)| pair.decision));
        return format!("any: no difference is established{why}");
    }
    format!(
        "{}: {} {} slower",
        fast.join(" or "),
        slow.join(" and "),
        if slow.len() == 1 { "is" } else { "are" }
    )
}

fn others<'a>(arms: &'a [&'a str], arm: &'a str) -> impl Iterator<Item = &'a str> {
    arms.iter().copied().filter(move |other| *other != arm)
}

pub fn page(results: &Results) -> Vec<Block> {
    let columns = ["method", "node", "requests", "total [s]", "average [s]"];
    let note = "Over the rounds in which every node answered the method, or all methods, without a failure.";
    let mut out = cells::table("study-totals", "Total and average time", &columns, note);
    let mut sentences = Vec::new();
    for method in all_method_times(results) {
        for times in &method.nodes {
            let (total, mean) = times.seconds().unzip();
            out.rows.push(vec![
                text_cell(&method.title),
                text_cell(&times.node),
                number_cell(times.requests as f64, 0),
                cells::number_or(total, 3, "no complete round"),
                cells::number_or(mean, 6, "no complete round"),
            ]);
        }
        let texts = method.sentences.iter();
        sentences.extend(texts.map(|text| Block::Text(format!("{}: {text}", method.title))));
    }
    let mut blocks = disk::page(&results.header.folder_usages);
    blocks.push(Block::Table(out));
    blocks.extend(sentences);
    blocks.extend(paragraphs(&recommend_nodes(results)));
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
        let cases: [crate::results::tests::FakeCase<'_>; 4] = [
            ("one", 1, &two),
            ("two", 1, &one),
            ("one", 2, &same),
            ("two", 2, &same),
        ];
        let out = study_text(&results(100, &cases));
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
            out.contains("Send account of 2 to any: no difference is established"),
            "{out}"
        );
        let alone = out.split("=== account of 1 ===").nth(1).unwrap();
        assert!(
            alone.contains("The fastest of a round was one in 0, two in 100 of 100"),
            "{out}"
        );
        // In these rounds, one always gets its request before two.
        let both = ": one 22.000 ms if first, never later; two never first, 12.000 ms if later";
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
            let compared =
                compare_arms(&results, ["one", "two"], ("account of 1", None), 1).unwrap();
            let out = recommend_nodes(&results);
            let sent = !out.contains("Send account of 1 to any: no difference is established");
            assert!(!sent || compared.mean.reliability.is_reliable(), "{out}");
            if step == 0 {
                wrong += u32::from(sent);
            } else {
                drift += u32::from(out.contains("is established, since the series drifts"));
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
        let mut cases: Vec<crate::results::tests::FakeCase<'_>> = Vec::new();
        for size in [1, 2] {
            cases.extend(
                names
                    .iter()
                    .zip(&made)
                    .map(|(name, made)| (*name, size, made as &dyn Fn(u64) -> u64)),
            );
        }
        let out = recommend_nodes(&results(60, &cases));
        assert!(
            out.contains("Send account of 1 to d, which saves")
                && out.contains("of 2 to d, which saves"),
            "{out}"
        );
    }

    #[test]
    fn a_node_whose_slow_responses_fail_is_not_called_faster() {
        let (fast, slow) = (|_: u64| 10_000_000, |_: u64| 90_000_000);
        let cases: [crate::results::tests::FakeCase<'_>; 4] = [
            ("one", 1, &fast),
            ("two", 1, &fast),
            ("one", 2, &slow),
            ("two", 2, &slow),
        ];
        let mut results = results(40, &cases);
        // The second node gives none of the slow answers in half of the rounds.
        for sample in results
            .samples
            .iter_mut()
            .filter(|sample| sample.case_index == 3 && sample.round < 20)
        {
            sample.result = Err("timeout".to_owned());
        }
        let out = study_text(&results);
        let mixed = out.split("=== all methods together ===").nth(1).unwrap();
        assert!(
            mixed.contains("Total time for 40 requests to one: 2.000 seconds"),
            "{out}"
        );
        assert!(
            mixed.contains("Average time per request to two: 0.050000 seconds"),
            "{out}"
        );
        assert!(
            mixed.contains("20 of 40 rounds are left out: a request failed"),
            "{out}"
        );
        assert!(
            out.contains("left out, since requests failed or answers differ: two"),
            "{out}"
        );
    }
}
