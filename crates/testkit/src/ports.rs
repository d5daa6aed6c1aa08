//! Blocks of ports that clusters of different processes on one machine do not share.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use crate::{Error, Result};

/// Ports in one block.
pub const BLOCK: u16 = 200;

/// A block of consecutive loopback ports. A listener on its first port reserves it until this is dropped.
#[derive(Debug)]
pub struct PortBlock {
    first: u16,
    _guard: TcpListener,
}

impl PortBlock {
    /// The first block at or above `base` of which no port is in use, below the range that Linux gives to outgoing
    /// connections (32768 unless changed).
    ///
    /// # Errors
    /// [`Error::Missing`] when there is none.
    pub fn claim(base: u16) -> Result<Self> {
        let last_start = 32_768 - BLOCK;
        (base..=last_start)
            .step_by(usize::from(BLOCK))
            .find_map(Self::try_claim)
            .ok_or_else(|| {
                Error::Missing(format!(
                    "no free block of {BLOCK} ports between {base} and 32768 on this machine"
                ))
            })
    }

    /// The port with this index in the block; index 0 is the listener.
    pub fn port(&self, index: u16) -> u16 {
        self.first + index.min(BLOCK - 1)
    }

    fn try_claim(first: u16) -> Option<Self> {
        let guard = TcpListener::bind((Ipv4Addr::LOCALHOST, first)).ok()?;
        (first + 1..first + BLOCK).all(is_free).then_some(Self {
            first,
            _guard: guard,
        })
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        && UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eventually::eventually;
    use std::time::Duration;

    #[test]
    fn two_blocks_share_no_port_and_a_dropped_one_is_free_again() -> Result<()> {
        // Far from the ports of other tests, which may run now.
        let one = PortBlock::claim(29_000)?;
        let two = PortBlock::claim(29_000)?;
        assert!(two.port(0) >= one.port(0) + BLOCK);
        assert_eq!(one.port(5), one.port(0) + 5);
        let freed = one.port(0);
        drop(one);
        // A program that another test starts at this moment has the guard until it executes.
        eventually(
            Duration::from_secs(10),
            "the first block is free again",
            || PortBlock::try_claim(freed),
        );
        Ok(())
    }

    #[test]
    fn a_port_range_with_one_port_in_use_is_skipped() -> Result<()> {
        let block = PortBlock::claim(31_000)?;
        let (first, inside) = (block.port(0), block.port(7));
        drop(block);
        let _in_use = UdpSocket::bind((Ipv4Addr::LOCALHOST, inside)).unwrap();
        assert!(PortBlock::try_claim(first).is_none());
        Ok(())
    }
}
