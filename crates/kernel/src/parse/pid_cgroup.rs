//! `/proc/PID/cgroup` (cgroups(7)): where a process is in each hierarchy.

use crate::ParseError;
use crate::text::lines;

/// A place in one hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The controllers bound to a v1 hierarchy, `name=...` included; empty for v2.
    pub controllers: Vec<String>,
    /// Whether it is the v2 hierarchy.
    pub unified: bool,
    /// From the root of the reader's cgroup namespace; `/../x` is outside of it.
    pub path: String,
    /// The cgroup has been removed while the process, a zombie, was still in it.
    pub deleted: bool,
}

/// # Errors
/// A line without its three fields.
pub fn parse(text: &[u8]) -> Result<Vec<Membership>, ParseError> {
    lines(text)
        .map(|line| {
            let mut fields = line.text.splitn(3, |&b| b == b':');
            let (Some(id), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(line.error("expected three fields"));
            };
            let controllers = String::from_utf8_lossy(controllers);
            let path = String::from_utf8_lossy(path);
            let living = path.strip_suffix(" (deleted)");
            Ok(Membership {
                unified: id == b"0" && controllers.is_empty(),
                controllers: controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
                deleted: living.is_some(),
                path: living.unwrap_or(&path).to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_host_lists_v1_hierarchies_and_the_unified_one() {
        let list = parse(b"9:name=systemd:/\n4:memory:/validator\n2:cpu,cpuacct:/a:b\n0::/v\n").unwrap();
        assert_eq!(list[1].controllers, ["memory"]);
        assert_eq!((list[2].controllers.len(), list[2].path.as_str()), (2, "/a:b"));
        assert!(list[3].unified && list[3].controllers.is_empty());
        assert!(!list[0].unified);
    }

    #[test]
    fn a_removed_cgroup_is_known_by_its_mark() {
        let list = parse(b"0::/sol.service (deleted)\n").unwrap();
        assert_eq!((list[0].path.as_str(), list[0].deleted), ("/sol.service", true));
    }

    #[test]
    fn a_line_with_two_fields_is_an_error() {
        assert_eq!(parse(b"0::/\n4:memory\n").unwrap_err().line, 2);
    }
}
