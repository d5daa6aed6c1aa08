use super::super::*;

#[test]
fn captured_counters_are_read_by_their_names() {
    let udp =
        UdpCounters::parse(include_bytes!("../../../../tests/text/linux-6.18/net_snmp")).unwrap();
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
    assert_eq!(
        UdpCounters::parse(b"Udp: InDatagrams\nUdp: 5\n")
            .unwrap()
            .sent,
        None
    );
    let below_zero = UdpCounters::parse(b"Udp: InDatagrams NoPorts\nUdp: -4096 7\n").unwrap();
    assert_eq!((below_zero.received, below_zero.no_port), (None, Some(7)));
    assert!(UdpCounters::parse(b"Tcp: InSegs\nTcp: 5\n").is_err());
    assert!(UdpCounters::parse(b"Udp: InDatagrams\nUdp: x\n").is_err());
}
