//! Checks that nodes are of one chain.

use super::chain::{self, Chain, RpcCall, method};
use crate::answer::Expected;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::run::Engine;
use anyhow::{Context as _, bail};
use faultline_text::{clean, count};

/// A slot may be skipped, so several heights are tried.
const TRIED_HEIGHTS: u64 = 4;

/// Compares the first blocks.
pub(super) fn genesis(engine: &Engine, chain: &Chain, base_plan: &Plan) -> anyhow::Result<String> {
    let found = first_common_hash(engine, chain, base_plan, (chain.hashes[0], &[0]))?;
    Ok(match found {
        Ok((_, hash)) => format!("all nodes have the genesis {hash}"),
        Err(why) => format!("the genesis of the nodes could not be compared: {why}"),
    })
}

/// Compares one of the last blocks of `from..=to`.
pub(super) fn block(
    engine: &Engine,
    chain: &Chain,
    base_plan: &Plan,
    (from, to): (u64, u64),
) -> anyhow::Result<String> {
    let heights: Vec<u64> = (from.max(to.saturating_sub(TRIED_HEIGHTS - 1))..=to)
        .rev()
        .collect();
    let found = first_common_hash(engine, chain, base_plan, (chain.hashes[1], &heights))?;
    Ok(match found {
        Ok((height, hash)) => format!(
            "all nodes have the block {} with the hash {hash}",
            count(height)
        ),
        Err(why) => format!("no block of the nodes could be compared: {why}"),
    })
}

/// Height and hash of the first block whose hash all nodes report. The inner error is the reason why
/// no block has one. Fails if the hashes differ.
fn first_common_hash(
    engine: &Engine,
    chain: &Chain,
    base_plan: &Plan,
    (call, heights): (RpcCall, &[u64]),
) -> anyhow::Result<Result<(u64, String), String>> {
    let mut plan = base_plan.clone();
    for height in heights {
        let numbers = Some((*height, *height));
        plan.add_request(height.to_string(), method(call), numbers, Expected::Text);
    }
    let answers = engine.probe(&plan)?;
    let mut why = "the nodes gave no answer".to_owned();
    for (height, answers) in heights
        .iter()
        .zip(answers.chunks(base_plan.arms.len().max(1)))
    {
        let (mut known, mut unknown) = (Vec::new(), None);
        for (node, answer) in base_plan.arms.iter().zip(answers) {
            match hash(chain, answer) {
                Ok(hash) => known.push((node, hash)),
                Err(why) => unknown = unknown.or(Some(format!("{node}: {why}"))),
            }
        }
        if let Some((first, hash)) = known.first()
            && let Some((other, theirs)) = known.iter().find(|(_, other)| other != hash)
        {
            bail!(
                "{first} and {other} are of different chains, so nothing was measured: {} for block {} gives {hash} and {theirs}",
                call.0,
                count(*height)
            );
        }
        match (unknown, known.pop()) {
            (None, Some((_, hash))) => return Ok(Ok((*height, hash))),
            (unknown, _) => why = unknown.unwrap_or(why),
        }
    }
    Ok(Err(why))
}

fn hash(chain: &Chain, answer: &Result<Vec<u8>, Failure>) -> Result<String, String> {
    let bytes = answer.as_ref().map_err(ToString::to_string)?;
    let value = serde_json::from_slice(bytes).context("no JSON");
    let hash = value.ok().and_then(|value| chain::hash(chain, &value));
    let hash = hash.map(|hash| clean(&hash.chars().take(100).collect::<String>()));
    hash.ok_or_else(|| "an answer without a hash".to_owned())
}
