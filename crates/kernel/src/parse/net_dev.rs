//! `/proc/PID/net/dev`: the interfaces of a network namespace.

use crate::{
    ParseError,
    text::{count, rows, words},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceTraffic {
    pub name: String,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_drops: u64,
    pub sent_drops: u64,
}

/// By name, without interfaces with an underflowed counter.
pub fn parse(text: &[u8]) -> Result<Vec<InterfaceTraffic>, ParseError> {
    let mut list = rows(text, 2, "expected a network interface", interface)?;
    list.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

/// The inner `None` is an interface with an underflowed counter. An alias has colons in its name.
fn interface(line: &[u8]) -> Option<Option<InterfaceTraffic>> {
    let colon = memchr::memrchr(b':', line)?;
    let name = String::from_utf8_lossy(line.get(..colon)?.trim_ascii()).into_owned();
    let mut counters = [None; 16];
    let mut words = words(line.get(colon + 1..)?);
    for counter in &mut counters {
        *counter = count(words.next()?)?;
    }
    let [
        received_bytes,
        _,
        _,
        received_drops,
        _,
        _,
        _,
        _,
        sent_bytes,
        _,
        _,
        sent_drops,
        ..,
    ] = counters;
    let traffic = || {
        Some(InterfaceTraffic {
            name,
            received_bytes: received_bytes?,
            sent_bytes: sent_bytes?,
            received_drops: received_drops?,
            sent_drops: sent_drops?,
        })
    };
    Some(traffic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_interfaces_are_read() {
        let list = parse(include_bytes!("../../tests/text/linux-6.18/net_dev")).unwrap();
        let names: Vec<&str> = list.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["eth0", "ifb0", "ifb1", "lo"]);
        assert_eq!(
            (list[0].received_bytes, list[0].sent_bytes),
            (10_847_279_109, 24_978_252)
        );
    }

    #[test]
    fn a_truncated_network_line_is_an_error() {
        assert!(parse(b"a\nb\n  eth0: 1 2 3\n").is_err());
    }
}
