use super::super::*;

const HEADING: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops            \n";

#[test]
fn port_queue_owner_and_drops_are_parsed_for_ipv4_and_ipv6() {
    let v4 = " 1184: 0100007F:1F90 00000000:0000 07 00000000:00033C00 00:00000000 00000000  1000        0 8451 2 0000000000000000 17         \n";
    let v6 = " 1185: 00000000000000000000000000000000:0044 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0000000000000000 0\n";
    let sockets = udp_sockets(format!("{HEADING}{v4}{v6}").as_bytes()).unwrap();
    assert_eq!(
        sockets[0],
        UdpSocket {
            port: 8080,
            receive_queue: 0x33c00,
            uid: 1000,
            inode: 8451,
            drops: 17
        }
    );
    assert_eq!((sockets[1].port, sockets[1].uid), (68, 0));
    assert_eq!(udp_sockets(HEADING.as_bytes()).unwrap(), []);
}

#[test]
fn a_truncated_network_line_is_an_error() {
    let cut = " 1184: 0100007F:1F90 00000000:0000 07 00000000:00033C00 00:00000000 00000000  1000        0 8451\n";
    assert_eq!(
        udp_sockets(format!("{HEADING}{cut}").as_bytes())
            .unwrap_err()
            .line,
        2
    );
}

#[test]
fn a_socket_with_a_counter_below_zero_is_left_out() {
    let socket = |port: &str, queue: &str, drops: &str| {
        format!(" 1: 0100007F:{port} 0:0 07 0:{queue} 00:0 0 1000 0 8451 2 0 {drops}\n")
    };
    let text = [
        socket("0001", "FFFFF000", "0"),
        socket("0002", "0", "-1"),
        socket("0003", "0", "5"),
    ];
    let sockets = udp_sockets(format!("{HEADING}{}", text.concat()).as_bytes()).unwrap();
    let ports: Vec<u16> = sockets.iter().map(|socket| socket.port).collect();
    assert_eq!(ports, [3]);
}
