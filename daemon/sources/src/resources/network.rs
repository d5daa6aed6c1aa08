//! The validator's UDP sockets and network interfaces.

use crate::{
    discovery::{Target, process_uid},
    tick::SourceOutput,
};
use faultline_kernel::{
    HostRoot, ProcessId, if_present,
    parse::network::{self, InterfaceTraffic, UdpCounters, UdpSocket},
};
use faultline_metrics::{AddReadings, LabelText, Reading, metrics::resources as m};
use itertools::Itertools;
use std::{collections::HashMap, ops::RangeInclusive};

/// Each costs four series.
const MAX_INTERFACES: usize = 4;

/// A socket that is missing from this many polls is closed. The kernel's list is not atomic: an
/// open socket may be missing.
const MAX_MISSED_POLLS: u64 = 4;

/// Polls the UDP sockets of the validator's user on its ports, and the busiest interfaces.
#[derive(Default)]
pub struct Network {
    process: Option<ProcessId>,
    polls: u64,
    /// By socket inode: its drop count and the poll when it was last seen.
    drop_counts: HashMap<u64, (u64, u64)>,
    /// Drops since the first poll of this process, including those of closed sockets.
    total_drops: u64,
    interfaces: Vec<String>,
}

impl Network {
    pub fn poll(
        &mut self,
        root: &HostRoot,
        target: &Target,
        ports: Option<&[RangeInclusive<u16>]>,
        output: &mut SourceOutput,
    ) {
        if self.process != Some(target.process) {
            *self = Self {
                process: Some(target.process),
                ..Self::default()
            };
        }
        let file = |name: &str| format!("{}/net/{name}", target.process.pid);
        if let (Some(ports), Some(uid)) = (ports, process_uid(root, target.process)) {
            let v4 = output.value_or_problem(root.read_proc(&file("udp"), network::udp_sockets));
            // A kernel without IPv6 has no such file.
            let v6 = if_present(root.read_proc(&file("udp6"), network::udp_sockets));
            if let (Some(mut sockets), Some(v6)) = (v4, output.value_or_problem(v6)) {
                sockets.extend(v6.into_iter().flatten());
                sockets.retain(|socket| {
                    socket.uid == uid && ports.iter().any(|range| range.contains(&socket.port))
                });
                self.add_sockets(sockets, output);
            }
        }
        if let Some(counters) =
            output.value_or_problem(root.read_proc(&file("snmp"), UdpCounters::parse))
        {
            add_udp_readings(counters, output);
        }
        if let Some(mut interfaces) =
            output.value_or_problem(root.read_proc(&file("dev"), network::interfaces))
        {
            // Only physical interfaces have a `device`.
            let folder = root.sysfs.join("class/net");
            interfaces.retain(|interface| folder.join(&interface.name).join("device").exists());
            for interface in self.busiest(&interfaces) {
                add_interface_readings(interface, &mut output.readings);
            }
        }
    }

    /// A selected interface stays selected until it vanishes.
    fn busiest<'a>(&mut self, interfaces: &'a [InterfaceTraffic]) -> Vec<&'a InterfaceTraffic> {
        let by_name = |name: &String| interfaces.iter().find(|interface| interface.name == *name);
        self.interfaces.retain(|name| by_name(name).is_some());
        let unselected = interfaces
            .iter()
            .filter(|interface| !self.interfaces.contains(&interface.name))
            // Stable: equal traffic stays sorted by name.
            .sorted_by_key(|interface| {
                std::cmp::Reverse(
                    interface
                        .received_bytes
                        .saturating_add(interface.sent_bytes),
                )
            })
            .map(|interface| interface.name.clone());
        self.interfaces.extend(unselected);
        self.interfaces.truncate(MAX_INTERFACES);
        self.interfaces.iter().filter_map(by_name).collect()
    }

    fn add_sockets(&mut self, mut sockets: Vec<UdpSocket>, output: &mut SourceOutput) {
        // The list may contain a socket twice; a closing one has no inode.
        sockets.sort_unstable_by_key(|socket| (socket.inode, std::cmp::Reverse(socket.drops)));
        sockets.dedup_by_key(|socket| socket.inode);
        sockets.retain(|socket| socket.inode != 0);
        for socket in &sockets {
            let count = (socket.drops, self.polls);
            self.total_drops += match self.drop_counts.insert(socket.inode, count) {
                None if self.polls == 0 => 0,
                None => socket.drops,
                // A smaller count is of another socket with the same inode.
                Some((known, _)) => socket.drops.checked_sub(known).unwrap_or(socket.drops),
            };
        }
        self.drop_counts
            .retain(|_, (_, seen)| self.polls - *seen < MAX_MISSED_POLLS);
        self.polls += 1;
        output.integer(&m::UDP_SOCKETS, [], sockets.len() as u64);
        output.integer(&m::UDP_DROPS, [], self.total_drops);
        let queues = || sockets.iter().map(|socket| socket.receive_queue);
        output.integer(&m::UDP_QUEUE, ["all"], queues().sum::<u64>());
        output.integer(&m::UDP_QUEUE, ["fullest"], queues().max());
    }
}

fn add_udp_readings(counters: UdpCounters, output: &mut SourceOutput) {
    output.integer(&m::UDP_DATAGRAMS, ["receive"], counters.received);
    output.integer(&m::UDP_DATAGRAMS, ["transmit"], counters.sent);
    output.integer(&m::UDP_ERRORS, ["receive"], counters.receive_errors);
    output.integer(
        &m::UDP_ERRORS,
        ["receive_buffer"],
        counters.receive_buffer_errors,
    );
    output.integer(&m::UDP_ERRORS, ["send_buffer"], counters.send_buffer_errors);
    output.integer(&m::UDP_ERRORS, ["no_port"], counters.no_port);
}

fn add_interface_readings(interface: &InterfaceTraffic, out: &mut Vec<Reading>) {
    let name = LabelText::from(interface.name.clone());
    for (direction, bytes, drops) in [
        (
            "receive",
            interface.received_bytes,
            interface.received_drops,
        ),
        ("transmit", interface.sent_bytes, interface.sent_drops),
    ] {
        let labels = || [name.clone(), direction.into()];
        out.integer(&m::NETWORK_BYTES, labels(), bytes);
        out.integer(&m::NETWORK_DROPS, labels(), drops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(inode: u64, drops: u64, receive_queue: u64) -> UdpSocket {
        UdpSocket {
            port: 8001,
            receive_queue,
            uid: 0,
            inode,
            drops,
        }
    }

    fn poll(network: &mut Network, sockets: &[UdpSocket]) -> Vec<f64> {
        let mut output = SourceOutput::default();
        network.add_sockets(sockets.to_vec(), &mut output);
        { output.readings.iter() }
            .filter_map(|reading| reading.value.number())
            .collect()
    }

    #[test]
    fn drops_count_from_the_first_poll_and_never_decrease() {
        let mut network = Network::default();
        assert_eq!(
            poll(&mut network, &[socket(1, 10, 5), socket(2, 4, 7)]),
            [2.0, 0.0, 12.0, 7.0]
        );
        assert_eq!(poll(&mut network, &[socket(2, 6, 0)]), [1.0, 2.0, 0.0, 0.0]);
        assert_eq!(
            poll(&mut network, &[socket(2, 1, 0), socket(3, 2, 0)])[1],
            5.0,
            "the number was used again"
        );
        assert_eq!(
            poll(&mut network, &[]),
            [0.0, 5.0, 0.0],
            "of no socket none is the fullest"
        );
    }

    #[test]
    fn drops_of_a_missed_or_duplicate_socket_count_once() {
        let mut network = Network::default();
        poll(&mut network, &[socket(1, 1_000, 0)]);
        for _ in 1..MAX_MISSED_POLLS {
            assert_eq!(poll(&mut network, &[])[1], 0.0);
        }
        assert_eq!(
            poll(&mut network, &[socket(1, 1_003, 0), socket(1, 1_003, 0)])[..2],
            [1.0, 3.0]
        );
        (0..MAX_MISSED_POLLS).for_each(|_| drop(poll(&mut network, &[])));
        assert_eq!(network.drop_counts.len(), 0, "closed ones are forgotten");
        assert_eq!(
            poll(&mut network, &[socket(0, 7, 0)])[..2],
            [0.0, 3.0],
            "one without a number is being closed"
        );
    }

    #[test]
    fn the_busiest_interfaces_are_exported_and_stay_selected() {
        let one = |(name, bytes): (&str, u64)| InterfaceTraffic {
            name: name.to_owned(),
            received_bytes: bytes,
            sent_bytes: bytes,
            received_drops: 0,
            sent_drops: 0,
        };
        let mut network = Network::default();
        let mut names = |all: &[(&str, u64)]| {
            let all: Vec<_> = all.iter().copied().map(one).collect();
            network
                .busiest(&all)
                .iter()
                .map(|one| one.name.clone())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let (idle, busy) = ([("e0", 0), ("e1", 0), ("e2", 0), ("e3", 0)], ("e4", 9));
        assert_eq!(names(&[&idle[..], &[busy]].concat()), "e4 e0 e1 e2");
        assert_eq!(
            names(&[("e0", 0), ("e1", 0), ("e2", 0), ("e3", 99), busy]),
            "e4 e0 e1 e2",
            "the same ones"
        );
        assert_eq!(
            names(&[("e1", 0), ("e2", 0), ("e3", 99), busy]),
            "e4 e1 e2 e3",
            "in the place of one that went"
        );
    }
}
