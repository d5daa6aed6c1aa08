//! `Udp:` of `/proc/PID/net/snmp`. procfs-core would require all other sections, too.

use crate::{
    ParseError,
    text::{count, counters, lines, words},
};

counters! {
    /// Since the start of the network namespace. `None` if the kernel does not write the column.
    UdpCounters {
        received: b"InDatagrams",
        sent: b"OutDatagrams",
        no_port: b"NoPorts",
        /// Datagrams that could not be delivered, for any reason.
        receive_errors: b"InErrors",
        /// Part of `receive_errors`: the socket's buffer was full.
        receive_buffer_errors: b"RcvbufErrors",
        send_buffer_errors: b"SndbufErrors",
    }
}

pub fn parse(text: &[u8]) -> Result<UdpCounters, ParseError> {
    let mut udp = lines(text).filter(|line| line.text.starts_with(b"Udp:"));
    let (Some(names), Some(values)) = (udp.next(), udp.next()) else {
        return Err(ParseError::new(1, text, "expected two lines of Udp:"));
    };
    let mut found = UdpCounters::default();
    for (name, value) in words(names.text).zip(words(values.text)).skip(1) {
        if let Some(field) = found.counter(name) {
            *field = count(value).ok_or_else(|| values.error("expected a number"))?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_counters_are_read_by_their_names() {
        let udp = parse(include_bytes!("../../tests/text/linux-6.18/net_snmp")).unwrap();
        assert_eq!(
            (udp.received, udp.sent),
            (Some(16_418_730), Some(18_420_632))
        );
        assert_eq!(
            (udp.receive_errors, udp.receive_buffer_errors),
            (Some(1_461_529), Some(1_461_529))
        );
        assert_eq!(
            (udp.no_port, udp.send_buffer_errors),
            (Some(518_978), Some(0))
        );
    }

    #[test]
    fn a_missing_column_is_unknown_and_a_missing_section_an_error() {
        assert_eq!(parse(b"Udp: InDatagrams\nUdp: 5\n").unwrap().sent, None);
        let below_zero = parse(b"Udp: InDatagrams NoPorts\nUdp: -4096 7\n").unwrap();
        assert_eq!((below_zero.received, below_zero.no_port), (None, Some(7)));
        assert!(parse(b"Tcp: InSegs\nTcp: 5\n").is_err());
        assert!(parse(b"Udp: InDatagrams\nUdp: x\n").is_err());
    }
}
