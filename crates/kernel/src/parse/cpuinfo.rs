use std::collections::BTreeSet;

use procfs::{CpuInfo, FromRead};

use crate::ParseError;

/// x86 reports everything, arm64 only `threads`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cpuinfo {
    pub model: Option<String>,
    /// With at least one online CPU.
    pub sockets: Option<u64>,
    /// With at least one online CPU.
    pub cores: Option<u64>,
    /// Online.
    pub threads: u64,
}

pub fn parse(text: &[u8]) -> Result<Cpuinfo, ParseError> {
    let expected = || ParseError::new(1, text, "expected a processor line");
    let info = CpuInfo::from_read(text).map_err(|_| expected())?;
    let number = |cpu: usize, field: &str| info.get_field(cpu, field)?.parse::<u64>().ok();
    let cpus: Vec<usize> = (0..info.num_cores())
        .filter(|cpu| number(*cpu, "processor").is_some())
        .collect();
    if cpus.is_empty() {
        return Err(expected());
    }
    let sockets: BTreeSet<u64> = cpus
        .iter()
        .filter_map(|cpu| number(*cpu, "physical id"))
        .collect();
    // Core ids repeat in each socket.
    let core = |cpu: &usize| Some((number(*cpu, "physical id"), number(*cpu, "core id")?));
    let cores: BTreeSet<_> = cpus.iter().filter_map(core).collect();
    let count = |found: usize| (found > 0).then_some(found as u64);
    Ok(Cpuinfo {
        model: info.model_name(0).map(str::to_owned),
        sockets: count(sockets.len()),
        cores: count(cores.len()),
        threads: cpus.len() as u64,
    })
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
        assert_eq!(
            (cpus.sockets, cpus.cores, cpus.threads),
            (Some(2), Some(4), 8)
        );
        assert_eq!(cpus.model.as_deref(), Some("AMD EPYC 7R13 Processor"));
    }

    #[test]
    fn missing_cpuinfo_fields_on_other_architectures_are_unknown() {
        let cpus =
            parse(b"processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\nprocessor\t: 1\n")
                .unwrap();
        assert_eq!(
            cpus,
            Cpuinfo {
                threads: 2,
                ..Cpuinfo::default()
            }
        );
        assert!(parse(b"model name : none\n").is_err());
    }
}
