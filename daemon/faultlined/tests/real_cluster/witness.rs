//! Sums line protocol as `awk` would, without the product's parser.

use std::collections::BTreeSet;

/// The sum of an integer field over all lines with this name and sender.
pub fn sum(bodies: &[Vec<u8>], name: &str, sender: &str, field: &str) -> i64 {
    let head = format!("{name},host_id={sender} ");
    let key = format!("{field}=");
    let lines = bodies
        .iter()
        .flat_map(|body| body.split(|byte| *byte == b'\n'));
    lines
        .filter_map(|line| std::str::from_utf8(line).ok()?.strip_prefix(&head))
        .flat_map(|fields| fields.split([',', ' ']))
        .filter_map(|pair| {
            pair.strip_prefix(&key)?
                .strip_suffix('i')?
                .parse::<i64>()
                .ok()
        })
        .sum()
}

/// All senders of lines.
pub fn senders(bodies: &[Vec<u8>]) -> BTreeSet<String> {
    let lines = bodies
        .iter()
        .flat_map(|body| body.split(|byte| *byte == b'\n'));
    lines
        .filter_map(|line| {
            let (_, rest) = std::str::from_utf8(line).ok()?.split_once(",host_id=")?;
            rest.split([',', ' ']).next().map(str::to_owned)
        })
        .collect()
}
