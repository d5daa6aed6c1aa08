//! Files of a network namespace below `/proc/PID/net`.

use crate::{
    ParseError, Parsed,
    text::{count_or_underflow, counters, lines, number, rows_after_headings, words},
};

#[derive(Debug)]
pub struct InterfaceTraffic {
    pub name: String,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_drops: u64,
    pub sent_drops: u64,
}

/// The file `dev`, sorted by name.
pub fn interfaces(text: &[u8]) -> Parsed<Vec<InterfaceTraffic>> {
    let mut list = rows_after_headings(text, 2, "expected a network interface", interface)?;
    list.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(list)
}

/// The inner `None` is an interface with an underflowed counter. Old kernels allow colons in names.
fn interface(line: &[u8]) -> Option<Option<InterfaceTraffic>> {
    let colon = memchr::memrchr(b':', line)?;
    let name = String::from_utf8_lossy(line.get(..colon)?.trim_ascii()).into_owned();
    let mut counters = [None; 16];
    let mut words = words(line.get(colon + 1..)?);
    for counter in &mut counters {
        *counter = count_or_underflow(words.next()?)?;
    }
    let traffic = || {
        Some(InterfaceTraffic {
            name,
            received_bytes: counters[0]?,
            received_drops: counters[3]?,
            sent_bytes: counters[8]?,
            sent_drops: counters[11]?,
        })
    };
    Some(traffic())
}

counters! {
    /// IPv4, since the start of the network namespace. `None` if the kernel does not write the
    /// column or the counter underflowed.
    UdpCounters {
        received: b"InDatagrams",
        sent: b"OutDatagrams",
        no_port: b"NoPorts",
        /// Datagrams that could not be delivered, without `no_port`.
        receive_errors: b"InErrors",
        /// Part of `receive_errors`: the socket's buffer was full.
        receive_buffer_errors: b"RcvbufErrors",
        send_buffer_errors: b"SndbufErrors",
    }
}

impl UdpCounters {
    /// `Udp:` of the file `snmp`. procfs-core would require all other sections, too.
    pub fn parse(text: &[u8]) -> Parsed<Self> {
        let mut udp = lines(text).filter(|line| line.text.starts_with(b"Udp:"));
        let (Some(names), Some(values)) = (udp.next(), udp.next()) else {
            return Err(ParseError::new(
                1,
                text,
                "expected two lines that begin with Udp:",
            ));
        };
        let mut counters = Self::default();
        for (name, value) in words(names.text).zip(words(values.text)).skip(1) {
            if let Some(field) = counters.counter_mut(name) {
                *field =
                    count_or_underflow(value).ok_or_else(|| values.error("expected a number"))?;
            }
        }
        Ok(counters)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UdpSocket {
    pub port: u16,
    /// In bytes of kernel memory.
    pub receive_queue: u64,
    /// Owner of the socket's inode.
    pub uid: u32,
    pub inode: u64,
    /// Received datagrams that were dropped, mostly because the buffer was full.
    pub drops: u64,
}

/// The files `udp` and `udp6`. procfs-core does not read the drops.
pub fn udp_sockets(text: &[u8]) -> Parsed<Vec<UdpSocket>> {
    rows_after_headings(text, 1, "expected a UDP socket", socket)
}

/// `sl local remote st tx:rx tr:when retrnsmt uid timeout inode ref pointer drops`. The inner
/// `None` is a socket with an underflowed counter.
fn socket(line: &[u8]) -> Option<Option<UdpSocket>> {
    let mut words = words(line);
    let local = words.nth(1)?;
    let queues = words.nth(2)?;
    let uid = number(words.nth(2)?)?;
    let inode = number(words.nth(1)?)?;
    let drops = count_or_underflow(words.nth(2)?)?;
    let port = u16::try_from(number_after_colon(local)?).ok()?;
    let receive_queue = number_after_colon(queues)?;
    let queue_underflowed = receive_queue > u64::from(i32::MAX.cast_unsigned());
    Some(drops.filter(|_| !queue_underflowed).map(|drops| UdpSocket {
        port,
        receive_queue,
        uid,
        inode,
        drops,
    }))
}

/// Hexadecimal.
fn number_after_colon(word: &[u8]) -> Option<u64> {
    let digits = word.split(|&byte| byte == b':').nth(1)?;
    let digits = str::from_utf8(digits)
        .ok()
        .filter(|digits| !digits.starts_with('+'))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests;
