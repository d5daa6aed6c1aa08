use procfs::VmStat;

use super::upstream::WantedLines;
use crate::ParseError;

/// Declares [`Vmstat`]: each field once, by the key of its line.
macro_rules! vmstat {
    ($($(#[$doc:meta])* $key:ident,)*) => {
        /// Since boot. `None` if the kernel does not write the line.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Vmstat {
            $($(#[$doc])* pub $key: Option<u64>,)*
        }

        const WANTED: WantedLines = WantedLines {
            separator: b' ',
            keys: &[$(stringify!($key).as_bytes()),*],
            required_lines: "",
            value: "expected a number",
        };

        /// # Errors
        /// A known line with something else where a number must be.
        pub fn parse(text: &[u8]) -> Result<Vmstat, ParseError> {
            let VmStat(found) = WANTED.read(text)?;
            let count = |key: &str| u64::try_from(*found.get(key)?).ok();
            Ok(Vmstat { $($key: count(stringify!($key)),)* })
        }
    };
}

vmstat! {
    pgfault,
    pgmajfault,
    pswpin,
    pswpout,
    /// In the host or in a cgroup. Since Linux 4.13.
    oom_kill,
    /// Pages. Since Linux 5.9.
    workingset_refault_anon,
    /// Pages. Since Linux 5.9.
    workingset_refault_file,
    pgscan_kswapd,
    pgscan_direct,
    pgsteal_kswapd,
    pgsteal_direct,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_counters_are_read() {
        let stat = parse(include_bytes!("../../tests/text/linux-6.18/vmstat")).unwrap();
        assert_eq!(
            (stat.pgfault, stat.pgmajfault),
            (Some(2_032_474), Some(1248))
        );
        assert_eq!((stat.pswpin, stat.oom_kill), (Some(0), Some(0)));
        assert_eq!(stat.workingset_refault_file, Some(185_150));
    }

    #[test]
    fn every_field_is_found_although_parsing_stops_early() {
        let stat = parse(include_bytes!("../../tests/text/linux-6.18/vmstat")).unwrap();
        let all = [
            stat.pgfault,
            stat.pgmajfault,
            stat.pswpin,
            stat.pswpout,
            stat.oom_kill,
        ];
        let reclaim = [
            stat.pgscan_kswapd,
            stat.pgscan_direct,
            stat.pgsteal_kswapd,
            stat.pgsteal_direct,
        ];
        let refaults = [stat.workingset_refault_anon, stat.workingset_refault_file];
        assert!(
            all.iter()
                .chain(&reclaim)
                .chain(&refaults)
                .all(Option::is_some),
            "{stat:?}"
        );
    }

    #[test]
    fn before_kernel_4_13_the_oom_kill_count_is_unknown() {
        assert_eq!(parse(b"pgfault 5\npgmajfault 1\n").unwrap().oom_kill, None);
    }
}
