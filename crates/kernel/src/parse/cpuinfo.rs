//! `/proc/cpuinfo` (proc_cpuinfo(5)): which processors the machine has.

use std::collections::BTreeSet;

use crate::ParseError;
use crate::text::{lines, number};

/// The processors, as far as the architecture tells. x86 tells all of it, arm64 only `threads`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cpuinfo {
    /// The first processor's name, such as `AMD EPYC 9554P 64-Core Processor`.
    pub model: Option<String>,
    /// Sockets with at least one processor that is online.
    pub sockets: Option<u64>,
    /// Cores with at least one processor that is online.
    pub cores: Option<u64>,
    /// Processors that are online.
    pub threads: u64,
    /// What the first processor ran at when the file was read, in MHz.
    pub current_mhz: Option<f64>,
}

/// # Errors
/// A text without a `processor` line.
pub fn parse(text: &[u8]) -> Result<Cpuinfo, ParseError> {
    let mut cpus = Cpuinfo::default();
    let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
    let mut socket = None;
    for line in lines(text) {
        let Some((key, value)) = line.split_at_byte(b':') else { continue };
        let value = value.trim_ascii();
        match key.trim_ascii() {
            b"processor" if number(value).is_some() => {
                cpus.threads += 1;
                socket = None;
            }
            b"model name" if cpus.model.is_none() => cpus.model = Some(String::from_utf8_lossy(value).into_owned()),
            b"cpu MHz" if cpus.current_mhz.is_none() => cpus.current_mhz = decimal(value),
            b"physical id" => {
                socket = number(value);
                sockets.extend(socket);
            }
            // Cores are counted anew in each socket.
            b"core id" => cores.extend(number(value).map(|core| (socket, core))),
            _ => {}
        }
    }
    if cpus.threads == 0 {
        return Err(ParseError::new(1, text, "expected a processor line"));
    }
    let count = |found: usize| (found > 0).then_some(found as u64);
    (cpus.sockets, cpus.cores) = (count(sockets.len()), count(cores.len()));
    Ok(cpus)
}

fn decimal(text: &[u8]) -> Option<f64> {
    str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sockets_of_two_cores_with_two_threads_each_are_eight_processors() {
        let one = |n: u32| {
            format!(
                "processor\t: {n}\nmodel name\t: AMD EPYC 7R13 Processor\ncpu MHz\t\t: 2649.998\nphysical id\t: {}\ncore id\t\t: {}\n\n",
                n / 4,
                n % 2
            )
        };
        let text: String = (0..8).map(one).collect();
        let cpus = parse(text.as_bytes()).unwrap();
        assert_eq!((cpus.sockets, cpus.cores, cpus.threads), (Some(2), Some(4), 8));
        assert_eq!(cpus.model.as_deref(), Some("AMD EPYC 7R13 Processor"));
        assert_eq!(cpus.current_mhz, Some(2649.998));
    }

    #[test]
    fn an_architecture_that_tells_less_leaves_it_unknown() {
        let cpus = parse(b"processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\nprocessor\t: 1\n").unwrap();
        assert_eq!(cpus, Cpuinfo { threads: 2, ..Cpuinfo::default() });
        assert!(parse(b"model name : none\n").is_err());
    }
}
