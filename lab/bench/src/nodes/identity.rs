//! Checks that nodes are of one chain.

use super::chain::{self, Chain, Question};
use crate::answer::Expected;
use crate::failure::Failure;
use crate::plan::{Cell, Plan, Subject};
use crate::run::Engine;
use anyhow::{Context as _, bail};
use faultline_text::{clean, count};

/// A slot may be skipped, so several heights are tried.
const HEIGHTS: u64 = 4;

/// Compares the first blocks.
pub(super) fn genesis(engine: &Engine, chain: &Chain, nodes: &Plan) -> anyhow::Result<String> {
    first_common_hash(engine, chain, nodes, (chain.hashes[0], &[0])).map(|found| match found {
        CommonHash::Same { hash, .. } => format!("all nodes have the genesis {hash}"),
        CommonHash::Unknown { why } => {
            format!("the genesis of the nodes could not be compared: {why}")
        }
    })
}

/// Compares a block at the end of `range`.
pub(super) fn block(
    engine: &Engine,
    chain: &Chain,
    nodes: &Plan,
    (from, to): (u64, u64),
) -> anyhow::Result<String> {
    let heights: Vec<u64> = (from.max(to.saturating_sub(HEIGHTS - 1))..=to)
        .rev()
        .collect();
    first_common_hash(engine, chain, nodes, (chain.hashes[1], &heights)).map(|found| match found {
        CommonHash::Same { height, hash } => format!(
            "all nodes have the block {} with the hash {hash}",
            count(height)
        ),
        CommonHash::Unknown { why } => format!("no block of the nodes could be compared: {why}"),
    })
}

enum CommonHash {
    Same { height: u64, hash: String },
    Unknown { why: String },
}

/// At the first height at which all nodes have one.
fn first_common_hash(
    engine: &Engine,
    chain: &Chain,
    nodes: &Plan,
    (question, heights): (Question, &[u64]),
) -> anyhow::Result<CommonHash> {
    let plan = plan(nodes, question, heights);
    let answers = engine.probe(&plan)?;
    let mut why = "the nodes gave no answer".to_owned();
    for (height, answers) in heights.iter().zip(answers.chunks(nodes.arms.len().max(1))) {
        let hashes: Vec<Result<String, String>> = answers
            .iter()
            .zip(&nodes.arms)
            .map(|(answer, node)| {
                hash(chain, answer).map_err(|why| format!("{}: {why}", node.name))
            })
            .collect();
        let known: Vec<(&str, &String)> = nodes
            .arms
            .iter()
            .zip(&hashes)
            .filter_map(|(node, hash)| Some((node.name.as_str(), hash.as_ref().ok()?)))
            .collect();
        ensure_same_hash(question.0, *height, &known)?;
        match hashes.into_iter().collect::<Result<Vec<String>, String>>() {
            Ok(hashes) => {
                let hash = hashes.into_iter().next().unwrap_or_default();
                return Ok(CommonHash::Same {
                    height: *height,
                    hash,
                });
            }
            Err(failure) => why = failure,
        }
    }
    Ok(CommonHash::Unknown { why })
}

fn ensure_same_hash(method: &str, height: u64, known: &[(&str, &String)]) -> anyhow::Result<()> {
    let Some((first, rest)) = known.split_first() else {
        return Ok(());
    };
    if let Some(other) = rest.iter().find(|(_, hash)| *hash != first.1) {
        bail!(
            "{} and {} are of different chains, so nothing was measured: {method} for block {} gives {} and {}",
            first.0,
            other.0,
            count(height),
            first.1,
            other.1
        );
    }
    Ok(())
}

fn hash(chain: &Chain, answer: &Result<Vec<u8>, Failure>) -> Result<String, String> {
    let bytes = answer.as_ref().map_err(ToString::to_string)?;
    let value = serde_json::from_slice(bytes).context("no JSON");
    let hash = value.ok().and_then(|value| chain::hash(chain, &value));
    let hash = hash.map(|hash| clean(&hash.chars().take(100).collect::<String>()));
    hash.ok_or_else(|| "an answer without a hash".to_owned())
}

fn plan(nodes: &Plan, (method, params): Question, heights: &[u64]) -> Plan {
    let cell = |(subject, height): (usize, &u64), arm: usize| Cell {
        arm,
        subject,
        link: arm,
        method: format!(r#""method":"{method}","params":{params}"#),
        numbers: Some((*height, *height)),
        expected: Expected::Text,
    };
    let arms = || 0..nodes.arms.len();
    let cells = heights.iter().enumerate();
    Plan {
        cells: cells
            .flat_map(|of| arms().map(move |arm| cell(of, arm)))
            .collect(),
        subjects: heights
            .iter()
            .map(|height| Subject {
                name: height.to_string(),
            })
            .collect(),
        ..nodes.clone()
    }
}
