use super::{Abilities, Job};
use anyhow::{Result, bail};
use faultline_kernel::HostRoot;
use rustix::process::{Resource, getrlimit};
use std::fs;

const SYS_RESOURCE: u32 = 24;

/// Most open files that this program can set; `None` if unknown.
pub fn most(host: &HostRoot) -> Option<u64> {
    let system_max_open_files = system_max_open_files(host)?;
    let status = fs::read_to_string(host.procfs.join("self/status")).ok()?;
    let current = status
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())?;
    let own = getrlimit(Resource::Nofile)
        .maximum
        .filter(|_| current >> SYS_RESOURCE & 1 == 0);
    Some(own.map_or(system_max_open_files, |own| own.min(system_max_open_files)))
}

/// The kernel's maximum for any process: `fs.nr_open`.
pub fn system_max_open_files(host: &HostRoot) -> Option<u64> {
    fs::read_to_string(host.procfs.join("sys/fs/nr_open"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

pub fn check(job: &Job, can: &Abilities) -> Result<()> {
    match (job.open_files, can.open_files) {
        (Some(requested), Some(most)) if requested > most => bail!(
            "{requested} open files: at most {most} can be given here (the hard limit of this program, `ulimit -Hn`, without \
             CAP_SYS_RESOURCE; in any case fs.nr_open)"
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn without_the_capability_the_own_descriptor_limit_is_the_maximum() {
        let folder = tempfile::tempdir().unwrap();
        let host = HostRoot::below(folder.path());
        assert_eq!(most(&host), None);
        for folder in ["self", "sys/fs"] {
            fs::create_dir_all(host.procfs.join(folder)).unwrap();
        }
        let own = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let with = |capabilities: &str, system_max_open_files: u64| {
            fs::write(
                host.procfs.join("self/status"),
                format!("Name:\tx\nCapEff:\t{capabilities}\n"),
            )
            .unwrap();
            fs::write(
                host.procfs.join("sys/fs/nr_open"),
                format!("{system_max_open_files}\n"),
            )
            .unwrap();
            most(&host)
        };
        assert_eq!(with("0000000001000000", 1 << 40), Some(1 << 40));
        assert_eq!(with("00000000feffffff", 1 << 40), Some(own.min(1 << 40)));
        assert_eq!(with("00000000feffffff", 5), Some(5));
        assert_eq!(with("", 5), None);
    }
}
