//! Adds up line protocol as `awk` would, without a line of the product's parser.

/// What the lines of one name and sender say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sum {
    /// Lines.
    pub(crate) lines: u64,
    /// The field, added up.
    pub(crate) total: u64,
}

/// The lines of one name and sender that were made at `since` or later, in nanoseconds since 1970.
pub(crate) fn sum(bodies: &[Vec<u8>], name: &str, sender: &str, field: &str, since: u128) -> Sum {
    let (head, key) = (format!("{name},host_id={sender} "), format!("{field}="));
    let mut sum = Sum::default();
    for line in bodies.iter().flat_map(|body| body.split(|byte| *byte == b'\n')) {
        let Some((fields, time)) =
            std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix(&head)?.rsplit_once(' '))
        else {
            continue;
        };
        if time.parse::<u128>().is_ok_and(|time| time >= since) {
            let values = fields.split(',').filter_map(|pair| pair.strip_prefix(&key)?.strip_suffix('i'));
            sum.lines += 1;
            sum.total += values.filter_map(|value| value.parse::<u64>().ok()).sum::<u64>();
        }
    }
    sum
}
